from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from attcr.bands.sensors import SENTINEL2_L1C
from attcr.bands.spec import RICE2 as RICE2_SPEC
from attcr.bands.spec import SEN12MSCR_OPTICAL, TRUE_COLOUR
from attcr.data import RICE1, RICE2, TCLOUD, PairFolder
from attcr.data import pairs as module
from attcr.data.splits import load_split
from attcr.errors import DataError, DataNotFoundError, ShapeError
from fakes import fake_image, fake_patch, make_pairs, write_tif

pytestmark = [
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create 8"),
]


def test_an_item_holds_both_images_in_0_to_1_and_the_name(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloud", "label"), ["10", "9"])
    item = PairFolder(tmp_path / "cloud", tmp_path / "label")[0]
    assert item["name"] == "9"
    expected = torch.from_numpy(fake_image("9").astype(np.float32) / 255).permute(2, 0, 1)
    assert item["clear"].dtype == torch.float32
    assert item["inputs"].shape == (3, 32, 32)
    torch.testing.assert_close(item["clear"], expected)


@pytest.mark.parametrize("ending", ["png", "webp", "jpg", "tif"])
def test_folders_of_any_kind_are_read(tmp_path: Path, ending: str) -> None:
    make_pairs(tmp_path, ("cloud", "label"), ["a", "b"], ending)
    data = PairFolder(tmp_path / "cloud", tmp_path / "label")
    assert data.names == ["a", "b"]
    true = torch.from_numpy(fake_image("b")).permute(2, 0, 1) / 255
    assert (data[1]["clear"] - true).abs().mean() < (0.02 if ending == "jpg" else 1e-6)


def test_names_are_ordered_as_numbers(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloud", "label"), ["10", "2", "1"])
    assert PairFolder(tmp_path / "cloud", tmp_path / "label").names == ["1", "2", "10"]


def test_a_name_without_counterpart_is_named_in_the_error(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloud", "label"), ["1", "2"])
    (tmp_path / "label" / "2.png").unlink()
    with pytest.raises(DataError, match="2 are only in one"):
        PairFolder(tmp_path / "cloud", tmp_path / "label")


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloud", "label"), ["1"], "png")
    make_pairs(tmp_path, ("cloud", "label"), ["1"], "webp")
    with pytest.raises(DataError, match=r"both 1\.png and 1\.webp"):
        PairFolder(tmp_path / "cloud", tmp_path / "label")


def test_sides_of_different_size_are_refused(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloud", "label"), ["1"])
    Image.fromarray(fake_image("1", 16)).save(tmp_path / "label" / "1.png")
    with pytest.raises(ShapeError, match=r"cloudy \(32, 32\), clear \(16, 16\)"):
        PairFolder(tmp_path / "cloud", tmp_path / "label")[0]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloud", "label"), ["1", "2"], "png")
    (tmp_path / "cloud" / "1.png").write_bytes((tmp_path / "cloud" / "1.png").read_bytes()[:90])
    (tmp_path / "cloud" / "2.png").write_bytes(b"nothing")
    data = PairFolder(tmp_path / "cloud", tmp_path / "label")
    for index in range(2):
        with pytest.raises(DataError, match=rf"{index + 1}\.png cannot be read"):
            data[index]


def test_numbers_of_16_bits_need_a_sensor(tmp_path: Path) -> None:
    for folder in ("cloudy", "clear"):
        write_tif(tmp_path / folder / "x.tif", fake_patch("s2", 1))
    with pytest.raises(DataError, match=r"uint16.*sensor="):
        PairFolder(tmp_path / "cloudy", tmp_path / "clear", spec=SEN12MSCR_OPTICAL)[0]
    item = PairFolder(tmp_path / "cloudy", tmp_path / "clear", spec=SEN12MSCR_OPTICAL, sensor=SENTINEL2_L1C)[0]
    np.testing.assert_allclose(item["clear"].numpy(), fake_patch("s2", 1).clip(0, 10000) / 2000, rtol=1e-6)


def test_a_file_of_other_bands_than_the_spec_names_is_refused(tmp_path: Path) -> None:
    for folder in ("cloudy", "clear"):
        write_tif(tmp_path / folder / "x.tif", np.zeros((4, 16, 16), np.uint8))
    with pytest.raises(ShapeError, match=r"x\.tif has 4 bands and 3 are expected \(red green blue\)"):
        PairFolder(tmp_path / "cloudy", tmp_path / "clear")[0]


def test_a_set_says_what_its_planes_are(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloud", "label"), load_split("rice2", "val").names)
    data = RICE2(tmp_path, "val")
    assert data.spec == RICE2_SPEC
    assert [slot.name for slot in data.spec.slots] == ["swir16", "nir08", "red"]
    assert data[0]["masks"] == {}
    batch = next(iter(DataLoader(data, 2)))
    assert batch["masks"] == {}
    assert batch["inputs"].shape == batch["clear"].shape == (2, 3, 32, 32)
    assert PairFolder(tmp_path / "cloud", tmp_path / "label").spec == TRUE_COLOUR


def test_the_cache_gives_the_same_items_and_reads_no_file_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pairs(tmp_path, ("cloud", "label"), ["1", "2", "3"])
    plain = list(PairFolder(tmp_path / "cloud", tmp_path / "label"))
    cached = PairFolder(tmp_path / "cloud", tmp_path / "label", cache=True)
    monkeypatch.setattr(module, "read_image", lambda path: pytest.fail(f"read {path} again"))
    for _ in range(2):
        for one, other in zip(plain, cached, strict=True):
            assert torch.equal(one["inputs"], other["inputs"])
            assert torch.equal(one["clear"], other["clear"])


def test_every_file_is_read_once_a_pass_by_8_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [str(i) for i in range(24)]
    make_pairs(tmp_path, ("cloud", "label"), names)
    read, log = module.read_image, tmp_path / "log"

    def logged(path: Path) -> np.ndarray:
        with log.open("a") as file:
            file.write(f"{path}\n")
        return read(path)

    monkeypatch.setattr(module, "read_image", logged)
    data = PairFolder(tmp_path / "cloud", tmp_path / "label")
    seen = [item["name"] for item in DataLoader(data, None, num_workers=8, multiprocessing_context="fork")]
    assert seen == names
    lines = log.read_text().split()
    assert len(lines) == len(set(lines)) == 48


def test_rice_reads_the_published_layout_of_the_split_asked(tmp_path: Path) -> None:
    names = load_split("rice1", "val").names
    make_pairs(tmp_path, ("cloud", "label"), names)
    data = RICE1(tmp_path, "val")
    assert data.names == list(names)
    assert data[3]["name"] == names[3]
    with pytest.raises(DataNotFoundError, match=r"100 of 100 pairs .*BUPTLdy/RICE_DATASET"):
        RICE1(tmp_path, "test")


def test_a_missing_root_says_what_was_looked_for_and_how_to_obtain_it(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"nowhere/cloud.*github\.com/BUPTLdy"):
        RICE2(tmp_path / "nowhere", "test")
    with pytest.raises(DataNotFoundError, match=r"nowhere/cloud.*haidong-Ding"):
        TCLOUD(tmp_path / "nowhere", "test")


@pytest.mark.parametrize("together", [False, True])
def test_tcloud_reads_both_layouts(tmp_path: Path, together: bool) -> None:
    for part in ("val", "test"):
        folder = tmp_path if together else tmp_path / ("test" if part == "test" else "train")
        make_pairs(folder, ("cloud", "reference"), load_split("tcloud", part).names[:4])
    for part in ("val", "test"):
        names = load_split("tcloud", part).names
        with pytest.raises(DataNotFoundError, match=f"{len(names) - 4} of {len(names)} pairs"):
            TCLOUD(tmp_path, part)


def test_real_rice2_test_list_is_read(shared_data: Path) -> None:
    data = RICE2(shared_data / "rice2", "test")
    item = data[0]
    assert (len(data), item["name"], tuple(item["inputs"].shape)) == (148, data.names[0], (3, 512, 512))
    assert 0 <= float(item["clear"].min()) < float(item["inputs"].max()) <= 1


def test_real_thin_cloud_is_brighter_than_what_it_covers(shared_data: Path) -> None:
    data = PairFolder(shared_data / "rice1_256" / "cloud", shared_data / "rice1_256" / "label")
    assert len(data) == 100
    cloudy = torch.stack([data[i]["inputs"].mean() for i in range(20)]).mean()
    clear = torch.stack([data[i]["clear"].mean() for i in range(20)]).mean()
    assert cloudy > clear
