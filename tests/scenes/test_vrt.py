"""A VRT reads only what lies beside it, whatever it is called, unless it is trusted."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attcr.errors import SceneError
from attcr.scenes.clouds.find import find_clouds
from attcr.scenes.clouds.rim import Rim
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster
from attcr.scenes.vrt import check_vrt
from fake_scenes import make, noise

SIZE = 40


def vrt(source: object, *, relative: int = 0, attributes: str = "", inside: str = "", times: int = 1) -> str:
    bands = "".join(
        f'<VRTRasterBand dataType="Byte" band="{i}"{attributes}>{inside}'
        + f'<SimpleSource><SourceFilename relativeToVRT="{relative}">{source}</SourceFilename>'
        f"<SourceBand>{i}</SourceBand></SimpleSource>" * times + "</VRTRasterBand>"
        for i in (1, 2, 3)
    )
    return f'<VRTDataset rasterXSize="{SIZE}" rasterYSize="{SIZE}">{bands}</VRTDataset>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a picture, and another beside it."""
    (tmp_path / "scenes" / "below").mkdir(parents=True)
    for name in ("secret.tif", "scenes/a.tif", "scenes/below/b.tif"):
        make(tmp_path / name, noise("uint8", (3, SIZE, SIZE)))
    return tmp_path / "scenes"


@pytest.mark.parametrize("name", ["in.vrt", "in.tif", "in"])
@pytest.mark.parametrize("source", ["a.tif", "below/b.tif"])
def test_a_vrt_of_files_beside_it_is_taken(folder: Path, name: str, source: str) -> None:
    for relative, text in ((1, source), (0, folder / source)):
        (folder / name).write_text(vrt(text, relative=relative))
        with open_scene(folder / name) as scene, open_scene(folder / source) as plain:
            assert np.array_equal(scene.read(0, SIZE), plain.read(0, SIZE))
            assert str(folder / source) in scene.files


RAW = "<SourceFilename>/etc/passwd</SourceFilename><PixelOffset>1</PixelOffset><LineOffset>40</LineOffset>"
NAMED = '<SimpleSource sourcefilename="/x"'
REFUSED: dict[str, Callable[[Path], str]] = {
    "a file elsewhere": lambda folder: vrt(folder.parent / "secret.tif"),
    "a file above": lambda _: vrt("../secret.tif", relative=1),
    "a link out": lambda _: vrt("link.tif", relative=1),
    "a URL": lambda _: vrt("http://127.0.0.1:9/secret.tif"),
    "vsicurl": lambda _: vrt("/vsicurl/http://127.0.0.1:9/secret.tif"),
    "a driver's name": lambda _: vrt("GTIFF_RAW:a.tif", relative=1),
    "a service inside": lambda _: vrt("&lt;GDAL_WMS&gt;&lt;/GDAL_WMS&gt;"),
    "a service beside it": lambda _: vrt("service.tif", relative=1),
    "raw bytes": lambda _: vrt("a.tif", relative=1, attributes=' subClass="VRTRawRasterBand"', inside=RAW),
    "code": lambda _: vrt(
        "a.tif",
        relative=1,
        attributes=' subClass="VRTDerivedRasterBand"',
        inside="<PixelFunctionLanguage>Python</PixelFunctionLanguage>",
    ),
    "a warp": lambda _: vrt("a.tif", relative=1).replace("<VRTDataset", '<VRTDataset subClass="VRTWarpedDataset"'),
    "a name as attribute": lambda _: vrt("a.tif", relative=1).replace(
        "<SimpleSource", '<SimpleSource sourcefilename="/x"'
    ),
    "a subclass in other letters": lambda _: vrt("a.tif", relative=1, attributes=' SUBCLASS="VRTRawRasterBand"'),
    "itself": lambda _: vrt("in.tif", relative=1),
    "another VRT": lambda _: vrt("other.vrt", relative=1),
    "entities": lambda _: '<!DOCTYPE x [<!ENTITY a "/etc/passwd">]>' + vrt("&a;"),
    "open options": lambda _: vrt("a.tif", relative=1, inside="<OpenOptions/>"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_reads_more_is_refused_before_anything_is_read(folder: Path, case: str) -> None:
    (folder / "other.vrt").write_text(vrt("a.tif", relative=1))
    (folder / "link.tif").symlink_to(folder.parent / "secret.tif")
    (folder / "service.tif").write_text(
        "<GDAL_WMS><Service><ServerUrl>http://127.0.0.1:9</ServerUrl></Service></GDAL_WMS>"
    )
    (folder / "in.tif").write_text(REFUSED[case](folder))
    with pytest.raises(SceneError) as caught:
        open_scene(folder / "in.tif")
    assert "\n" not in str(caught.value)
    if case != "a service beside it":
        assert "`vrt=any`" in str(caught.value)
    with pytest.raises(SceneError, match="not accepted here"):
        open_scene(folder / "in.tif", vrt="never")


def test_a_trusted_vrt_reads_what_it_names(folder: Path) -> None:
    (folder / "in.vrt").write_text(vrt(folder.parent / "secret.tif"))
    with open_scene(folder / "in.vrt", vrt="any") as scene:
        assert scene.read(0, 1).shape == (3, 1, SIZE)


def test_many_vrts_in_one_another_end_at_once(folder: Path) -> None:
    last = folder / "a.tif"
    for i in range(8):
        (folder / f"v{i}.vrt").write_text(vrt(last, times=10))
        last = folder / f"v{i}.vrt"
    with pytest.raises(SceneError, match="another VRT"):
        check_vrt(last)


def test_a_mask_beside_a_raster_is_no_vrt(folder: Path) -> None:
    (folder / "a.tif.msk").write_text(vrt(folder.parent / "secret.tif"))
    with pytest.raises(SceneError, match="remove it"):
        open_scene(folder / "a.tif")


def test_a_mask_and_radar_follow_the_scenes_rule(folder: Path, tmp_path: Path) -> None:
    (folder / "mask.vrt").write_text(vrt("a.tif", relative=1))
    with open_scene(folder / "a.tif", vrt="never") as scene:
        with pytest.raises(SceneError, match="not accepted here"):
            find_clouds(scene, str(folder / "mask.vrt"), tmp_path, rim=Rim(0, 0))
        with pytest.raises(SceneError, match="not accepted here"):
            AlignedRaster(str(folder / "mask.vrt"), scene.profile, scene.vrt)
