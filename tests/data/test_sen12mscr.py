import os
import pickle
import resource
import time
from pathlib import Path

import numpy as np
import pytest
import rasterio
import torch
from torch.utils.data import DataLoader

from attcr.data import SEN12MSCR
from attcr.data import sen12mscr as module
from attcr.data.sen12mscr import KINDS, patch_path, read_patch
from attcr.data.splits import load_split
from attcr.errors import AttcrWarning, DataError, DataNotFoundError
from fakes import fake_patch, make_sen12mscr, write_tif

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create 8"),
]
TEST = load_split("sen12mscr", "test").names
EVERY = [region for part in ("train", "val", "test") for region in load_split("sen12mscr", part).names]


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    files = {kind: tmp_path / "sources" / f"{kind}.tif" for kind in KINDS}
    for seed, (kind, file) in enumerate(files.items()):
        write_tif(file, fake_patch(kind, seed))
    return files


@pytest.fixture
def root(tmp_path: Path, sources: dict[str, Path]) -> Path:
    make_sen12mscr(tmp_path / "root", dict.fromkeys(EVERY, (30, 4)), sources)
    return tmp_path / "root"


def test_the_published_layout_is_spelled_exactly() -> None:
    assert str(patch_path(Path("R"), "ROIs1158_spring/1", "s2_cloudy", 30)) == (
        "R/ROIs1158_spring_s2_cloudy/s2_cloudy_1/ROIs1158_spring_s2_cloudy_1_p30.tif"
    )


def test_an_item_has_15_scaled_channels_in_and_13_out(root: Path, sources: dict[str, Path]) -> None:
    data = SEN12MSCR(root, "test")
    item = data[1]
    sar, cloudy, clear = (rasterio.open(sources[kind]).read() for kind in KINDS)
    assert item["name"] == data.names[1] == "ROIs1158_spring_31_p30"
    assert item["inputs"].dtype == item["clear"].dtype == torch.float32
    got = item["inputs"].numpy()
    np.testing.assert_allclose(got[0], (sar[0].clip(-25, 0) + 25) / 25 * 2, atol=1e-6)
    np.testing.assert_allclose(got[1], (sar[1].clip(-35, 0) + 35) / 35 * 2, atol=1e-6)
    np.testing.assert_allclose(got[2:], cloudy.clip(0, 10000) / 2000, rtol=1e-6)
    np.testing.assert_allclose(item["clear"].numpy(), clear.clip(0, 10000) / 2000, rtol=1e-6)


def test_regions_are_matched_exactly(root: Path) -> None:
    parts = {part: SEN12MSCR(root, part).names for part in ("train", "val", "test")}
    assert {part: len(names) for part, names in parts.items()} == {"train": 310, "val": 20, "test": 20}
    assert not set(parts["train"]) & set(parts["test"])
    assert {name.rpartition("_p")[0] for name in parts["test"]} == {r.replace("/", "_") for r in TEST}


def test_nan_is_filled_with_the_mean_of_the_patch(tmp_path: Path) -> None:
    sar = fake_patch("s1", 3)
    sar[0, 2:4, 5] = np.nan
    write_tif(tmp_path / "x.tif", sar)
    filled = read_patch(tmp_path / "x.tif", "s1")
    assert filled[0, 2, 5] == filled[0, 3, 5] == pytest.approx(np.nanmean(sar.astype(np.float64)), abs=1e-5)
    assert np.array_equal(filled[~np.isnan(sar)], sar[~np.isnan(sar)])
    write_tif(tmp_path / "x.tif", np.full_like(sar, np.nan))
    with pytest.raises(DataError, match="nothing but NaN"):
        read_patch(tmp_path / "x.tif", "s1")


def test_a_file_of_other_bands_is_refused(tmp_path: Path) -> None:
    write_tif(tmp_path / "x.tif", fake_patch("s2", 3)[:12])
    with pytest.raises(DataError, match=r"x\.tif has 12 bands; s2 has 13"):
        read_patch(tmp_path / "x.tif", "s2")


def test_what_is_missing_is_named_with_the_way_to_obtain_it(tmp_path: Path, root: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"nowhere.*mediatum"):
        SEN12MSCR(tmp_path / "nowhere", "test")
    (root / "ROIs1158_spring_s1").rename(tmp_path / "away")
    with pytest.raises(DataNotFoundError, match=r"ROIs1158_spring_s1/s1_31, which is not there.*mediatum"):
        len(SEN12MSCR(root, "test"))


def test_nothing_is_listed_before_it_is_needed_and_only_the_split_asked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    scandir = os.scandir

    def logged(folder: Path) -> object:
        listed.append(str(folder))
        return scandir(folder)

    monkeypatch.setattr(module.os, "scandir", logged)
    data = SEN12MSCR(root, "test")
    assert listed == []
    assert len(data) == 20
    assert len(listed) == 30
    assert len(data.names) == 20
    assert len(listed) == 30, "once for each set"


def test_patches_follow_files_that_come_and_go(root: Path, sources: dict[str, Path]) -> None:
    assert len(SEN12MSCR(root, "test")) == 20
    make_sen12mscr(root, {TEST[0]: [77]}, sources)
    assert len(SEN12MSCR(root, "test")) == 21
    patch_path(root, TEST[0], "s1", 77).unlink()
    with pytest.warns(AttcrWarning, match=r"1 patches lack one of s1, s2_cloudy, s2 .*ROIs1158_spring/31"):
        assert len(SEN12MSCR(root, "test")) == 20


def test_8_workers_read_every_file_once(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, log = module.read_raster, tmp_path / "log"

    def logged(path: Path) -> np.ndarray:
        with log.open("a") as file:
            file.write(f"{path}\n")
        return read(path)

    monkeypatch.setattr(module, "read_raster", logged)
    data = SEN12MSCR(root, "test")
    seen = [item["name"] for item in DataLoader(data, None, num_workers=8, multiprocessing_context="fork")]
    assert seen == data.names
    lines = log.read_text().split()
    assert len(lines) == len(set(lines)) == 60


def test_a_worker_that_is_spawned_takes_the_list_along(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = SEN12MSCR(root, "test")
    assert len(data) == 20
    sent = pickle.dumps(data)
    monkeypatch.setattr(module, "find_patches", lambda *_: pytest.fail("listed again"))
    assert pickle.loads(sent)[3]["name"] == data.names[3]


def test_real_samples_in_the_published_layout(shared_data: Path, tmp_path: Path) -> None:
    files = sorted((shared_data / "sen12mscr" / "s2").iterdir())
    for kind in KINDS:
        for number, file in enumerate(files):
            target = patch_path(tmp_path, TEST[number], kind, number)
            target.parent.mkdir(parents=True)
            target.symlink_to(shared_data / "sen12mscr" / kind / file.name)
    data = SEN12MSCR(tmp_path, "test")
    assert len(data) == 10
    for item in data:
        assert item["inputs"].shape == (15, 256, 256)
        assert item["clear"].shape == (13, 256, 256)
        assert torch.isfinite(item["inputs"]).all()
        assert 0 <= item["inputs"][:2].min() <= item["inputs"][:2].max() <= 2
        assert 0 <= item["inputs"][2:].min() <= item["inputs"].max() <= 5


@pytest.mark.slow
def test_a_list_of_all_122218_patches_is_quick_and_small(tmp_path: Path, sources: dict[str, Path]) -> None:
    count = 122_218
    numbers = {region: range(count // 175 + (at < count % 175)) for at, region in enumerate(EVERY)}
    for kind in KINDS:  # a file may have 65,000 links on ext4
        sources[kind].write_bytes(b"")
    for at, region in enumerate(EVERY):
        for kind in KINDS:
            if at % 20 == 0:
                sources[kind] = sources[kind].with_name(f"{kind}_{at}.tif")
                sources[kind].write_bytes(b"")
        make_sen12mscr(tmp_path / "root", {region: numbers[region]}, sources)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    sets = [SEN12MSCR(tmp_path / "root", part) for part in ("train", "val", "test")]
    assert sum(map(len, sets)) == count
    seconds = time.perf_counter() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    sent = max(len(pickle.dumps(data)) for data in sets) / 2**20
    print(f"\nlisted in {seconds:.2f} s, {grown:.0f} MB, sent to a spawned worker {sent:.1f} MB")
    assert grown < 200
