"""What a scene costs beside the network: the whole restore against the bare network on the same tiles in memory.

python benchmarks/scene.py [--size 2048] [--preset rice2] [--folder /tmp]

One run prints both figures: the time of `restore_scene` (read, normalise, blend, write, COG, overviews, quality,
item, preview) over that of the network alone, and the time with 30 % of the tiles cloudy over that with all.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import rasterio
import torch
from rasterio.transform import from_origin

from attcr.bands.sensors import RGB8
from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.restore import RestoreOptions, restore_scene
from attcr.scenes.tiles import grid


def make_scene(path: Path, size: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (3, size, size), dtype=np.uint8)
    place = {"crs": "EPSG:32633", "transform": from_origin(600000, 5500020, 10, 10)}
    shape = {"count": 3, "height": size, "width": size, "dtype": "uint8", "photometric": "RGB"}
    with rasterio.open(path, "w", driver="GTiff", tiled=True, compress="deflate", **shape, **place) as file:
        file.write(image)
    return image


def make_mask(path: Path, size: int, options: RestoreOptions) -> float:
    """Cloud in the middle of 30 % of the tiles, far enough from its rim to stay in it; give the share."""
    tiles = list(grid(size, size, tile=options.tile, overlap=options.overlap))
    chosen = tiles[: round(0.3 * len(tiles))]
    mask = np.zeros((1, size, size), np.uint8)
    rim = options.overlap + options.dilate + options.feather + 1
    for tile in chosen:
        mask[:, tile.row + rim : tile.row + tile.height - rim, tile.col + rim : tile.col + tile.width - rim] = 1
    with rasterio.open(path, "w", driver="GTiff", count=1, height=size, width=size, dtype="uint8") as file:
        file.write(mask)
    return len(chosen) / len(tiles)


def bare_network(model: torch.nn.Module, image: np.ndarray, options: RestoreOptions) -> float:
    """Seconds of the network alone on all tiles, already tensors in memory."""
    _, height, width = image.shape
    tiles = grid(height, width, tile=options.tile, overlap=options.overlap)
    inputs = [torch.from_numpy(RGB8.to_model(image[:, tile.rows, tile.cols]))[None] for tile in tiles]
    with torch.inference_mode():
        model(inputs[0])  # warms up
        began = time.perf_counter()
        for x in inputs:
            model(x)
        return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--preset", default="rice2")
    parser.add_argument("--tile", type=int, default=256)
    parser.add_argument("--overlap", type=int, default=32)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    args = parser.parse_args()
    torch.manual_seed(0)
    model = ATTCR(ATTCRConfig.preset(args.preset)).eval()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        options = RestoreOptions(tile=args.tile, overlap=args.overlap, mask="none")
        image = make_scene(folder / "in.tif", args.size)
        share = make_mask(folder / "mask.tif", args.size, options)
        bare = bare_network(model, image, options)
        full = restore_scene(folder / "in.tif", folder / "full.tif", model, options=options)
        cloudy = RestoreOptions(tile=args.tile, overlap=args.overlap, mask=str(folder / "mask.tif"))
        part = restore_scene(folder / "in.tif", folder / "part.tif", model, options=cloudy)
    print(f"{args.preset}, {args.size} x {args.size}, {full.tiles} tiles, {torch.get_num_threads()} threads")
    print(f"bare network          {bare:8.1f} s")
    print(f"whole restore         {full.seconds:8.1f} s   {full.seconds / bare:.3f} of bare (at most 1.05)")
    ratio = part.seconds / full.seconds
    print(f"{share:4.0%} of tiles cloudy  {part.seconds:8.1f} s   {ratio:.3f} of whole (at most 0.36)")
    assert part.tiles_run == round(share * full.tiles)


if __name__ == "__main__":
    main()
