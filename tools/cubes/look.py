"""Make the cubes of the archive by one command each, and look at what is in them.

    python -m tools.cubes.look ARCHIVE --out FOLDER [--only roi146] [--part PIXELS]

For each series: `attcr cube` against the local STAC API, the cube opened by xarray, and a table of what was found:
pixels that were seen and are not to the bit, filled pixels whose source did not see them, holes; flicker, the mean
difference of neighbouring dates on filled ground beside that on ground that both dates saw; seams, the step over the
rim of what was filled and over the edges of blocks beside the step elsewhere. `NAME.png` is a film strip: what was
seen above, the cube below. `--part` takes so many pixels around the middle of the place.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import xarray as xr
from numpy.typing import NDArray
from PIL import Image

import attcr
from attcr.cubes.fill import LITTLE
from attcr.restore.walk import FROM_DATE, LOW_CONFIDENCE, ORIGINAL

from .archive import SERIES, Series, served

Array = NDArray[Any]
FROM_OTHERS = (FROM_DATE, LOW_CONFIDENCE)


def command(series: Series, api: str, target: Path, part: int, *more: str) -> list[str]:
    """Give the command that makes a cube."""
    place = series.place
    if part:
        west, south, east, north = map(float, place.split(","))
        metres = part * 20 if series.name == "20lmr" else part * 10
        place = f"{(south + north) / 2},{(west + east) / 2},{metres:g}"
    given = ["--from", series.period[0], "--to", series.period[1], "--source", f"{api}#{series.collection}"]
    return [
        sys.executable, "-m", "attcr", "cube", "--json", *given, *series.options, *more, "--", place, str(target),
    ]  # fmt: skip


def seen_of(cube: xr.Dataset, archive: Path, series: Series) -> tuple[Array, Array]:
    """Give what each date shows on the cube's grid: numbers of the red band, and where it is clear, nearest pixels."""
    x, y = np.meshgrid(cube["x"].values, cube["y"].values)
    red, clear = [], []
    items = {one["id"]: one for one in json.loads((archive / "files" / series.name / "items.json").read_text())}
    for told in json.loads(cube.attrs["attcr:cube"])["acquisitions"]:
        item = items[told["id"]]
        values = []
        for key in ("red", "scl"):
            path = archive / "files" / item["assets"][key]["href"].removeprefix("HOST/")
            with rasterio.open(path) as file:
                cols, rows = (np.floor(one).astype(int) for one in ~file.transform * _in(file.crs, cube, x, y))
                inside = (rows >= 0) & (cols >= 0) & (rows < file.height) & (cols < file.width)
                got = file.read(1)[rows.clip(0, file.height - 1), cols.clip(0, file.width - 1)]
                values.append(np.where(inside, got, 0))
        red.append(values[0])
        clear.append((values[1] == 4) & (values[0] > 0))
    return np.stack(red), np.stack(clear)


def _in(crs: Any, cube: xr.Dataset, x: Array, y: Array) -> tuple[Array, Array]:
    here = rasterio.crs.CRS.from_wkt(cube["spatial_ref"].attrs["crs_wkt"])
    if here == crs:
        return x, y
    east, north = rasterio.warp.transform(here, crs, x.ravel(), y.ravel())[:2]
    return np.reshape(east, x.shape), np.reshape(north, y.shape)


def measure(cube: xr.Dataset, clear: Array, block: tuple[int, int]) -> dict[str, float]:
    """Say what is in a cube, of which this was clear (T, h, w)."""
    bands = [name for name in cube.data_vars if name not in ("quality", "source", "days", "error")]
    values = np.stack([cube[name].values for name in bands], axis=1)
    quality, source, days = (cube[name].values for name in ("quality", "source", "days"))
    filled = np.isin(quality, FROM_OTHERS)
    own = quality == ORIGINAL
    apart = np.abs(np.diff(values, axis=0)).mean(axis=1)
    both, neither = own[1:] & own[:-1], (filled[1:] | filled[:-1]) & ~(own[1:] & own[:-1])
    pairs = [at for at in range(len(both)) if both[at].mean() > 0.02 and neither[at].mean() > 0.02]
    truth = np.take_along_axis(clear, np.maximum(source, 0).astype(int), axis=0)
    taken = cube["acquired"].values.astype("datetime64[D]").astype(int)
    told = taken[np.maximum(source, 0)] - taken[:, None, None]

    def step(axis: int, where: Array) -> float:
        steps = np.abs(np.diff(values, axis=axis)).mean(axis=1)
        return float(np.nanmean(steps[where]))

    pieces = {}
    for name, axis, side in (("rows", 2, block[0]), ("columns", 3, block[1])):
        cut = [slice(None)] * 3
        first, second = list(cut), list(cut)
        first[axis - 1], second[axis - 1] = slice(None, -1), slice(1, None)
        one, other = filled[tuple(first)], filled[tuple(second)]
        rim, inner = one != other, ~one & ~other
        at = np.zeros_like(one)
        index = list(cut)
        index[axis - 1] = slice(side - 1, None, side)
        at[tuple(index)] = True
        pieces[f"step over the rim of gaps beside clear ground, {name}"] = step(axis, rim) / step(axis, inner)
        inside = one & other
        if (inside & at).any():
            told_step = step(axis, inside & at) / step(axis, inside & ~at)
            pieces[f"step over blocks beside other filled ground, {name}"] = told_step
    low = quality == LOW_CONFIDENCE
    shown = filled & (own.mean(axis=(1, 2)) >= LITTLE)[:, None, None]
    return {
        "dates": len(values),
        "seen": float(own.mean()),
        "filled": float(filled.mean()),
        "of it of low confidence": float(low[filled].mean()),
        "the same, on dates that show ground": float(low[shown].mean()),
        "holes": float((~own & ~filled).mean()),
        "values that are not finite": int((~np.isfinite(values)).any(axis=1)[own | filled].sum()),
        "filled pixels whose source did not see them": int((filled & ~truth).sum()),
        "filled pixels whose days are not those of the source": int((np.abs(days - told) > 1)[filled].sum()),
        "clear pixels that are not their own source": int((source != np.arange(len(own))[:, None, None])[own].sum()),
        "difference of neighbouring dates, both clear": float(np.mean([apart[at][both[at]].mean() for at in pairs])),
        "the same, one of them filled": float(np.mean([apart[at][neither[at]].mean() for at in pairs])),
        **pieces,
    }  # fmt: skip


def film(cube: xr.Dataset, red: Array, archive: Path, series: Series, path: Path, across: int = 10) -> None:
    """Draw each date as it came and as it is in the cube, in natural colours."""
    shown = np.stack([cube[name].values for name in ("red", "green", "blue")], axis=-1)
    low, high = np.nanpercentile(shown, [1, 99], axis=(0, 1, 2))
    side = 180
    tiles = []
    for at in range(len(shown)):
        came = np.where(red[at] > 0, (red[at] * 1e-4 - low[0]) / (high[0] - low[0]), np.nan)
        pair = [np.repeat(came[..., None], 3, -1), (shown[at] - low) / (high - low)]
        drawn = [
            np.asarray(Image.fromarray(np.nan_to_num(np.clip(one, 0, 1) * 255).astype(np.uint8)).resize((side, side)))
            for one in pair
        ]
        tiles.append(np.pad(np.concatenate(drawn), [(2, 6), (2, 2), (0, 0)], constant_values=255))
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % across)
    rows = [np.concatenate(tiles[at : at + across], axis=1) for at in range(0, len(tiles), across)]
    Image.fromarray(np.concatenate(rows)).save(path)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=[one.name for one in SERIES])
    parser.add_argument("--part", type=int, default=0, help="pixels along the part that is taken")
    parser.add_argument("--memory", default="4")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with served(args.archive) as api:
        for series in SERIES:
            if args.only not in (None, series.name):
                continue
            target = args.out / f"{series.name}.zarr"
            began = time.monotonic()
            if not target.exists():
                subprocess.run(command(series, api, target, args.part, "--memory", args.memory), check=True)
            cube = attcr.open_cube(target).load()
            red, clear = seen_of(cube, args.archive, series)
            block = json.loads(cube.attrs["attcr:cube"])["block"]
            told = measure(cube, clear, (block[0], block[1]))
            came = cube["quality"].values == ORIGINAL
            told["clear pixels that are not to the bit"] = int(
                (np.abs(cube["red"].values - red * 1e-4)[came] > 1e-6).sum()
            )
            told["seconds"] = time.monotonic() - began
            (args.out / f"{series.name}-look.json").write_text(json.dumps(told, indent=1) + "\n")
            film(cube, red, args.archive, series, args.out / f"{series.name}.png")
            print(series.name, *(f"{name}: {value:.5g}" for name, value in told.items()), sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
