"""Measure weights of any bands on simulated and on real cloud, exactly as they ship.

    python -m tools.s2_thin.evaluate s2-thin --data FOLDER --root ../shared/data/s2 --json figures.json

WEIGHTS is a published name or a file. With --data: held-out places under simulated cloud, and clear ones. With --root:
real haze, CloudSEN12, SEN12MS-CR and a series. README.md says what both folders hold. --quick takes a third of the
simulated images.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import attcr
from attcr.data.simulate import BROKEN_VEIL, HAZE, CloudKind, _broken, _noise, _reflection, _uniform
from attcr.files import write_whole

from .clear import held_out_l1c, held_out_l2a
from .layers import (
    CIRRUS,
    FITTED,
    KINDS,
    NANOMETRES,
    SALT,
    SAND,
    VAPOUR,
    Draw,
    simulate,
    through_air,
)
from .measure import Array, Certainty, Figures, Restorer, decibels, distance
from .real import cloudsen12, haze, sen12mscr, series
from .samples import ALL, L2A, TEN

BAND_SETS = {13: ALL, 12: L2A, 10: TEN, 6: (1, 2, 3, 8, 11, 12), 4: (1, 2, 3, 7), 3: (1, 2, 3)}
COLOURS = [1, 2, 3]
"""The bands that all of them share."""
THIN_KINDS = (HAZE, BROKEN_VEIL, replace(HAZE, thickness=(0.3, 4.0)))
SIZE = 192
"""Pixels a side of what is cut from a held-out place."""


def veil(clear: Tensor, kind: CloudKind, generator: torch.Generator, exponent: float) -> Tensor:
    """Give clear (13, H, W) under a plain veil: that of attcr.data.simulate, thinning with wavelength, no shadow."""
    limits = (kind.cover, kind.smoothness, kind.unevenness, kind.shift)
    cover, smoothness, unevenness, _ = (_uniform(*limit, generator) for limit in limits)
    middle = math.exp(_uniform(math.log(kind.thickness[0]), math.log(kind.thickness[1]), generator))
    _uniform(0, 2 * math.pi, generator)  # the direction of the shadow, which keeps the order of the draws
    _, height, width = clear.shape
    field = _noise(height, width, smoothness, generator)
    thickness = middle * (torch.exp(unevenness * field) if cover >= 1 else _broken(field, cover))
    reflected = _reflection(thickness[None] * ((NANOMETRES / 550) ** -exponent)[:, None, None])
    return (FITTED[:, None, None] * reflected + (1 - reflected) ** 2 * clear).clamp(0, 1.5)


def by_bands(restore: Restorer, places: Tensor, every: int) -> Figures:
    """Measure thin cloud and haze on held-out places, for fewer and fewer bands."""
    generator = torch.Generator().manual_seed(7)
    pairs: list[tuple[Array, Array]] = []
    for i, place in enumerate(places[:24]):
        part = place[:, :SIZE, :SIZE]
        pairs.append((veil(part, THIN_KINDS[i % 3], generator, (0.0, 1.0)[i % 2]).numpy(), part.numpy()))
    figures: Figures = {}
    certainty = Certainty()
    for count, have in BAND_SETS.items():
        some, rows = list(have), []
        for cloudy, clear in pairs[::every]:
            out, scale = restore(cloudy, have, surface=False)
            scores = [decibels(a[some], clear[some]) for a in (cloudy, out)]
            rows.append((*scores, decibels(out[COLOURS], clear[COLOURS])))
            if count == len(ALL):
                certainty.add(np.abs(out - clear).reshape(count, -1), scale.reshape(count, -1))
        before, after, colours = np.mean(rows, axis=0).tolist()
        figures[f"simulated thin cloud, {count} bands dB"] = {
            "input": before, "restored": after, "gain": after - before, "colours": colours,
        }  # fmt: skip
    return {**figures, "simulated thin cloud, 13 bands, scale": certainty.figures()}


def by_kind(restore: Restorer, places: Tensor, every: int) -> Figures:
    """Measure each kind that was trained on, on held-out places, and what would make the predicted scale true.

    That is found on half of the images and seen on the other half.
    """
    draw = Draw(torch.Generator().manual_seed(11))
    kinds = [kind for kind in KINDS if kind != "clear"]
    rows: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in kinds}
    fit, test, whole = Certainty(), Certainty(), Certainty()
    for i in range(50 // every):
        clear, kind, some = places[i % len(places), :, 48:SIZE, 48:SIZE], kinds[i % len(kinds)], list((ALL, TEN)[i % 2])
        drawn, _ = simulate(clear, draw, surface=False, pixel=1.0, kinds={kind: 1})
        out, scale = restore(drawn.numpy(), some, surface=False)
        wanted, given = clear.numpy()[some], drawn.numpy()[some]
        sides = (given, out[some])
        rows[kind].append((*(distance(a, wanted) for a in sides), *(decibels(a, wanted) for a in sides)))
        for certainty in (whole, fit if i % 4 < 2 else test):
            certainty.add(np.abs(out[some] - wanted).reshape(len(some), -1), scale[some].reshape(len(some), -1))
    names = ("MAE input", "MAE restored", "dB input", "dB restored")
    figures: Figures = {
        f"simulated {kind}": dict(zip(names, np.mean(values, axis=0).tolist(), strict=True))
        for kind, values in rows.items()
    }
    factor = float(np.quantile(fit.ratios, 0.68))
    figures["simulated, scale"] = {**whole.figures(), "other half, calibrated": float((test.ratios < factor).mean())}
    figures["factor for 68 %"] = {"factor": factor}
    return figures


def on_clear(restore: Restorer, places: Tensor, patches: Tensor, every: int) -> Figures:
    """Measure by how much images without cloud are changed: held-out places, sand and salt, L2A patches."""
    figures: Figures = {}

    def told(name: str, images: Iterator[Array], have: Sequence[int], *, surface: bool = False) -> None:
        some = list(have)
        changed = [distance(restore(image, have, surface=surface).image[some], image[some]) for image in images]
        figures[f"clear {name} changed by"] = {"mean": float(np.mean(changed)), "worst": max(changed)}

    cut = places[:, :, :SIZE, :SIZE]
    for count in (13, 10, 4, 3):
        images = (image.numpy() for image in cut[:: 2 * every])
        told(f"held-out, {count} bands,", images, BAND_SETS[count])
    bright = (sand(image, number).numpy() for number, image in enumerate(cut[:: 3 * every]))
    told("sand and salt, 13 bands,", bright, ALL)
    told("L2A, 12 bands,", (image.numpy() for image in patches[:: 8 * every]), L2A, surface=True)
    return figures


def sand(place: Tensor, number: int) -> Tensor:
    """Give sand, salt or between, by the number, with the texture of a place (13, H, W); top of atmosphere."""
    share = (number % 3) / 2
    spectrum = through_air((SAND * share + SALT * (1 - share)) * (0.8 + 0.1 * (number % 4)))
    spectrum[VAPOUR] *= 0.45
    grey = place[[1, 2, 3, 7, 11]].mean(0)
    bright = spectrum[:, None, None] * (1 + 0.3 * ((grey - grey.mean()) / grey.mean()).clamp(-1, 1.5))
    bright[CIRRUS] = place[CIRRUS]
    return bright


def measure(restore: Restorer, *, data: Path | None, root: Path | None, every: int) -> Iterator[Figures]:
    """Give the figures part by part; `every` is how many simulated images to go on by."""
    if data:
        places = held_out_l1c(data)
        yield {"held-out places": {"count": len(places)}}
        simulated: tuple[Callable[..., Figures], ...] = (by_bands, by_kind)
        for part in simulated:
            yield part(restore, places, every)
        yield on_clear(restore, places, held_out_l2a(data), every)
    if root:
        for real in (haze, cloudsen12, sen12mscr, series):
            yield real(restore, root)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="a published name, or a file")
    parser.add_argument("--data", type=Path, help="folder of df.npz and eu.npz")
    parser.add_argument("--root", type=Path, help="folder of the real pairs and series")
    parser.add_argument("--json", type=Path, help="where the figures are written")
    parser.add_argument("--dtype", default="float32", help="float32 or bfloat16")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args(arguments)
    if not args.data and not args.root:
        parser.error("there is nothing to measure on: give --data, --root or both")
    predictor = attcr.open_predictor(args.weights, dtype=args.dtype)
    report: dict[str, Any] = {"weights": args.weights, **predictor.identity}
    for name, told in report.items():
        print(f"{name}: {told}")
    figures: Figures = {}
    for part in measure(Restorer(predictor), data=args.data, root=args.root, every=3 if args.quick else 1):
        for name, numbers in part.items():
            print(f"{name:45}", "  ".join(f"{key} {value:.4g}" for key, value in numbers.items()), flush=True)
        figures |= part
    if args.json:
        write_whole(args.json, json.dumps({**report, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
