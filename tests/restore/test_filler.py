"""What is under cloud comes from other dates, and a layer says from which."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from affine import Affine
from rasterio.warp import reproject, transform
from scipy.ndimage import gaussian_filter
from typer.testing import CliRunner

import attcr.restore.scene
from attcr.bands.sensors import LANDSAT_C2_L2, SENTINEL2_L2A, Sensor
from attcr.bands.spec import InputSpec, band_slots
from attcr.cli import app
from attcr.errors import AttcrWarning, ConfigError, SceneError
from attcr.references.fill import Colours
from attcr.restore import Progress, RestoreOptions, join_blocks, restore_block, restore_scene
from attcr.restore.array import ArrayRows
from attcr.restore.filler import Filler, colours_of
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, LOW_CONFIDENCE, ORIGINAL, QUALITY_NAMES, UNDER_THIN, Strip
from attcr.scenes.clouds.masks import THICK, THIN
from attcr.scenes.clouds.rim import CloudMap, Rim
from fake_dates import a_gap, ground
from fake_scenes import UTM, make, read, same_bits
from interrupts import interrupted

HEIGHT, WIDTH = 160, 144
NAMES = ("B03", "B04", "B08")
BANDS = ("green", "red", "nir")
L2A = {"PROCESSING_LEVEL": "Level-2A", "PROCESSING_BASELINE": "02.08"}
L2A_N0400 = {"PROCESSING_LEVEL": "Level-2A", "PROCESSING_BASELINE": "05.09"}
SMALL = {"tile": 64, "overlap": 16, "dilate": 2, "feather": 2}


def numbers(reflectance: np.ndarray, offset: float = 0.0) -> np.ndarray:
    return np.rint((reflectance - offset) * 10_000).clip(1).astype(np.uint16)


def scene(path: Path, values: np.ndarray, tags: dict[str, str] | None = None, **profile: Any) -> Path:
    def named(file: Any) -> None:
        file.descriptions = NAMES[: values.shape[0]]
        file.update_tags(**(L2A if tags is None else tags))

    return make(path, values, named, **{**UTM, **profile})


class Place:
    """One place on three dates: the scene under a cloud, the truth, and two references in other tones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gap = a_gap(HEIGHT, WIDTH)
        fine = gaussian_filter(ground(2 * HEIGHT + 2, 2 * WIDTH + 2), (0, 2, 2))
        changed = np.random.default_rng(7).normal(0, 0.004, (3, HEIGHT, WIDTH))  # what no reference knows of
        self.fine = (fine[[1, 2, 0]] * 0.3 + fine * 0.6 + 0.02).astype(np.float32)
        self.truth = (shrunk(fine) + changed).astype(np.float32)
        cloudy = np.where(self.gap, 0.8, self.truth)
        self.cloudy = scene(folder / "S2_20200601.tif", numbers(cloudy))
        self.mask = make(folder / "mask.tif", self.gap[None].astype(np.uint8), **UTM)
        self.first = scene(folder / "S2_20200611.tif", numbers(shrunk(self.fine)))
        self.second = scene(folder / "S2_20200522.tif", numbers(self.truth * 0.5 + 0.1))

    def options(self, *references: Path, **more: Any) -> RestoreOptions:
        given = {"mask": str(self.mask), "reference_mask": "none", **SMALL, **more}
        return RestoreOptions(references=tuple(map(str, references)), **given)

    def error(self, result: Path) -> float:
        return float(np.abs(read(result) / 10_000 - self.truth)[:, self.gap].mean())


def shrunk(fine: np.ndarray, row: int = 0, col: int = 0) -> np.ndarray:
    """Means of 2 x 2 pixels, beginning at a fine pixel: one is half a coarse one."""
    part = fine[:, row : row + 2 * HEIGHT, col : col + 2 * WIDTH]
    return part.reshape(len(fine), HEIGHT, 2, WIDTH, 2).mean((2, 4), dtype=np.float32)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_without_a_network_the_command_speaks_of_no_confidence(place: Place) -> None:
    files = ["--mask", str(place.mask), "--reference", str(place.first), "--reference-mask", "none"]
    target = str(place.folder / "out.tif")
    done = CliRunner().invoke(app, ["restore", str(place.cloudy), target, "--weights", "none", *files])
    assert done.exit_code == 0, done.output
    assert "0.00%  reconstructed with low confidence" in done.output
    assert "--confidence" not in done.output


def test_cloud_is_gone_and_every_pixel_says_where_it_is_from(place: Place) -> None:
    result = restore_scene(
        place.cloudy, place.folder / "out.tif", "none", options=place.options(place.first, place.second)
    )
    assert place.error(result.target) < 0.005
    quality, dates = read(result.quality)[0], read(place.folder / "out_dates.tif")
    inside = place.gap
    assert set(quality[inside]) == {FROM_DATE}
    far = read(place.cloudy)[:, quality == ORIGINAL]
    assert same_bits(read(result.target)[:, quality == ORIGINAL], far)
    days, number, count, *weights = dates[:, inside].astype(int)  # the nearest in time comes first: -10, then +10
    assert set(number) == {1 + int(weights[1].mean() > weights[0].mean())}
    assert np.abs(np.sum(weights, axis=0) - 10_000).max() <= 1
    assert np.array_equal(count, np.sum([one > 0 for one in weights], axis=0))
    assert np.abs(days - (10 * weights[1] - 10 * weights[0]) / 10_000).max() <= 0.501
    assert (dates[:, quality == ORIGINAL] == -32768).all()
    told = json.loads(result.item.read_text())["properties"]["attcr:references"]
    assert [one["days"] for one in told] == [-10, 10]
    filled = dates[:, quality == FROM_DATE].astype(int)
    assert [one["pixels"] for one in told] == [(filled[3] > 0).sum(), (filled[4] > 0).sum()]
    assert [one["weight"] for one in told] == pytest.approx([row.mean() / 10_000 for row in filled[3:]], abs=1e-4)
    assert sum(one["share"] for one in told) == pytest.approx((quality == FROM_DATE).mean(), abs=1e-4)
    assert all(len(one["files"][0]["ends_sha256"]) == 64 and one["expected_error"] < 0.01 for one in told)
    assert all(one["expected_error"] < 0.2 * one["surroundings_error"] for one in told)
    assert told == result.references
    assert result.dates == place.folder / "out_dates.tif"
    assert result.pixels[QUALITY_NAMES[FROM_DATE]] == (quality == FROM_DATE).sum()


def classical(place: Place, *references: Path, **more: Any) -> RestoreOptions:
    return place.options(*references, reference_fill="classical", **more)


def mixture(place: Place) -> tuple[Path, list[Path]]:
    """A scene that is 0.6 of one date and 0.4 of another, each with a third of the other's contrast of its own."""
    one, other = shrunk(place.fine), ground(HEIGHT, WIDTH, seed=9)
    place.truth = (0.6 * one + 0.4 * other).astype(np.float32)
    cloudy = scene(place.folder / "S2_20200701.tif", numbers(np.where(place.gap, 0.8, place.truth)))
    dates = {"20200705": one, "20200621": 0.5 * other + 0.1}
    return cloudy, [scene(place.folder / f"S2_{day}.tif", numbers(values)) for day, values in dates.items()]


def test_a_scene_that_is_a_mixture_of_two_dates_is_filled_from_both_together(place: Place) -> None:
    cloudy, both = mixture(place)
    alone = []
    for i, one in enumerate(both):
        result = restore_scene(cloudy, place.folder / f"{i}.tif", "none", options=classical(place, one))
        alone.append(place.error(result.target))
    result = restore_scene(cloudy, place.folder / "b.tif", "none", options=classical(place, *both))
    assert place.error(result.target) < 2e-4 < 0.05 * min(alone)
    told = result.references
    assert [one["method"] for one in told] == ["joint", "joint"]
    assert [one["days"] for one in told] == [4, -10]
    assert all(one["expected_error"] < 4e-4 < one["alone_error"] for one in told)
    spread = [
        np.sqrt(np.var(values, axis=(1, 2)).sum())
        for values in (0.6 * shrunk(place.fine), 0.4 * ground(HEIGHT, WIDTH, seed=9))
    ]
    assert told[0]["weight"] == pytest.approx(spread[0] / sum(spread), abs=0.02)
    assert told[0]["weight"] + told[1]["weight"] == pytest.approx(1, abs=1e-4)
    days, _, count, *weights = read(result.dates)[:, place.gap].astype(int)
    assert (count == 2).all()
    assert np.abs(np.sum(weights, axis=0) - 10_000).max() <= 1
    assert np.abs(days - (4 * weights[0] - 10 * weights[1]) / 10_000).max() <= 0.501
    swapped = restore_scene(cloudy, place.folder / "c.tif", "none", options=classical(place, *both[::-1]))
    assert same_bits(read(swapped.target), read(result.target))
    assert same_bits(read(swapped.dates), read(result.dates))


def test_three_dates_are_mixed_where_the_scene_is_of_all_three(place: Place) -> None:
    seen = [shrunk(place.fine), *(ground(HEIGHT, WIDTH, seed=seed) for seed in (9, 10))]
    place.truth = np.mean(seen, axis=0, dtype=np.float32)
    cloudy = scene(place.folder / "S2_20200701.tif", numbers(np.where(place.gap, 0.8, place.truth)))
    dates = [
        scene(place.folder / f"S2_2020070{day}.tif", numbers(values))
        for day, values in zip((3, 5, 7), seen, strict=True)
    ]
    result = restore_scene(cloudy, place.folder / "out.tif", "none", options=classical(place, *dates))
    assert [one["method"] for one in result.references] == ["joint"] * 3
    assert (read(result.dates)[2][place.gap] == 3).all()
    assert place.error(result.target) < 5e-4


def test_a_date_that_shows_another_place_is_not_mixed_in(place: Place) -> None:
    cloudy, both = mixture(place)
    other = scene(place.folder / "S2_20200702.tif", numbers(ground(HEIGHT, WIDTH, seed=77)))
    good = restore_scene(cloudy, place.folder / "a.tif", "none", options=classical(place, *both))
    with pytest.warns(AttcrWarning, match="S2_20200702.tif fills nothing"):
        result = restore_scene(cloudy, place.folder / "b.tif", "none", options=classical(place, *both, other))
    assert [one["method"] for one in result.references] == ["refused", "joint", "joint"]
    assert same_bits(read(result.target), read(good.target))


def test_together_dates_fill_what_only_one_of_them_sees_and_strips_make_no_difference(place: Place) -> None:
    cloudy, both = mixture(place)
    half = read(both[1])
    half[:, :, 60:] = 0
    both[1] = scene(place.folder / "S2_20200620.tif", half, nodata=0)
    results = [
        restore_scene(cloudy, place.folder / f"{tile}.tif", "none", options=classical(place, *both, tile=tile))
        for tile in (64, 128)
    ]
    assert same_bits(read(results[0].target), read(results[1].target))
    assert same_bits(read(results[0].dates), read(results[1].dates))
    assert set(read(results[0].quality)[0][place.gap]) == {FROM_DATE}
    dates = read(results[0].dates)
    right = place.gap.copy()
    right[:, :60] = False
    assert (dates[2][right] == 1).all()
    assert (dates[3][right] == 10_000).all()


def test_the_edge_of_what_was_filled_does_not_show(place: Place) -> None:
    options = place.options(place.first)
    result = restore_scene(place.cloudy, place.folder / "out.tif", "none", options=options)
    values = read(result.target) / 10_000
    filled = read(result.quality)[0] == FROM_DATE
    steps = np.abs(np.diff(values, axis=2)).mean(0)
    edge = filled[:, 1:] != filled[:, :-1]
    assert steps[edge].mean() < 1.1 * np.abs(np.diff(place.truth, axis=2)).mean(0)[edge].mean()


def test_without_cloud_the_bytes_are_those_that_came(place: Place) -> None:
    clear = make(place.folder / "clear-mask.tif", np.zeros((1, HEIGHT, WIDTH), np.uint8), **UTM)
    options = place.options(place.first, mask=str(clear))
    result = restore_scene(place.cloudy, place.folder / "out.tif", "none", options=options)
    assert same_bits(read(result.target), read(place.cloudy))
    assert set(read(result.quality).ravel()) == {ORIGINAL}


def test_half_a_pixel_and_an_offset_away_the_result_is_nearly_the_same(place: Place) -> None:
    aligned = restore_scene(place.cloudy, place.folder / "a.tif", "none", options=place.options(place.first))
    t = UTM["transform"]
    moved = Affine(t.a, 0, t.c + t.a / 2, 0, t.e, t.f + t.e / 2)
    shifted = scene(
        place.folder / "S2_20200612.tif", numbers(shrunk(place.fine, 1, 1), -0.1), L2A_N0400, transform=moved
    )
    result = restore_scene(place.cloudy, place.folder / "b.tif", "none", options=place.options(shifted))
    assert place.error(result.target) < 1.1 * place.error(aligned.target)


def test_three_of_another_sensor_half_a_pixel_away_with_an_offset_are_as_good_as_aligned_ones(place: Place) -> None:
    tones = ((1.0, 0.0), (0.8, 0.03), (1.1, 0.01))
    shown = [place.fine * times + plus for times, plus in tones]
    aligned = [scene(place.folder / f"S2_2020062{i}.tif", numbers(shrunk(one))) for i, one in enumerate(shown)]
    t = UTM["transform"]
    moved = Affine(t.a, 0, t.c + t.a / 2, 0, t.e, t.f + t.e / 2)

    def landsat(file: Any) -> None:
        file.descriptions = ("SR_B3", "SR_B4", "SR_B5")
        file.update_tags(LANDSAT_PRODUCT_ID="LC08_L2SP_190025_20200620_20200625_02_T1")

    others = [
        make(
            place.folder / f"LC08_2020062{i}.tif",
            np.rint((shrunk(one, 1, 1) + 0.2) / 2.75e-5).astype(np.uint16),
            landsat,
            crs=UTM["crs"],
            transform=moved,
        )
        for i, one in enumerate(shown)
    ]
    errors = []
    for name, references in (("a", aligned), ("b", others)):
        result = restore_scene(place.cloudy, place.folder / f"{name}.tif", "none", options=place.options(*references))
        assert len({one["name"] for one in result.references}) == 3
        errors.append(place.error(result.target))
    assert errors[1] < 1.1 * errors[0], errors


def test_a_reference_in_another_projection_is_brought_to_the_grid(place: Place) -> None:
    left, top = transform("EPSG:32633", "EPSG:32632", [600000], [5500020])
    there = Affine(10, 0, left[0] - 300, 0, -10, top[0] + 300)
    wide = np.zeros((3, HEIGHT + 60, WIDTH + 60), np.float32)
    of_scene = {"src_transform": UTM["transform"], "src_crs": UTM["crs"]}
    reproject(shrunk(place.fine), wide, **of_scene, dst_transform=there, dst_crs="EPSG:32632", resampling=1)
    values = np.where(wide > 0, numbers(wide), 0).astype(np.uint16)
    other = scene(place.folder / "S2_20200613.tif", values, crs="EPSG:32632", transform=there, nodata=0)
    result = restore_scene(place.cloudy, place.folder / "out.tif", "none", options=place.options(other))
    assert set(read(result.quality)[0][place.gap]) == {FROM_DATE}


def test_cloud_that_no_reference_sees_is_left_and_said_so(place: Place) -> None:
    half = read(place.first)
    half[:, :, :60] = 0
    part = scene(place.folder / "S2_20200614.tif", half, nodata=0)
    with pytest.warns(AttcrWarning, match="cloud"):
        result = restore_scene(place.cloudy, place.folder / "out.tif", "none", options=place.options(part))
    quality = read(result.quality)[0]
    assert set(quality[:, :58][place.gap[:, :58]]) == {CLOUD_LEFT}
    assert set(quality[:, 61:][place.gap[:, 61:]]) == {FROM_DATE}
    left = quality == CLOUD_LEFT
    assert same_bits(read(result.target)[:, left], read(place.cloudy)[:, left])
    assert result.left == left.sum()


def test_clouds_of_a_reference_are_not_taken_over(place: Place) -> None:
    values = read(place.first)
    values[:, 30:50, 50:70] = 9000
    own = scene(place.folder / "S2_20200615.tif", values)
    own_mask = np.zeros((1, HEIGHT, WIDTH), np.uint8)
    own_mask[:, 30:50, 50:70] = 1
    mask = make(place.folder / "own-mask.tif", own_mask, **UTM)
    options = place.options(own, place.second, reference_mask=str(mask))
    with pytest.warns(AttcrWarning, match="cloud"):
        result = restore_scene(place.cloudy, place.folder / "out.tif", "none", options=options)
    assert read(result.quality)[0][40, 60] == CLOUD_LEFT
    assert read(place.folder / "out_dates.tif")[1][40, 60] == -32768


def all_bytes(folder: Path, name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob(f"{name}*")) if path.is_file()}


@pytest.mark.parametrize(("thin_rows", "used"), [(HEIGHT, True), (HEIGHT // 2, False)], ids=["all of it", "half of it"])
def test_a_reference_under_an_even_veil_is_used_but_for_its_thick_cloud(
    place: Place, thin_rows: int, used: bool
) -> None:
    classes = np.full((1, HEIGHT, WIDTH), 4, np.uint8)
    classes[:, :thin_rows] = 10  # cirrus
    classes[:, 38:43, 58:63] = 9
    mask = make(place.folder / "scl.tif", classes, **UTM)
    veiled = scene(place.folder / "S2_20200615.tif", numbers(shrunk(place.fine) * 0.8 + 0.1))
    options = place.options(veiled, reference_mask=f"scl={mask}", unseen="keep")
    with pytest.warns(AttcrWarning) as said:
        result = restore_scene(place.cloudy, place.folder / "out.tif", "none", options=options)
    assert any("is completely under thin cloud" in str(one.message) for one in said) == used
    quality = read(result.quality)[0]
    assert place.gap[40, 60]
    assert quality[40, 60] == CLOUD_LEFT
    row, col = next((row, col) for row, col in np.argwhere(place.gap) if 8 < row < 25)
    assert (quality[row, col] == FROM_DATE) == used


def test_interrupted_and_resumed_it_gives_the_same_bytes_and_with_another_reference_it_begins_anew(
    place: Place, tmp_path: Path
) -> None:
    options = place.options(place.first, place.second)
    restore_scene(place.cloudy, tmp_path / "out.tif", "none", options=options)
    whole = all_bytes(tmp_path, "out")
    state = tmp_path / ".out.tif.attcr" / "state.json"

    def interrupt() -> None:
        target = tmp_path / "out.tif"
        interrupted(lambda: restore_scene(place.cloudy, target, "none", options=options, overwrite=True), strips=2)

    interrupt()
    assert json.loads(state.read_text())["row"] > 0
    result = restore_scene(place.cloudy, tmp_path / "out.tif", "none", options=options, overwrite=True, resume=True)
    assert result.resumed_row > 0
    assert all_bytes(tmp_path, "out") == whole
    interrupt()
    scene(place.second, numbers(place.truth * 0.4 + 0.1))
    with pytest.warns(AttcrWarning, match="other work"):
        result = restore_scene(place.cloudy, tmp_path / "out.tif", "none", options=options, overwrite=True, resume=True)
    assert result.resumed_row == 0


def test_blocks_put_together_are_the_whole_to_the_byte_and_nothing_is_looked_at_again(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = place.options(place.first, place.second)
    restore_scene(place.cloudy, tmp_path / "out.tif", "none", options=options)
    whole = all_bytes(tmp_path, "out")
    parts = [tmp_path / f"part{i}" for i in range(2)]
    for i, part in enumerate(parts):
        restore_block(place.cloudy, part, "none", block=(i, 2), options=options)
    monkeypatch.setattr(Filler, "survey", lambda *_: pytest.fail("the references were looked at again"))
    join_blocks(place.cloudy, parts, tmp_path / "out.tif", "none", options=options, overwrite=True)
    assert all_bytes(tmp_path, "out") == whole


def test_what_cannot_be_is_refused_with_what_to_do(place: Place, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`references`"):
        restore_scene(place.cloudy, tmp_path / "o.tif", "none", options=place.options())
    with pytest.raises(SceneError, match="choose one with `mask`"):
        restore_scene(place.cloudy, tmp_path / "o.tif", "none", options=place.options(place.first, mask="none"))
    one = scene(tmp_path / "one.tif", read(place.first)[:1])
    with pytest.raises(SceneError, match=r"one\.tif cannot be used: its bands are B03"):
        restore_scene(place.cloudy, tmp_path / "o.tif", "none", options=place.options(one))
    far = scene(tmp_path / "far.tif", read(place.first), transform=Affine(10, 0, 0, 0, -10, 0))
    with pytest.raises(SceneError, match="lies outside"):
        restore_scene(place.cloudy, tmp_path / "o.tif", "none", options=place.options(far))
    with pytest.raises(SceneError, match="would be written over"):
        restore_scene(place.cloudy, place.first, "none", options=place.options(place.first), overwrite=True)


def test_progress_tells_of_the_looking_too(place: Place) -> None:
    seen: list[Progress] = []
    options = place.options(place.first)
    restore_scene(place.cloudy, place.folder / "out.tif", "none", options=options, progress=seen.append)
    assert seen[-1].stage == "write"
    assert max(one.done for one in seen if one.stage == "mask") == HEIGHT


class Unsure:
    """Stands for a network that changes every pixel of thin cloud by far, and is believed nowhere."""

    identity: ClassVar = {"weights_sha256": "0" * 64, "backend": "none", "dtype": "float32"}
    spec = InputSpec(
        band_slots(("green", "red", "nir")), ("green", "red", "nir"), ("s2-l2a",), (10, 10), ("thin",), True
    )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([x - np.float32(0.2), np.full_like(x, -5)], axis=1)


def test_what_a_network_is_not_sure_of_is_filled_from_references_too(place: Place, tmp_path: Path) -> None:
    classes = np.where(place.gap, 9, 4).astype(np.uint8)[None]
    classes[:, 100:130, 30:90] = 10  # cirrus
    thin = make(tmp_path / "scl.tif", classes, **UTM)
    options = {"mask": f"scl={thin}", "tile": 64, "ground": "network"}
    with pytest.warns(AttcrWarning, match="do not remove"):
        alone = restore_scene(place.cloudy, tmp_path / "a.tif", Unsure(), options=place.options(**options))
    both = restore_scene(place.cloudy, tmp_path / "b.tif", Unsure(), options=place.options(place.first, **options))
    assert (read(alone.quality)[0][100:130, 30:90] == LOW_CONFIDENCE).all()
    assert (read(both.quality)[0][100:130, 30:90] == FROM_DATE).all()
    assert (read(tmp_path / "b_dates.tif")[0][100:130, 30:90] == 10).all()
    assert not (read(both.quality) == LOW_CONFIDENCE).any()
    inside = (slice(None), slice(100, 130), slice(30, 90))
    assert np.abs(read(both.target) / 10_000 - place.truth)[inside].mean() < 0.01
    other = place.options(place.first, **{**options, "tile": 96})
    again = restore_scene(place.cloudy, tmp_path / "c.tif", Unsure(), options=other)
    assert same_bits(read(again.target), read(both.target))


class Sure(Unsure):
    """Stands for a network that changes thin cloud a little, and is believed."""

    spec = replace(Unsure.spec, slots=band_slots(("blue", "red", "nir")), outputs=("blue", "red", "nir"))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([x - np.float32(0.01), np.full_like(x, -20)], axis=1)


def test_thin_cloud_that_gaps_surround_is_filled_too(place: Place, tmp_path: Path) -> None:
    classes = np.full((1, HEIGHT, WIDTH), 4, np.uint8)
    classes[:, :100] = 9
    classes[:, 40:60, 50:90] = classes[:, 130:140, 50:90] = 10  # cirrus: in the middle of the gap, and far from it
    found = make(tmp_path / "scl.tif", classes, **UTM)

    def named(file: Any) -> None:
        file.descriptions = ("B02", "B04", "B08")
        file.update_tags(**L2A)

    cloudy, first = (
        make(tmp_path / f"S2_{day}.tif", read(source), named, **UTM)
        for day, source in (("20200602", place.cloudy), ("20200612", place.first))
    )
    options = place.options(first, mask=f"scl={found}", dilate=0, feather=0, ground="network")
    result = restore_scene(cloudy, tmp_path / "out.tif", Sure(), options=options)
    quality = read(result.quality)[0]
    assert (quality[:100] == FROM_DATE).all()
    assert (quality[130:140, 50:90] == UNDER_THIN).all()
    assert np.abs(read(result.target) / 10_000 - place.truth)[:, :100].mean() < 0.02


def test_gaps_grow_into_haze_that_a_product_mask_missed_and_a_mask_of_ones_own_is_taken_at_its_word(
    tmp_path: Path,
) -> None:
    row, col = np.indices((HEIGHT, WIDTH))
    place = Place(tmp_path)
    names = ("B02", "B04", "B08")
    haze = ((row - 40) ** 2 + (col - 60) ** 2 < 32**2) & ~place.gap
    values = np.where(place.gap, 0.8, np.where(haze, place.truth + 0.15, place.truth))

    def named(file: Any) -> None:
        file.descriptions = names
        file.update_tags(**L2A)

    cloudy = make(tmp_path / "S2_20200602.tif", numbers(values), named, **UTM)
    first = make(tmp_path / "S2_20200612.tif", numbers(shrunk(place.fine)), named, **UTM)
    found = make(tmp_path / "scl.tif", np.where(place.gap, 9, 4).astype(np.uint8)[None], **UTM)
    errors, grown = {}, {}
    for mask in (f"scl={found}", str(place.mask)):
        options = place.options(first, mask=mask)
        result = restore_scene(cloudy, tmp_path / "out.tif", "none", options=options, overwrite=True)
        errors[mask] = np.abs(read(result.target) / 10_000 - place.truth)[:, haze].mean()
        grown[mask] = (read(result.quality)[0] == FROM_DATE)[haze].mean()
        kept = read(result.quality)[0] == ORIGINAL
        assert same_bits(read(result.target)[:, kept], read(cloudy)[:, kept])
    (far, near), (reached, left) = errors.values(), grown.values()
    assert far < 0.2 * near
    assert reached > 0.95 > 0.7 > left
    small = restore_scene(
        cloudy, tmp_path / "small.tif", "none", options=place.options(first, mask=f"scl={found}", tile=96)
    )
    restore_scene(
        cloudy, tmp_path / "out.tif", "none", options=place.options(first, mask=f"scl={found}"), overwrite=True
    )
    assert same_bits(read(small.target), read(tmp_path / "out.tif"))


@pytest.mark.parametrize("references", [("first", "second"), ("first", "nowhere")])
def test_everything_is_closed_where_a_later_step_refuses(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, references: tuple[str, ...]
) -> None:
    monkeypatch.setattr(attcr.restore.scene, "MEMORY_SHARE", 1e-9)
    before = {path.resolve() for path in Path("/proc/self/fd").iterdir()}
    named = [getattr(place, name, tmp_path / name) for name in references]
    with pytest.raises(SceneError, match=r"smaller `tile`|nowhere does not exist") as error:
        restore_scene(place.cloudy, tmp_path / "out.tif", "none", options=place.options(*named))
    assert error.value.__traceback__, "its frames still hold what was opened"
    assert {path.resolve() for path in Path("/proc/self/fd").iterdir()} - before == set()


@pytest.mark.parametrize(
    ("product", "names", "colours"),
    [
        (SENTINEL2_L2A, ["B08", "B02", "B04"], Colours(1, 2, 0)),
        (SENTINEL2_L2A, ["B02", "B03", "B04", "B8A"], Colours(0, 2, 3)),
        (LANDSAT_C2_L2, ["SR_B2", "SR_B4", "SR_B5"], Colours(0, 1, 2)),
        (SENTINEL2_L2A, ["B03", "B04", "B08"], None),
        (SENTINEL2_L2A, ["B02", "B04", "B11"], None),
    ],
)
def test_haze_is_told_by_blue_red_and_either_near_infrared(
    product: Sensor, names: list[str], colours: Colours | None
) -> None:
    assert colours_of(product, names) == colours


@dataclass(frozen=True)
class OtherDay(ArrayRows):
    """A reference in memory."""

    name: str = "other day"
    sensor: Sensor = SENTINEL2_L2A
    days: int = 5


def filled_beside_a_network(came: np.ndarray, shown: np.ndarray, classes: np.ndarray, strip: Strip, rim: Rim) -> Strip:
    """Fill a strip that a network restored under thin cloud."""
    filler = Filler(
        scene=ArrayRows(came, None),
        product=SENTINEL2_L2A,
        clouds=CloudMap(lambda top, bottom: classes[top:bottom], len(classes), rim),
        references=[OtherDay(shown, None)],
        masks=[None],
        thick_only=True,
        colours=Colours(0, 1, 2),
    )
    filler.survey()
    return filler.fill(strip)


def test_haze_that_a_network_restores_stays_restored_beside_a_gap() -> None:
    row, col = np.indices((HEIGHT, WIDTH))
    away = np.hypot(row - 70, col - 70)
    classes = np.where(away < 20, THICK, np.where(away < 26, THIN, 0)).astype(np.uint8)
    truth = numbers(ground(HEIGHT, WIDTH))
    came = np.where(classes > 0, truth + 1000, truth).astype(np.uint16)
    quality = np.where(classes == THICK, CLOUD_LEFT, np.where(classes == THIN, UNDER_THIN, ORIGINAL)).astype(np.uint8)
    strip = Strip(0, came, came.copy(), quality, None, left=classes == THICK)
    filled = filled_beside_a_network(came, truth, classes, strip, Rim(0, 0))
    assert set(filled.quality[classes == THICK]) == {FROM_DATE}
    assert set(filled.quality[classes == THIN]) == {UNDER_THIN}
    assert filled.left is not None
    assert not filled.left.any()
    assert filled.dates is not None
    assert set(filled.dates[0][classes == THICK]) == {5}


def test_what_a_network_painted_without_being_sure_is_not_mixed_into_the_edge() -> None:
    classes = np.zeros((HEIGHT, WIDTH), np.uint8)
    classes[60:80, 50:90] = THIN
    truth = numbers(ground(HEIGHT, WIDTH))
    came = np.where(classes > 0, truth + 1000, truth).astype(np.uint16)
    quality = np.full(classes.shape, ORIGINAL, np.uint8)
    quality[54:86, 44:96] = LOW_CONFIDENCE
    painted = np.where(quality == LOW_CONFIDENCE, came + 3000, came).astype(np.uint16)
    filled = filled_beside_a_network(came, truth, classes, Strip(0, came, painted, quality, None), Rim(1, 3))
    changed = filled.quality == FROM_DATE
    assert changed[60:80, 50:90].all()
    assert changed.sum() > (classes > 0).sum()
    assert np.abs(filled.values.astype(int) - truth)[:, changed].max() < 30
    assert np.array_equal(filled.values[:, ~changed], painted[:, ~changed])
