"""How fast data is read, cached, augmented and simulated: python -m benchmarks.reading SHARED_DATA.

SEN12MS-CR is a made tree of links to the 10 sample triples, 20 patches in each test region.
"""

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from attcr.data import RICE2, SEN12MSCR, THICK_CLOUD, THIN_VEIL, simulate_clouds
from attcr.data.sen12mscr import KINDS, patch_path
from attcr.data.splits import load_split
from attcr.data.transforms import crop_sample


def seconds(call: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def passing(data: SEN12MSCR | RICE2, workers: int) -> float:
    """Pairs a second over one pass, workers already running."""
    loader = DataLoader(data, 4, num_workers=workers, persistent_workers=workers > 0)
    start = 0.0
    for number, _ in enumerate(loader):
        if number == 2 * max(workers, 1):
            start = time.perf_counter()
    return (len(data) - 8 * max(workers, 1) - 4) / (time.perf_counter() - start)


def main(shared: Path) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    clear = torch.rand(3, 256, 256, generator=generator)
    for name, cloud in (("thin", THIN_VEIL), ("thick", THICK_CLOUD)):
        took = seconds(partial(simulate_clouds, clear, cloud, generator=generator), 101)
        print(f"simulated {name} cloud, 256x256 RGB: {took * 1e3:.1f} ms")
    with tempfile.TemporaryDirectory() as folder:
        samples = sorted((shared / "sen12mscr" / "s2").iterdir())
        for region in load_split("sen12mscr", "test").names:
            for kind in KINDS:
                patch_path(Path(folder), region, kind, 0).parent.mkdir(parents=True)
                for number in range(20):
                    source = shared / "sen12mscr" / kind / samples[number % len(samples)].name
                    patch_path(Path(folder), region, kind, number).symlink_to(source)
        patches = SEN12MSCR(folder, "test")
        for workers in (0, 1, 2, 8):
            print(f"SEN12MS-CR, {workers} workers: {passing(patches, workers):.0f} patches/s")
    for workers in (0, 2, 8):
        print(f"RICE2 test, {workers} workers: {passing(RICE2(shared / 'rice2', 'test'), workers):.0f} pairs/s")
    start = time.perf_counter()
    cached = RICE2(shared / "rice2", "test", partial(crop_sample, crop=256, generator=generator), cache=True)
    print(f"RICE2 test, cache filled in {time.perf_counter() - start:.1f} s")
    print(f"RICE2 test, cached and cropped to 256: {passing(cached, 0):.0f} pairs/s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
