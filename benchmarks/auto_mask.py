"""How far `--mask auto` can be trusted: what it marks in clear images, and what it finds of pairs' own difference.

    python benchmarks/auto_mask.py ../shared/data

Cloud is where the cloudy image of a pair is brighter than the clear one by more than 0.1 of the range, mean over red,
green and blue. The rule that was there before is measured beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from PIL import Image

from attcr.bands.spec import PICTURE_WHITE
from attcr.scenes.clouds.brightness import classes_of_brightness

Picture = NDArray[np.float32]
Rule = Callable[[Picture], NDArray[np.bool_]]
BRIGHTER = 0.1


def main() -> None:
    """Print a table of both rules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="The folder that holds clear_s2_rgb, rice2 and sen12mscr.")
    data = parser.parse_args().data
    rules: dict[str, Rule] = {"before": _before, "now": lambda picture: classes_of_brightness(picture) > 0}
    for name, rule in rules.items():
        marked = np.mean([rule(_picture(path)).mean() for path in sorted((data / "clear_s2_rgb").iterdir())])
        print(f"{name:7} clear_s2_rgb: {marked:.2%} marked")
        for title, pairs in (("RICE2 test", _rice2(data)), ("SEN12MS-CR", _sen12mscr(data))):
            print(f"{name:7} {title}: {_score(rule, pairs)}")


def _before(picture: Picture) -> NDArray[np.bool_]:
    brightness = picture.mean(axis=0)
    colour = np.ptp(picture, axis=0)
    found: NDArray[np.bool_] = (colour < 0.15 + 0.1 * brightness) & (brightness > 0.4)
    return found


def _score(rule: Rule, pairs: Iterator[tuple[Picture, Picture]]) -> str:
    hit = marked = there = 0
    for cloudy, clear in pairs:
        found, cloud = rule(cloudy), (cloudy - clear).mean(axis=0) > BRIGHTER
        hit += int((found & cloud).sum())
        marked += int(found.sum())
        there += int(cloud.sum())
    return f"recall {hit / there:.3f}, precision {hit / marked:.3f}"


def _rice2(data: Path) -> Iterator[tuple[Picture, Picture]]:
    names = [Path(name).stem for name in (data / "rice2" / "test_list.txt").read_text().split()]
    for name in names:
        cloudy, clear = (_picture(next((data / "rice2" / side).glob(f"{name}.*"))) for side in ("cloud", "label"))
        yield cloudy, clear


def _sen12mscr(data: Path) -> Iterator[tuple[Picture, Picture]]:
    for path in sorted((data / "sen12mscr" / "s2_cloudy").iterdir()):
        yield _reflectance(path), _reflectance(data / "sen12mscr" / "s2" / path.name)


def _picture(path: Path) -> Picture:
    planes = np.asarray(Image.open(path).convert("RGB"), np.float32).transpose(2, 0, 1)
    return np.asarray(planes / np.float32(255))


def _reflectance(path: Path) -> Picture:
    """Give red, green and blue of 13 bands as a picture shows them."""
    with rasterio.open(path) as raster:
        values: NDArray[Any] = raster.read([4, 3, 2])
    return np.asarray(np.clip(values.astype(np.float32) * np.float32(1e-4 / PICTURE_WHITE), 0, 1))


if __name__ == "__main__":
    main()
