"""No file of the user's is lost to what a restore writes."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import attcr
from attcr.bands.sensors import SENSORS as PRODUCTS
from attcr.bands.spec import TRUE_COLOUR
from attcr.errors import SceneError
from attcr.restore import RestoreOptions, join_blocks, plan_scene, restore_scene
from attcr.restore.publish import Outputs, Preview, targets_in
from attcr.scenes.open import open_scene
from fake_scenes import SENSORS, UTM, Same, make, noise, read, same_bits

PICTURE = RestoreOptions(sensor=SENSORS["uint8"], mask="none", tile=64, overlap=0)


def picture(path: Path, bands: int = 3, seed: int = 0) -> Path:
    return make(path, noise("uint8", (bands, 40, 40), seed))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_every_file_is_named_in_the_order_in_which_it_appears(tmp_path: Path) -> None:
    names = [path.name for path in Outputs(tmp_path / "o.tif", has_spread=True)]
    assert names == [
        "o.tif.aux.xml", "o.tif", "o_quality.tif.aux.xml", "o_quality.tif", "o_spread.tif.aux.xml", "o_spread.tif",
        "o_preview.png", "o.json",
    ]  # fmt: skip
    assert Outputs(tmp_path / "o.tif").folder == tmp_path / ".o.tif.attcr"


@pytest.mark.parametrize("name", ["o.tif", "o_quality.tif", "o_spread.tif", "o_preview.png", "o.json", "o.tif.aux.xml"])
@pytest.mark.parametrize("spelling", ["{}", "file://{}", "/vsigzip/{}", "{folder}/../{folder.name}/{name}"])
def test_an_input_is_never_written_over_however_it_is_spelt(tmp_path: Path, name: str, spelling: str) -> None:
    given = tmp_path / name
    given.write_text("mine")
    href = spelling.format(given, folder=tmp_path, name=name)
    with pytest.raises(SceneError, match="read here"):
        Outputs(tmp_path / "o.tif", has_spread=True, overwrite=True).check([href])


def test_a_scene_named_as_the_quality_raster_is_kept(tmp_path: Path) -> None:
    source = picture(tmp_path / "o_quality.tif")
    before = contents(tmp_path)
    with pytest.raises(SceneError, match=r"o_quality\.tif would be written over .*: choose another target"):
        restore_scene(source, tmp_path / "o.tif", Same(), options=PICTURE, overwrite=True)
    assert contents(tmp_path) == before


def test_a_stac_item_named_as_the_items_target_is_kept(tmp_path: Path) -> None:
    names = ("red", "green", "blue")
    for name in names:
        picture(tmp_path / f"{name}.tif", 1)
    assets = {n: {"href": f"./{n}.tif", "type": "image/tiff", "bands": [{"name": n}]} for n in names}
    told = {"type": "Feature", "stac_version": "1.0.0", "id": "o", "geometry": None, "links": [], "assets": assets}
    (tmp_path / "o.json").write_text(json.dumps({**told, "properties": {"datetime": "2020-01-01T00:00:00Z"}}))
    before = contents(tmp_path)
    with pytest.raises(SceneError, match=r"o\.json would be written over"):
        restore_scene(tmp_path / "o.json", tmp_path / "o.tif", Same(), options=PICTURE, overwrite=True)
    assert contents(tmp_path) == before


def test_mask_weights_and_the_file_behind_a_vrt_are_kept(tmp_path: Path) -> None:
    source = picture(tmp_path / "in.tif")
    mask = make(tmp_path / "m_preview.png", np.ones((1, 40, 40), np.uint8), driver="PNG")
    torch.manual_seed(0)
    config = attcr.ATTCRConfig(dim=8, blocks=(1,) * 5, heads=(2,) * 5, scales=((1,),) * 5)
    weights = tmp_path / "w.json"
    attcr.save_model(attcr.ATTCR(config), tmp_path / "w.safetensors", spec=TRUE_COLOUR)
    (tmp_path / "w.safetensors").rename(weights)
    picture(tmp_path / "v_quality.tif")
    bands = "".join(
        f'<VRTRasterBand dataType="Byte" band="{i}"><SimpleSource><SourceFilename relativeToVRT="1">v_quality.tif'
        f"</SourceFilename><SourceBand>{i}</SourceBand></SimpleSource></VRTRasterBand>"
        for i in (1, 2, 3)
    )
    (tmp_path / "in.vrt").write_text(f'<VRTDataset rasterXSize="40" rasterYSize="40">{bands}</VRTDataset>')
    before = contents(tmp_path)
    masked = RestoreOptions(sensor=SENSORS["uint8"], mask=str(mask))
    with pytest.raises(SceneError, match=r"m_preview\.png would be"):
        restore_scene(source, tmp_path / "m.tif", Same(), options=masked, overwrite=True)
    with pytest.raises(SceneError, match=r"v_quality\.tif would be"):
        restore_scene(tmp_path / "in.vrt", tmp_path / "v.tif", Same(), options=PICTURE, overwrite=True)
    numbered = RestoreOptions(sensor="rgb8", bands=("1", "2", "3"))
    with pytest.raises(SceneError, match=r"w\.json would be"):
        restore_scene(source, tmp_path / "w.tif", weights, options=numbered, overwrite=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["o.tif", "o.tif.aux.xml", "o_quality.tif", "o_preview.png", "o.json"])
def test_what_exists_is_replaced_only_if_asked_for(tmp_path: Path, name: str) -> None:
    source = picture(tmp_path / "in.tif")
    (tmp_path / name).write_text("mine")
    model = Same()
    with pytest.raises(SceneError, match=f"{name} exists.*`overwrite`"):
        restore_scene(source, tmp_path / "o.tif", model, options=PICTURE)
    with pytest.raises(SceneError, match=f"{name} exists"):
        join_blocks(source, [], tmp_path / "o.tif", model, options=PICTURE)
    assert (tmp_path / name).read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.tif", name])
    assert plan_scene(source, tmp_path / "o.tif", model, options=PICTURE).tiles == 1
    restore_scene(source, tmp_path / "o.tif", model, options=PICTURE, overwrite=True)
    assert same_bits(read(tmp_path / "o.tif"), read(source))
    assert not (tmp_path / name).exists() or (tmp_path / name).read_bytes() != b"mine"


def test_a_file_that_appears_while_working_is_kept(tmp_path: Path) -> None:
    source = picture(tmp_path / "in.tif")

    def write_one(_: object) -> None:
        (tmp_path / "o.json").write_text("mine")

    with pytest.raises(SceneError, match=r"o\.json exists"):
        restore_scene(source, tmp_path / "o.tif", Same(), options=PICTURE, progress=write_one)
    assert (tmp_path / "o.json").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tif", "o.json"]


def test_side_files_of_another_target_are_kept_even_with_overwrite(tmp_path: Path) -> None:
    source, other = picture(tmp_path / "in.tif"), picture(tmp_path / "other.tif", seed=1)
    restore_scene(source, tmp_path / "o.tif", Same(), options=PICTURE)
    before = contents(tmp_path)
    with pytest.raises(SceneError, match=r"belong to o\.tif"):
        restore_scene(other, tmp_path / "o.png", Same(), options=PICTURE, overwrite=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["o.tif", "o_quality.tif", "o.json"])
def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    source = picture(tmp_path / "in.tif")
    (tmp_path / name).mkdir()
    with pytest.raises(SceneError, match=f"{name} is a folder"):
        restore_scene(source, tmp_path / "o.tif", Same(), options=PICTURE, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.tif", name])


def test_names_that_no_file_can_have_are_refused(tmp_path: Path) -> None:
    source = picture(tmp_path / "in.tif")
    with pytest.raises(SceneError, match="shorter"):
        restore_scene(source, tmp_path / ("x" * 240 + ".tif"), Same(), options=PICTURE)
    with pytest.raises(SceneError, match="not UTF-8"):
        restore_scene(source, os.fsdecode(os.fsencode(tmp_path) + b"/\xff.tif"), Same(), options=PICTURE)
    with pytest.raises(SceneError, match=r"cannot|NUL"):
        restore_scene(source, tmp_path / "a\0b.tif", Same(), options=PICTURE)
    assert [path.name for path in tmp_path.iterdir()] == ["in.tif"]


def test_a_working_folder_that_leads_elsewhere_is_refused_and_what_it_leads_to_kept(tmp_path: Path) -> None:
    source = picture(tmp_path / "in.tif")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "precious").write_text("x")
    (tmp_path / ".o.tif.attcr").symlink_to(tmp_path / "theirs")
    for resume in (False, True):
        with pytest.raises(SceneError, match="is a link"):
            restore_scene(source, tmp_path / "o.tif", Same(), options=PICTURE, resume=resume)
    assert (tmp_path / "theirs" / "precious").read_text() == "x"
    (tmp_path / ".o.tif.attcr").unlink()
    (tmp_path / ".o.tif.attcr").write_text("x")
    with pytest.raises(SceneError, match="is a file"):
        restore_scene(source, tmp_path / "o.tif", Same(), options=PICTURE)
    assert (tmp_path / ".o.tif.attcr").read_text() == "x"


def test_links_in_a_working_folder_are_removed_and_what_they_lead_to_kept(tmp_path: Path) -> None:
    source = picture(tmp_path / "in.tif")
    folder, theirs = tmp_path / ".o.tif.attcr", tmp_path / "theirs"
    folder.mkdir()
    theirs.mkdir()
    (theirs / "precious").write_text("x")
    (folder / "publish").symlink_to(theirs)
    (folder / "restored.tif").symlink_to(theirs / "precious")
    restore_scene(source, tmp_path / "o.tif", Same(), options=PICTURE)
    assert (theirs / "precious").read_text() == "x"
    assert not folder.exists()


def test_pictures_go_into_a_folder_by_their_names_and_bands_as_one_scene(tmp_path: Path) -> None:
    pictures = targets_in(tmp_path, ["a/one.png", "two.JPG", "three.jp2", "https://x.org/four.tif?sig=secret"])
    assert pictures == [
        (("a/one.png",), tmp_path / "one.png"),
        (("two.JPG",), tmp_path / "two.png"),
        (("three.jp2",), tmp_path / "three.tif"),
        (("https://x.org/four.tif?sig=secret",), tmp_path / "four.tif"),
    ]
    bands = ["in/T33UXQ_20220501_B04_10m.jp2", "in/T33UXQ_20220501_SCL_20m.jp2"]
    assert targets_in(tmp_path, bands) == [(tuple(bands), tmp_path / "T33UXQ_20220501.tif")]
    assert targets_in(tmp_path, ["B04.tif", "B03.tif"]) == [(("B04.tif", "B03.tif"), tmp_path / "restored.tif")]
    assert targets_in(tmp_path, ["S2A_MSIL2A.SAFE"]) == [(("S2A_MSIL2A.SAFE",), tmp_path / "S2A_MSIL2A.tif")]
    with pytest.raises(SceneError, match=r"a/x.tif and b/x.tif would both be written to .*x.tif"):
        targets_in(tmp_path, ["a/x.tif", "b/x.tif"])


@pytest.mark.parametrize(("kind", "alike"), [("uint16", True), ("uint8", False)])
def test_a_preview_stretches_bands_of_reflectance_each_by_itself(kind: str, alike: bool, tmp_path: Path) -> None:
    ramp = np.linspace(0, 1, 64 * 64).reshape(1, 64, 64)
    bands = np.concatenate([100 + 20 * ramp, 100 + 40 * ramp, 150 + 60 * ramp]).astype(kind)  # red, green, blue air
    path = make(tmp_path / "scene.tif", bands, **UTM)
    with open_scene(path, sensor=PRODUCTS["s2-l1c" if alike else "rgb8"]) as scene:
        preview = Preview(tmp_path / "preview.tif", scene, ("red", "green", "blue"))
        preview.create()
        preview.add(0, preview.rows(0, bands, bands))
        picture = preview.picture()
    assert picture.shape == (3, 64, 132)
    means = picture[:, :, :64].mean(axis=(1, 2))
    if alike:
        assert np.ptp(means) < 4
        assert 120 < means[0] < 135
    else:
        assert means[2] > means[0] + 100
