"""Whole scenes in, cloud-free scenes out."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS
from rasterio.enums import ColorInterp
from rasterio.rpc import RPC
from rio_cogeo.cogeo import cog_validate

import attcr
import attcr.restore.scene
from attcr.bands.spec import SEN12MSCR, SEN12MSCR_OPTICAL, TRUE_COLOUR
from attcr.errors import AttcrWarning, SceneError
from attcr.restore import Progress, RestoreOptions, join_blocks, plan_scene, restore_block, restore_scene
from attcr.restore.scene import open_job
from attcr.scenes.dataset import gdal
from fake_scenes import SENSORS, UTM, Counting, Same, Smooth, by_position, make, noise, read, same_bits, smooth_picture


def coarser(factor: int) -> Affine:
    t = UTM["transform"]
    return Affine(t.a * factor, 0, t.c, 0, t.e * factor, t.f)


ANY_CLOUD = replace(TRUE_COLOUR, removes=("thin", "thick"))
LOCAL = 'LOCAL_CS["site",UNIT["metre",1]]'
SITE = 'ENGCRS["x",EDATUM[""],CS[Cartesian,2],AXIS["e",east],AXIS["n",north],LENGTHUNIT["metre",1]]'
SIZES = [(1, 1), (7, 300), (255, 257), (1000, 1)]


def options(kind: str = "uint8", **more: object) -> RestoreOptions:
    return RestoreOptions(**{"sensor": SENSORS[kind], "mask": "none", "tile": 128, "overlap": 16, **more})  # type: ignore[arg-type]


def vrt_of(name: str, height: int, width: int, own: str = "", of_band: Callable[[int], str] = lambda _: "") -> str:
    """A VRT of a file with three bands beside it."""
    bands = "".join(
        f'<VRTRasterBand dataType="Byte" band="{i}">{of_band(i)}<SimpleSource><SourceFilename relativeToVRT="1">{name}'
        f"</SourceFilename><SourceBand>{i}</SourceBand></SimpleSource></VRTRasterBand>"
        for i in (1, 2, 3)
    )
    return f'<VRTDataset rasterXSize="{width}" rasterYSize="{height}">{own}{bands}</VRTDataset>'


def described(path: Path) -> dict[str, Any]:
    """All that a raster says beside its pixels and how they are stored."""
    with rasterio.open(path) as file:
        return {
            "crs": file.crs,
            "transform": file.transform,
            "dtypes": file.dtypes,
            "nodata": [None if v is None else repr(v) for v in file.nodatavals],
            "names": file.descriptions,
            "scales": file.scales,
            "offsets": file.offsets,
            "units": file.units,
            "tags": file.tags(),
            "own tags": file.tags(ns="MINE"),
            "band tags": [file.tags(i) for i in file.indexes],
            "colours": file.colorinterp,
            "colormap": file.colormap(1) if file.colorinterp[0] == ColorInterp.palette else None,
            "gcps": [point.asdict() for point in file.gcps[0]],
            "gcps crs": file.gcps[1],
            "rpcs": file.rpcs.to_gdal() if file.rpcs else None,
            "mask flags": file.mask_flag_enums,
            "mask": file.dataset_mask().tobytes(),
        }


@pytest.mark.parametrize("kind", sorted(SENSORS))
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "size",
    [*SIZES, pytest.param((2049, 1537), marks=pytest.mark.slow)],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
def test_a_network_that_changes_nothing_gives_the_scene_back_to_the_bit(
    tmp_path: Path, kind: str, size: tuple[int, int], masked: bool
) -> None:
    values = noise(kind, (3, *size))
    if kind == "float32":
        values[:, size[0] // 2, size[1] // 2] = np.nan
    nodata = float("nan") if kind == "float32" else 0

    def name_things(file: Any) -> None:
        file.descriptions = ("B04", "B03", "B02")
        file.scales, file.offsets, file.units = (1e-4,) * 3, (-0.1,) * 3, ("reflectance",) * 3
        file.update_tags(TIFFTAG_DATETIME="2021:04:10 10:00:21", HELLO="world", AREA_OR_POINT="Point")
        file.update_tags(ns="MINE", KEY="value")
        file.update_tags(2, BAND="two")

    source = make(tmp_path / "in.tif", values, name_things, nodata=nodata, **UTM)
    clouds = (np.random.default_rng(1).random((1, *size)) < 0.01).astype(np.uint8)
    mask = str(make(tmp_path / "clouds.tif", clouds, **UTM)) if masked else "none"
    restore_scene(source, tmp_path / "out.tif", Same(), options=options(kind, mask=mask))
    assert same_bits(read(tmp_path / "out.tif"), values)
    assert described(tmp_path / "out.tif") == described(source)
    for name in ("out.tif", "out_quality.tif"):
        assert cog_validate(tmp_path / name, quiet=True)[0], name


def gcps(file: Any) -> None:
    points = [
        GroundControlPoint(row=r, col=c, x=10 + c * 0.01, y=50 - r * 0.01, z=0, id=str(i))
        for i, (r, c) in enumerate([(0, 0), (0, 70), (60, 0), (60, 70)])
    ]
    file.gcps = (points, CRS.from_epsg(4326))


def rpcs(file: Any) -> None:
    terms = [float(i) for i in range(20)]
    file.rpcs = RPC(
        height_off=1.0, height_scale=2.0, lat_off=3.0, lat_scale=4.0, line_den_coeff=terms,
        line_num_coeff=terms, line_off=5.0, line_scale=6.0, long_off=7.0, long_scale=8.0,
        samp_den_coeff=terms, samp_num_coeff=terms, samp_off=9.0, samp_scale=10.0,
        err_bias=None, err_rand=None,
    )  # fmt: skip


def gcps_of_nowhere(file: Any) -> None:
    points = [GroundControlPoint(r, c, c, r, 0, id=f"{r} {c}") for r in (0, 39) for c in (0, 39)]
    file.gcps = (points, CRS())


def blue_first(file: Any) -> None:
    file.colorinterp = (ColorInterp.blue, ColorInterp.green, ColorInterp.red)


def mask_band(file: Any) -> None:
    mask = np.full((60, 70), 255, np.uint8)
    mask[:20] = 0
    file.write_mask(mask)


@pytest.mark.parametrize(
    ("count", "after", "profile"),
    [
        pytest.param(3, None, {}, id="no CRS"),
        pytest.param(3, None, {"crs": "EPSG:32633", "transform": Affine(9, 3, 6e5, 3, -9, 5e6)}, id="rotated"),
        pytest.param(3, None, {"crs": "EPSG:4326", "transform": Affine(1e-4, 0, 10, 0, -1e-4, 50)}, id="degrees"),
        pytest.param(3, gcps, {}, id="GCPs"),
        pytest.param(3, rpcs, {}, id="RPCs"),
        pytest.param(3, gcps_of_nowhere, {}, id="GCPs without a CRS"),
        pytest.param(3, blue_first, {"photometric": "MINISBLACK"}, id="BGR"),
        pytest.param(3, None, {"crs": LOCAL, "transform": Affine(1, 0, 0, 0, -1, 0)}, id="local CRS"),
        pytest.param(3, None, {"crs": SITE, "transform": Affine(1, 0, 0, 0, -1, 0)}, id="engineering CRS"),
        pytest.param(3, None, {**UTM, "transform": Affine(1e300, 0, 1e300, 0, 1e300, 1e300)}, id="beyond the CRS"),
        pytest.param(3, None, {**UTM, "transform": Affine(np.nan, 0, 0, 0, np.inf, 0)}, id="no numbers"),
        pytest.param(3, mask_band, {}, id="mask band"),
        pytest.param(4, None, {"photometric": "RGB", "alpha": "YES"}, id="alpha"),
        pytest.param(13, None, {**UTM, "nodata": 9}, id="13 bands"),
    ],
)
def test_a_raster_keeps_what_it_had(
    tmp_path: Path, count: int, after: Callable[[Any], None] | None, profile: dict[str, Any]
) -> None:
    values = noise("uint8", (count, 60, 70))
    source = make(tmp_path / "in.tif", values, after, **profile)
    restore_scene(source, tmp_path / "out.tif", Same(3 if "alpha" in profile else count), options=options())
    assert same_bits(read(tmp_path / "out.tif"), values)
    assert repr(described(tmp_path / "out.tif")) == repr(described(source))
    assert cog_validate(tmp_path / "out.tif", quiet=True)[0]
    json.loads((tmp_path / "out.json").read_text(), parse_constant=lambda word: pytest.fail(f"the item holds {word}"))


def test_bands_reach_their_slots_by_colour_and_leave_in_the_order_they_came(tmp_path: Path) -> None:
    values = np.stack([np.full((40, 40), value, np.uint8) for value in (40, 80, 120)])
    source = make(tmp_path / "in.tif", values, blue_first, photometric="MINISBLACK")
    seen: list[np.ndarray] = []

    class Halving(Same):
        def forward(self, x: Any) -> Any:
            seen.append(x[0, :, 0, 0].numpy())
            y = x.clone()
            y[:, 0] /= 2
            return y

    everywhere = RestoreOptions(sensor="rgb8", mask="none")
    restore_scene(source, tmp_path / "out.tif", Halving(spec=TRUE_COLOUR), options=everywhere)
    assert seen[0][0] > seen[0][1] > seen[0][2]  # red, which is band 3, goes in first
    assert read(tmp_path / "out.tif")[:, 0, 0].tolist() == [40, 80, 60]
    names = json.loads((tmp_path / "out.json").read_text())["assets"]["restored"]["bands"]
    assert [band["name"] for band in names] == ["blue", "green", "red"]
    chosen = replace(everywhere, bands=("3", "2", "1"))
    restore_scene(source, tmp_path / "out.tif", Halving(spec=TRUE_COLOUR), options=chosen, overwrite=True)
    assert read(tmp_path / "out.tif")[:, 0, 0].tolist() == [40, 80, 60]


@pytest.mark.parametrize("key", ["ns", "bidx", "self", "kwargs"])
@pytest.mark.parametrize("target", ["out.tif", "out.png"])
def test_a_tag_of_any_name_is_kept(tmp_path: Path, key: str, target: str) -> None:
    make(tmp_path / "a.tif", noise("uint8", (3, 40, 40)))
    tag = f'<Metadata{{}}><MDI key="{key}">hello</MDI></Metadata>'
    own = tag.format("") + tag.format(' domain="MINE"')
    (tmp_path / "in.vrt").write_text(vrt_of("a.tif", 40, 40, own, lambda _: tag.format("")))
    restore_scene(tmp_path / "in.vrt", tmp_path / target, Same(), options=options())
    with rasterio.open(tmp_path / target) as file:
        found = [file.tags(), file.tags(ns="MINE"), file.tags(1), file.tags(3)]
    assert [tags.get(key) for tags in found] == ["hello"] * 4


def test_names_that_are_not_utf8_and_incomplete_rpcs_are_left_out_with_a_warning(tmp_path: Path) -> None:
    def name_bands(file: Any) -> None:
        file.descriptions = ["QQQQQQQQ"] * 3

    source = make(tmp_path / "in.tif", noise("uint8", (3, 40, 40)), name_bands)
    source.write_bytes(source.read_bytes().replace(b"QQQQQQQQ", b"Z\xfcrichQQ"))
    with pytest.warns(AttcrWarning, match="not UTF-8"):
        restore_scene(source, tmp_path / "out.tif", Same(), options=options())
    make(tmp_path / "a.tif", noise("uint8", (3, 40, 40)))
    for value in ("abc", "1"):
        own = f'<Metadata domain="RPC"><MDI key="LINE_OFF">{value}</MDI></Metadata>'
        (tmp_path / "in.vrt").write_text(vrt_of("a.tif", 40, 40, own))
        with pytest.warns(AttcrWarning, match="incomplete"):
            restore_scene(tmp_path / "in.vrt", tmp_path / "b.tif", Same(), options=options(), overwrite=True)
        assert same_bits(read(tmp_path / "b.tif"), read(tmp_path / "a.tif"))


@pytest.mark.parametrize(("nodata", "taken"), [(0.0, True), (255.0, True), (-1, False), (300, False), (0.5, False)])
def test_nodata_of_the_user_is_a_value_of_the_type(tmp_path: Path, nodata: float, taken: bool) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 40, 40)))
    if taken:
        restore_scene(source, tmp_path / "out.tif", Same(), options=options(nodata=nodata))
        with rasterio.open(tmp_path / "out.tif") as file:
            assert file.nodata == nodata
    else:
        for wrong in (nodata, float("nan"), float("inf")):
            with pytest.raises(SceneError, match="cannot be a value of uint8"):
                restore_scene(source, tmp_path / "out.tif", Same(), options=options(nodata=wrong))


@pytest.mark.parametrize("name", ["y" * 300 + ".tif", "y" * 300 + ".json", "y" * 300, "a\0b.tif", "a\0b.json"])
def test_a_source_or_mask_that_no_file_can_be_is_not_there(tmp_path: Path, name: str) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 40, 40)))
    with pytest.raises(SceneError, match="does not exist"):
        restore_scene(tmp_path / name, tmp_path / "out.tif", Same(), options=options())
    with pytest.raises(SceneError, match=r"no mask|does not exist"):
        restore_scene(source, tmp_path / "out.tif", Same(), options=options(mask=str(tmp_path / name)))
    assert [path.name for path in tmp_path.iterdir()] == ["in.tif"]


def test_a_colour_table_is_refused_for_its_numbers_are_no_colours(tmp_path: Path) -> None:
    table = {0: (1, 2, 3, 255), 7: (9, 8, 7, 255)}
    source = make(tmp_path / "in.tif", noise("uint8", (1, 60, 70)), lambda file: file.write_colormap(1, table))
    with pytest.raises(SceneError, match="-expand rgb"):
        restore_scene(source, tmp_path / "out.tif", Same(1), options=options())


def test_nodata_of_each_band_is_kept_and_moves_with_the_file(tmp_path: Path) -> None:
    values = noise("uint8", (3, 60, 70))
    make(tmp_path / "in.tif", values, **UTM)
    (tmp_path / "in.vrt").write_text(vrt_of("in.tif", 60, 70, of_band=lambda i: f"<NoDataValue>{i * 7}</NoDataValue>"))
    restore_scene(tmp_path / "in.vrt", tmp_path / "out.tif", Counting(0.0), options=options())
    with rasterio.open(tmp_path / "out.tif") as file:
        assert file.nodatavals == (7, 14, 21)
        out = file.read()
    for band, nodata in enumerate((7, 14, 21)):
        assert np.array_equal(out[band] == nodata, values[band] == nodata)


def test_a_picture_goes_in_and_out_as_png(tmp_path: Path) -> None:
    values = noise("uint8", (3, 90, 80))
    source = make(tmp_path / "photo.png", values, driver="PNG")
    restore_scene(source, tmp_path / "out.png", Same(), options=RestoreOptions())
    assert same_bits(read(tmp_path / "out.png"), values)
    with pytest.warns(AttcrWarning, match="changes every pixel"):
        restore_scene(source, tmp_path / "other.jpg", Same(), options=RestoreOptions())
    assert read(tmp_path / "other.jpg").shape == values.shape


def test_everything_about_the_result_is_written_beside_it(tmp_path: Path) -> None:
    values = (smooth_picture(3, 200, 200) * 255).astype(np.uint8)
    source = make(tmp_path / "S2_20210410T100021.tif", values, **UTM)
    clouds = np.zeros((1, 200, 200), np.uint8)
    clouds[:, 50:80, 50:80] = 1
    mask = make(tmp_path / "clouds.tif", clouds, **UTM)
    settings = options(mask=str(mask), confidence=True)
    result = restore_scene(source, tmp_path / "out.tif", Smooth(), options=settings)
    quality = read(result.quality)[0]
    assert set(np.unique(quality)) <= {1, 2, 3, 4}
    assert (quality[50:80, 50:80] >= 2).all()
    assert (quality[:30] == 1).all()
    assert result.pixels["original"] == int((quality == 1).sum())
    assert sum(result.pixels.values()) == 200 * 200
    assert result.spread is not None
    assert read(result.spread).dtype == np.float32
    with rasterio.open(result.preview) as preview:
        assert (preview.driver, preview.count) == ("PNG", 3)
    item = json.loads(result.item.read_text())
    assert item["properties"]["datetime"] == "2021-04-10T10:00:21Z"
    assert item["properties"]["attcr:options_sha256"] == replace(settings, dtype="float32").digest()
    assert len(item["properties"]["attcr:weights_sha256"]) == 64
    assert item["properties"]["proj:code"] == "EPSG:32633"
    assert 14 < item["bbox"][0] < 18
    assert {asset["href"] for asset in item["assets"].values()} == {
        "./out.tif", "./out_quality.tif", "./out_spread.tif", "./out_preview.png",
    }  # fmt: skip
    for asset in item["assets"].values():
        content = (tmp_path / asset["href"]).read_bytes()
        assert asset["file:checksum"] == f"1220{hashlib.sha256(content).hexdigest()}"
        assert asset["file:size"] == len(content)
    assert not list(tmp_path.glob(".*"))


def test_the_item_says_what_the_numbers_mean_and_how_much_cloud_is_left(tmp_path: Path) -> None:
    values = np.full((4, 64, 64), 1500, np.uint16)
    values[:, :8, :32], values[:, 32:, :] = 8000, 0  # an eighth of what has data is opaque cloud
    clouds = (values[:1] == 8000).astype(np.uint8)
    source = make(tmp_path / "a.tif", values, nodata=0, **UTM)
    with rasterio.open(source, "r+") as file:
        file.descriptions = ("B02", "B03", "B04", "B08")
    mask = make(tmp_path / "clouds.tif", clouds, **UTM)
    settings = RestoreOptions(sensor="s2-l2a-n0400", mask=str(mask), dilate=0, feather=0)
    with pytest.warns(AttcrWarning, match="stays in the image"):
        result = restore_scene(source, tmp_path / "out.tif", "s2-thin", options=settings)
    item = json.loads(result.item.read_text())
    told, assets = item["properties"], item["assets"]
    left = (read(result.quality) == 5).sum()
    assert told["eo:cloud_cover"] == pytest.approx(100 * left / (32 * 64), abs=0.005)
    assert 10 < told["eo:cloud_cover"] < 20
    assert (told["gsd"], told["attcr:weights"]) == (UTM["transform"].a, "s2-thin")
    restored = assets["restored"]
    assert (restored["raster:scale"], restored["raster:offset"], restored["data_type"]) == (1e-4, -0.1, "uint16")
    assert restored["nodata"] == assets["quality"]["nodata"] == 0
    assert (assets["spread"]["nodata"], assets["spread"]["data_type"]) == ("nan", "float32")
    classes = assets["quality"]["classification:classes"]
    assert [one["value"] for one in classes] == list(range(7))
    assert classes[6] == {
        "value": 6, "name": "from_another_date", "description": "from another date", "color_hint": "4CA05A"
    }  # fmt: skip
    assert [one["value"] for one in classes if one.get("nodata")] == [0]
    assert {name.split("/")[3] for name in item["stac_extensions"]} == {
        "processing", "projection", "eo", "raster", "classification", "file"
    }  # fmt: skip


def test_the_same_work_gives_the_same_bytes(tmp_path: Path) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 150, 140)), **UTM)
    written = []
    for _ in range(2):
        restore_scene(source, tmp_path / "out.tif", Smooth(), options=options(confidence=True), overwrite=True)
        written.append({path.name: path.read_bytes() for path in sorted(tmp_path.glob("out*"))})
    assert len(written[0]) == 5
    assert written[0] == written[1]


class KilledError(Exception):
    """Stands in for the process ending."""


@pytest.mark.parametrize("killed_after", [0, 4, 11])
def test_an_interrupted_run_taken_up_gives_the_same_bytes_without_redoing_finished_strips(
    tmp_path: Path, killed_after: int
) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 500, 260)), **UTM)
    settings = options(confidence=True)
    whole = restore_scene(source, tmp_path / "out.tif", Smooth(), options=settings)
    wanted = {path.name: path.read_bytes() for path in sorted(tmp_path.glob("out*"))}
    for path in tmp_path.glob("out*"):
        path.unlink()

    def stop(progress: Progress) -> None:
        if progress.stage == "restore" and progress.done > killed_after:
            raise KilledError

    with pytest.raises(KilledError):
        restore_scene(source, tmp_path / "out.tif", Smooth(), options=settings, resume=True, progress=stop)
    assert not (tmp_path / "out.tif").exists()
    result = restore_scene(source, tmp_path / "out.tif", Smooth(), options=settings, resume=True)
    assert {path.name: path.read_bytes() for path in sorted(tmp_path.glob("out*"))} == wanted
    rows_done = killed_after // 3
    if rows_done > 1:
        assert result.resumed_row > 0
        assert result.tiles_run < whole.tiles_run


def test_what_other_work_left_behind_is_not_taken_up(tmp_path: Path) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 300, 60)), **UTM)

    def stop(progress: Progress) -> None:
        if progress.done > 1:
            raise KilledError

    with pytest.raises(KilledError):
        restore_scene(source, tmp_path / "out.tif", Same(), options=options(), resume=True, progress=stop)
    with pytest.warns(AttcrWarning, match="starting again"):
        result = restore_scene(source, tmp_path / "out.tif", Smooth(), options=options(), resume=True)
    assert result.resumed_row == 0


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 300, 60)), **UTM)

    def stop(progress: Progress) -> None:
        if progress.done > 1:
            raise KilledError

    with pytest.raises(KilledError):
        restore_scene(source, tmp_path / "out.tif", Same(), options=options(), progress=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tif"]


def test_a_plan_tells_what_a_restore_then_does_and_writes_nothing(tmp_path: Path) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 300, 300)), **UTM)
    clouds = np.zeros((1, 300, 300), np.uint8)
    clouds[:, 5:10, 5:10] = 255
    mask = make(tmp_path / "clouds.tif", clouds, **UTM)
    settings = options(mask=str(mask))
    before = sorted(tmp_path.iterdir())
    plan = plan_scene(source, tmp_path / "out.tif", Counting(), options=settings)
    assert sorted(tmp_path.iterdir()) == before
    model = Counting()
    result = restore_scene(source, tmp_path / "out.tif", model, options=settings)
    assert (plan.tiles_to_run, plan.tiles) == (result.tiles_run, result.tiles) == (1, 9)
    assert model.tiles == 1
    assert plan.memory > 0
    assert plan.disk > 300 * 300 * 3


def test_a_mask_on_a_coarser_grid_is_laid_over_the_scene(tmp_path: Path) -> None:
    source = make(tmp_path / "in.tif", np.full((3, 120, 120), 200, np.uint8), **UTM)
    scl = np.full((1, 60, 60), 4, np.uint8)
    scl[:, 10:20, 30:40] = 9
    coarse = coarser(2)
    mask = make(tmp_path / "SCL.tif", scl, crs=UTM["crs"], transform=coarse)
    settings = options(mask=f"scl={mask}", dilate=0, feather=0)
    restore_scene(source, tmp_path / "out.tif", Counting(0.5), options=settings)
    wanted = np.full((120, 120), 200)
    wanted[20:40, 60:80] = 100
    assert np.array_equal(read(tmp_path / "out.tif")[0], wanted)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mask": "scl"}, "`mask=scl=FILE`"),
        ({"mask": "nowhere.tif"}, "no mask"),
        ({"mask": "s2cloudless"}, "`mask=csmask`"),
        ({"mask": "csmask"}, "near infrared"),
        ({"bands": ("1", "2")}, "name 3"),
        ({"bands": ("1", "2", "9")}, "`bands`"),
        ({"sensor": "s2-l1c"}, "rgb8"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_remedy(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 60, 70)), photometric="RGB", **UTM)
    with pytest.raises(SceneError) as caught:
        restore_scene(source, tmp_path / "out.tif", Same(), options=RestoreOptions(**changes))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tif"]


def test_the_scene_itself_is_never_the_target(tmp_path: Path) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 60, 70)))
    (tmp_path / "out.tif").symlink_to(source)
    with pytest.raises(SceneError, match="which is read here"):
        restore_scene(source, tmp_path / "out.tif", Same(), options=options())


def bands_of_a_safe_folder(folder: Path) -> np.ndarray:
    """A Sentinel-2 folder with bands of 10, 20 and 60 m and an SCL, names as ESA gives them."""
    name = "S2A_MSIL2A_20220501T100021_N0400_R122_T33UXQ_20220501T140000.SAFE"
    image = folder / name / "GRANULE" / "L2A_T33UXQ" / "IMG_DATA"
    fine = noise("uint16", (3, 120, 120)) % 9000 + 1000
    for folder_name, factor, names in (("R10m", 1, ["B02", "B03", "B04"]), ("R60m", 6, ["B02", "B09"])):
        (image / folder_name).mkdir(parents=True)
        for i, band in enumerate(names):
            values = fine[i : i + 1] if factor == 1 else noise("uint16", (1, 20, 20))
            transform = coarser(factor)
            path = image / folder_name / f"T33UXQ_20220501T100021_{band}_{folder_name[1:]}.jp2"
            make(
                path,
                values,
                driver="JP2OpenJPEG",
                quality="100",
                reversible="YES",
                crs=UTM["crs"],
                transform=transform,
            )
    (image / "R20m").mkdir()
    scl = np.full((1, 60, 60), 4, np.uint8)
    scl[:, :10, :10] = 9
    make(
        image / "R20m" / "T33UXQ_20220501T100021_SCL_20m.jp2", scl, driver="JP2OpenJPEG", quality="100",
        reversible="YES", crs=UTM["crs"], transform=coarser(2),
    )  # fmt: skip
    return fine


@pytest.mark.filterwarnings("ignore:These weights do not restore B09:")
def test_a_safe_folder_goes_in_with_its_bands_offset_and_mask(tmp_path: Path) -> None:
    values = bands_of_a_safe_folder(tmp_path)
    folder = next(tmp_path.glob("*.SAFE"))
    settings = RestoreOptions(mask="scl", dilate=0, feather=0)
    restore_scene(folder, tmp_path / "out.tif", Counting(0.5, spec=ANY_CLOUD), options=settings)
    with rasterio.open(tmp_path / "out.tif") as out:
        assert out.descriptions == ("B02", "B03", "B04", "B09")
        assert out.crs == CRS.from_epsg(32633)
        assert out.transform == UTM["transform"]
        restored = out.read([1, 2, 3])
    clear = np.ones((120, 120), bool)
    clear[:20, :20] = False
    assert np.array_equal(restored[:, clear], values[:, clear])
    under = np.clip(values[:, ~clear].astype(float) - 1000, 0, 3558) / 2 + 1000
    assert np.abs(restored[:, ~clear] - under).max() <= 0.5 + 1e-3
    item = json.loads((tmp_path / "out.json").read_text())
    assert item["properties"]["attcr:sensor"] == "s2-l2a-n0400"


def test_a_list_of_band_files_and_a_stac_item_give_the_same(tmp_path: Path) -> None:
    bands_of_a_safe_folder(tmp_path)
    files = sorted(next(tmp_path.glob("*.SAFE")).rglob("*_10m.jp2"))
    settings = RestoreOptions(sensor="s2-l2a-n0400", mask="none")
    restore_scene(files, tmp_path / "files.tif", Counting(0.5, spec=TRUE_COLOUR), options=settings)
    item = {
        "type": "Feature", "stac_version": "1.0.0", "id": "S2A_33UXQ_20220501_0_L2A", "geometry": None,
        "properties": {"datetime": "2022-05-01T10:00:21Z", "s2:processing_baseline": "04.00",
                       "processing:level": "L2A"},
        "links": [],
        "assets": {
            name: {"href": str(path), "type": "image/jp2", "eo:bands": [{"name": name, "common_name": name}]}
            for name, path in zip(("blue", "green", "red"), files, strict=True)
        },
    }  # fmt: skip
    (tmp_path / "item.json").write_text(json.dumps(item))
    restore_scene(
        tmp_path / "item.json",
        tmp_path / "item_out.tif",
        Counting(0.5, spec=TRUE_COLOUR),
        options=replace(settings, sensor=None),
    )
    assert np.array_equal(read(tmp_path / "files.tif"), read(tmp_path / "item_out.tif"))
    written = json.loads((tmp_path / "item_out.json").read_text())
    assert written["properties"]["attcr:sensor"] == "s2-l2a-n0400"
    assert written["properties"]["datetime"] == "2022-05-01T10:00:21Z"


def test_memory_is_refused_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 300, 300)))
    monkeypatch.setattr(attcr.restore.scene, "MEMORY_SHARE", 1e-9)
    model = Counting()
    with pytest.raises(SceneError, match=r"0\.0 GiB are allowed: use a smaller `tile`"):
        restore_scene(source, tmp_path / "out.tif", model, options=options())
    assert model.tiles == 0


@pytest.fixture
def l2a(shared_data: Path) -> Path:
    return shared_data / "scenes" / "s2_l2a_60m"


@pytest.mark.filterwarnings("ignore:These weights do not restore B8A:")
def test_the_real_l2a_band_files_go_through_with_their_scl(l2a: Path, tmp_path: Path) -> None:
    result = restore_scene(l2a, tmp_path / "out.tif", Counting(0.8, spec=ANY_CLOUD))
    before = np.stack([read(next(l2a.glob(f"*_{band}_60m.jp2")))[0] for band in ("B02", "B03", "B04")])
    *after, infrared = read(tmp_path / "out.tif")
    after = np.stack(after)
    assert np.array_equal(infrared, read(next(l2a.glob("*_B8A_60m.jp2")))[0])
    quality = read(result.quality)[0]
    assert np.array_equal(after[:, quality <= 1], before[:, quality <= 1])
    scl = read(next(l2a.glob("*_SCL_60m.jp2")))[0]
    valid = (before > 0).any(axis=0)
    assert (quality[(scl == 9) & valid] == 3).all()
    assert set(quality[(scl == 8) & valid]) == {2, 3}  # as the image shows
    assert (quality[(scl == 10) & valid] >= 2).all()
    assert (quality[~valid] == 0).all()
    assert result.tiles_run < result.tiles
    with rasterio.open(tmp_path / "out.tif") as out, rasterio.open(next(l2a.glob("*_B02_60m.jp2"))) as came:
        assert (out.crs, out.transform, out.shape) == (came.crs, came.transform, came.shape)
    assert cog_validate(tmp_path / "out.tif", quiet=True)[0]
    assert json.loads(result.item.read_text())["properties"]["attcr:sensor"] == "s2-l2a"


def test_the_real_l1c_mosaic_needs_radar_or_weights_without(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "scenes" / "s2_l1c_roi136" / "cloudy.tif"
    settings = RestoreOptions(sensor="s2-l1c", mask="none")
    with_radar = Same(spec=SEN12MSCR)
    with pytest.raises(SceneError, match="give it with `radar`"):
        restore_scene(source, tmp_path / "out.tif", with_radar, options=settings)
    model = Counting(0.9, spec=SEN12MSCR_OPTICAL)
    result = restore_scene(source, tmp_path / "out.tif", model, options=settings)
    before, after = read(source), read(tmp_path / "out.tif")
    empty = (before == 0).all(axis=0)
    assert np.array_equal(after[:, empty], before[:, empty])
    assert result.pixels["no data"] == int(empty.sum())
    wanted = np.clip(before[:, ~empty].astype(float), 0, 10000) * 0.9
    assert np.abs(after[:, ~empty] - wanted).max() <= 0.51
    with pytest.raises(SceneError, match="is s2-l2a and the weights take s2-l1c"):
        restore_scene(source, tmp_path / "o.tif", model, options=RestoreOptions(sensor="s2-l2a"))


def test_a_13_band_network_of_ours_takes_the_real_mosaic(shared_data: Path, tmp_path: Path) -> None:
    plain = {"dim": 8, "blocks": (1,) * 5, "heads": (2,) * 5, "scales": ((1,),) * 5}
    config = attcr.ATTCRConfig(in_channels=13, out_channels=13, residual=tuple(range(13)), **plain)  # type: ignore[arg-type]
    source = shared_data / "scenes" / "s2_l1c_roi136" / "cloudy.tif"
    settings = RestoreOptions(sensor="s2-l1c", mask="none", tile=384, overlap=0)
    model: Any = attcr.ATTCR(config)
    model.spec = SEN12MSCR_OPTICAL
    result = restore_scene(source, tmp_path / "out.tif", model, options=settings)
    assert result.tiles_run == 2
    assert cog_validate(tmp_path / "out.tif", quiet=True)[0]


class AddRadar(Counting):
    def forward(self, x: Any) -> Any:
        return x[:, 2:] * 0 + x[:, :1]


def test_radar_reaches_the_network_on_the_scenes_grid(shared_data: Path, tmp_path: Path) -> None:
    name = "ROIs1970_fall_139_p839.tif"
    source = shared_data / "sen12mscr" / "s2_cloudy" / name
    model = AddRadar(spec=SEN12MSCR)
    radar = shared_data / "sen12mscr" / "s1" / name
    settings = RestoreOptions(sensor="s2-l1c", mask="none", radar=str(radar))
    restore_scene(source, tmp_path / "out.tif", model, options=settings)
    db = read(radar)[0]
    wanted = np.rint((np.clip(db, -25, 0) + 25) / 12.5 * 2000)
    assert np.abs(read(tmp_path / "out.tif")[5] - wanted).max() <= 1


def test_a_scene_that_is_refused_leaves_no_file_open(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, name = shared_data / "sen12mscr", "ROIs1970_fall_139_p839.tif"
    settings = RestoreOptions(sensor="s2-l1c", radar=str(folder / "s1" / name), mask="none")
    monkeypatch.setattr(attcr.restore.scene, "MEMORY_SHARE", 1e-9)
    before = {path.resolve() for path in Path("/proc/self/fd").iterdir()}
    with pytest.raises(SceneError, match="use a smaller `tile`") as error:
        restore_scene(folder / "s2_cloudy" / name, tmp_path / "out.tif", AddRadar(spec=SEN12MSCR), options=settings)
    assert error.value.__traceback__, "its frames still hold what was opened"
    assert {path.resolve() for path in Path("/proc/self/fd").iterdir()} - before == set()


def test_a_system_that_does_not_tell_its_memory_restores_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf")  # Windows has none
    source = make(tmp_path / "in.tif", noise("uint8", (3, 60, 70)))
    result = restore_scene(source, tmp_path / "out.tif", Same(), options=options())
    assert same_bits(read(result.target), read(source))
    monkeypatch.setattr(attcr.restore.scene, "MEMORY_SHARE", 1e-9)
    with pytest.raises(SceneError, match=r"and 0\.0 GiB are allowed"):
        restore_scene(source, tmp_path / "other.tif", Same(), options=options())


class Known:
    """A predictor that may say what a pixel takes."""

    identity: dict[str, str] = {"weights_sha256": "none", "dtype": "float32", "backend": "fake"}  # noqa: RUF012
    spec = by_position(3)

    def __init__(self, each: int | None = None) -> None:
        if each:
            self.bytes_per_pixel = each

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x


def test_memory_is_that_of_the_step_that_takes_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 300, 300)))

    def memory(model: Any, **settings: Any) -> int:
        with gdal(), open_job(source, model, replace(options(), overlap=0, **settings)) as job:
            return job.memory

    process = 480 << 20
    network = {tile: memory(Known(100_000), tile=tile) - memory(Known(), tile=tile) for tile in (64, 128)}
    assert network == {64: 96_000 * 64 * 64, 128: 96_000 * 128 * 128}
    assert process + 4000 * 128**2 < memory(Known(), tile=128) < process + 5000 * 128**2
    assert memory(Known(100_000), tile=64, batch=4) - memory(Known(), tile=64, batch=4) == 4 * network[64]
    ground = make(tmp_path / "mask.tif", np.zeros((1, 300, 300), np.uint8))
    alone = memory(Known(), tile=16, mask=str(ground), ground="network")
    assert alone < process + (4 << 20)
    assert memory(Known(), tile=16, mask=str(ground)) > max(alone, process + 8 * 4 * 3 * 300 * 300)
    monkeypatch.setattr(attcr.restore.scene, "MEMORY_SHARE", 1.0)
    monkeypatch.setattr(attcr.restore.scene, "memory_of_machine", lambda: process + 3 * 100_000 * 64 * 64)
    with gdal(), open_job(source, Known(100_000), replace(options(), overlap=0, tile=64, batch=8)) as job:
        assert job.options.batch == 2
    with pytest.raises(SceneError, match=r"in tiles of 256, takes .* GiB of memory and 1\.6 GiB are allowed"):
        memory(Known(100_000), tile=256)


def test_a_full_disk_is_told_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 60, 70)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(SceneError, match="larger disk"):
        restore_scene(source, tmp_path / "out.tif", Same(), options=options())


def fails(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "at",
    [
        "attcr.scenes.write._add_overviews",
        "attcr.scenes.write.rasterio.shutil.copy",
        "attcr.scenes.write.cog_validate",
        "attcr.scenes.write._add_tags",
        "attcr.scenes.write.write_png",
        "attcr.scenes.write.write_mask_rows",
        "attcr.scenes.write.to_disk",
        "attcr.restore.publish.to_disk",
        "attcr.restore.resume.write_whole",
        "attcr.restore.resume.make_folder",
    ],
)
def test_a_disk_that_fills_up_is_told_in_a_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 60, 70)), mask_band)
    (tmp_path / "out.json").write_text("old")
    monkeypatch.setattr(at, fails)
    with pytest.raises(SceneError, match="disk full") as error:
        restore_scene(source, tmp_path / "out.tif", Same(), options=options(), overwrite=True)
    assert "\n" not in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tif", "out.json"]
    assert (tmp_path / "out.json").read_text() == "old"


@pytest.mark.parametrize("room", [0, 4096, 20_000, 60_000, 150_000, 300_000])
@pytest.mark.parametrize("stage", ["restore", "write"])
def test_a_small_disk_that_fills_up_is_told_in_a_line_and_leaves_nothing(
    small_disk: Path, tmp_path: Path, stage: str, room: int
) -> None:
    source = make(tmp_path / "in.tif", noise("uint8", (3, 300, 300)), **UTM)

    def fill(progress: Progress) -> None:
        if progress.stage == stage and not (small_disk / "ballast").exists():
            free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
            (small_disk / "ballast").write_bytes(bytes(max(free - room, 0)))

    with pytest.raises(SceneError, match="disk full") as error:
        restore_scene(source, small_disk / "out.tif", Same(), options=options(), progress=fill)
    assert "\n" not in str(error.value)
    assert [path.name for path in small_disk.iterdir()] == ["ballast"]


def test_a_second_run_on_the_same_target_is_refused_and_leaves_the_first_alone(tmp_path: Path) -> None:
    scene = make(tmp_path / "scene.tif", noise("uint8", (3, 60, 60)))
    refused: list[str] = []

    def try_again(progress: Progress) -> None:
        if progress.stage == "restore":
            with pytest.raises(SceneError, match="another run") as error:
                restore_scene(scene, tmp_path / "out.tif", Same(), options=options())
            refused.append(str(error.value))

    restore_scene(scene, tmp_path / "out.tif", Same(), options=options(), progress=try_again)
    assert refused
    assert same_bits(read(tmp_path / "out.tif"), read(scene))


@pytest.mark.parametrize("count", [1, 3, 20])
def test_blocks_are_joined_to_the_bytes_of_a_whole_run(tmp_path: Path, count: int) -> None:
    values = noise("uint8", (3, 300, 90))
    scene = make(tmp_path / "in.tif", values, photometric="RGB", **UTM)
    mask = np.zeros((1, 300, 90), np.uint8)
    mask[:, 40:280, 20:60] = 1
    given = options(tile=64, mask=str(make(tmp_path / "mask.tif", mask, **UTM)), confidence=True)
    model = Smooth()
    for name in ("whole", "joined"):
        (tmp_path / name).mkdir()
    whole = restore_scene(scene, tmp_path / "whole" / "out.tif", model, options=given)
    parts = [tmp_path / f"{i}.zip" for i in range(count)]
    for i, part in enumerate(parts):
        restore_block(scene, part, model, block=(i, count), options=given)
    joined = join_blocks(scene, parts, tmp_path / "joined" / "out.tif", model, options=given)
    assert joined.pixels == whole.pixels
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("whole", "joined")]
    assert files[0] == files[1]
    if count > 1:
        with pytest.raises(SceneError, match="came"):
            join_blocks(scene, parts[:-1], tmp_path / "joined" / "half.tif", model, options=given)
        assert not list((tmp_path / "joined").glob(".*"))


@pytest.mark.parametrize(("flags", "dtype"), [("fpu amx_bf16", "bfloat16"), ("fpu avx2", "float32")])
def test_the_item_names_the_type_that_this_machine_chose(
    flags: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {flags}\n")
    monkeypatch.setattr("attcr.predict.CPU_INFO", tmp_path / "cpuinfo")
    scene = make(tmp_path / "in.tif", noise("uint8", (3, 40, 50)))
    options = RestoreOptions(sensor=SENSORS["uint8"], mask="none")
    result = restore_scene(scene, tmp_path / "out.tif", "rgb-thin", options=options)
    told = json.loads(result.item.read_text())["properties"]
    assert told["attcr:predictor"]["dtype"] == told["attcr:options"]["dtype"] == dtype
    named = restore_scene(scene, tmp_path / "named.tif", "rgb-thin", options=replace(options, dtype=dtype))
    assert read(named.target).tobytes() == read(result.target).tobytes()
    assert json.loads(named.item.read_text())["properties"]["attcr:options_sha256"] == told["attcr:options_sha256"]
