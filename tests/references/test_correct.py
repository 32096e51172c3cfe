"""The network that corrects references, in restore: what it adds, where, and that strips do not decide it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attcr.references.correct
import attcr.restore.scene as scene_module
from attcr.bands.sensors import SENTINEL2_L1C, SENTINEL2_L2A
from attcr.bands.spec import OTHER_DATES
from attcr.errors import AttcrWarning, ConfigError
from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.references.check import Checked
from attcr.references.correct import (
    BANDS,
    Corrections,
    Corrector,
    Pair,
    open_corrector,
    see,
    tiles_over,
    with_network,
)
from attcr.references.fill import Corrected, Filled, Tuned, meet_border, tune
from attcr.restore import RestoreOptions, join_blocks, restore_block, restore_scene
from attcr.restore.walk import FROM_DATE
from attcr.weights import save_model
from fake_dates import a_gap, evidence_of, ground
from fake_scenes import UTM, make, read, same_bits
from interrupts import interrupted

HEIGHT, WIDTH = 320, 96
NAMES = ("B03", "B04", "B08")
SMALL = {"tile": 96, "overlap": 16, "dilate": 2, "feather": 2}
TINY = ATTCRConfig(
    in_channels=len(OTHER_DATES.slots),
    out_channels=2 * BANDS,
    residual=(),
    dim=8,
    blocks=(1, 1, 1, 1, 1),
    heads=(2, 2, 2, 2, 2),
)


def carry_along_rows(planes: np.ndarray) -> np.ndarray:
    """Stand in for a network: the mean error of the clear part of a row is that of the whole row."""
    out = np.zeros((len(planes), 2 * BANDS, *planes.shape[2:]), np.float32)
    clear = planes[:, -3:-2]
    errors = planes[:, 2 * BANDS : 3 * BANDS] * clear
    out[:, :BANDS] = errors.sum(3, keepdims=True) / np.maximum(clear.sum(3, keepdims=True), 1)
    return out


class Place:
    """A scene whose rows have changed, each by itself, since the reference: no smooth fit tells that."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        row, col = np.indices((HEIGHT, WIDTH))
        self.gap = ((row - 160) / 3.2) ** 2 + (col - 44) ** 2 < 36**2
        shown = ground(HEIGHT, WIDTH)
        changed = np.random.default_rng(3).normal(0, 0.02, (3, HEIGHT, 1))
        self.truth = (shown + changed).clip(0.001).astype(np.float32)
        self.cloudy = self.write("S2_20200601", np.where(self.gap, 0.8, self.truth))
        self.mask = make(folder / "mask.tif", self.gap[None].astype(np.uint8), **UTM)
        self.first = self.write("S2_20200611", shown)
        self.second = self.write("S2_20200522", shown * 0.7 + 0.05)

    def write(self, name: str, values: np.ndarray) -> Path:
        def named(file: Any) -> None:
            file.descriptions = NAMES
            file.update_tags(PROCESSING_LEVEL="Level-2A", PROCESSING_BASELINE="02.08")

        return make(self.folder / f"{name}.tif", np.rint(values * 10_000).astype(np.uint16), named, **UTM)

    def options(self, *references: Path, **more: Any) -> RestoreOptions:
        given = {"mask": str(self.mask), "reference_mask": "none", **SMALL, **more}
        return RestoreOptions(references=tuple(map(str, references)), **given)

    def restore(self, name: str, *references: Path, resume: bool = False, **more: Any) -> Any:
        options = self.options(*(references or [self.first]), **more)
        target = self.folder / f"{name}.tif"
        return restore_scene(self.cloudy, target, "none", options=options, overwrite=True, resume=resume)

    def error(self, result: Any) -> float:
        return float(np.abs(read(result.target) / 10_000 - self.truth)[:, self.gap].mean())

    def files(self, name: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.glob(f"{name}*")) if path.is_file()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    identity = {"weights_sha256": "f" * 64, "backend": "none", "dtype": "float32"}

    def opened(product: Any, names: Any, **_: Any) -> Corrector:
        places = OTHER_DATES.places(product, names)
        bands, slots = zip(*sorted((at, slot) for slot, at in enumerate(places) if at is not None), strict=True)
        return Corrector(carry_along_rows, bands, slots, identity)

    monkeypatch.setattr(scene_module, "open_corrector", opened)
    return Place(tmp_path)


def test_the_network_is_taken_where_it_is_better_on_hidden_ground_and_said_so(place: Place) -> None:
    usual, better = place.restore("usual", reference_fill="classical"), place.restore("better")
    assert place.error(better) < 0.6 * place.error(usual)
    told = json.loads(better.item.read_text())["properties"]["attcr:references"][0]
    assert told == better.references[0]
    assert (told["method"], told["network_share"], told["network_sha256"]) == ("network", 1.0, "f" * 64)
    assert told["expected_error"] < 0.7 * told["classical_error"]
    assert told["classical_method"] == usual.references[0]["method"]
    assert told["classical_error"] == usual.references[0]["expected_error"]
    assert "network_share" not in usual.references[0]
    assert same_bits(read(better.quality), read(usual.quality))
    original = read(better.quality)[0] != FROM_DATE
    assert same_bits(read(better.target)[:, original], read(place.cloudy)[:, original])


class ByPlace(Corrector):
    """Corrects each tile by a number of its own."""

    def correct(self, pairs: Sequence[Pair], bases: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [base + 0.01 * (pair.row % 7 + pair.col % 5) for pair, base in zip(pairs, bases, strict=True)]


def as_it_is(values: np.ndarray, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    return values


def corrections(height: int = 600, width: int = 500, errors: Sequence[float] = (0.005,)) -> Corrections:
    def read(top: int, bottom: int) -> list[Pair]:
        gap = np.zeros((bottom - top, width), bool)
        gap[:, 40:400] = True
        blank = np.zeros((1, bottom - top, width), np.float32)
        return [Pair(top, 0, blank, blank, ~gap, gap)] * len(errors)

    checked = Checked("regression", 0.01, {}, 100)
    tuned = [Tuned(as_it_is, checked, Corrected(0.5, error, as_it_is)) for error in errors]
    tiles = tiles_over(height, width)
    assert tiles is not None
    return Corrections(ByPlace(carry_along_rows, (0,), (3,)), tiles, tuned, read, 2)


def test_no_border_of_a_tile_shows() -> None:
    (added,) = corrections().rows(0, 600, 0)
    assert added is not None
    inside = added.values[0, :, 40:400]
    assert np.ptp(inside) > 0.02
    assert max(np.abs(np.diff(inside, axis=axis)).max() for axis in (0, 1)) < 0.03 * np.ptp(inside)
    assert np.allclose(added.share[:, 40:400], 0.5)
    assert not added.values[0, :, :40].any()
    assert not added.share[:, 400:].any()


def test_a_reference_is_corrected_where_it_has_a_fifth_of_the_weight() -> None:
    for errors, corrected in (((0.005, 0.006), [True, True]), ((0.005, 0.01), [True, False])):
        added = corrections(errors=errors).rows(0, 100, 0)
        assert [one is not None and bool(one.share.any()) for one in added] == corrected, errors


def test_rows_are_the_same_however_they_are_asked_for() -> None:
    (whole,) = corrections().rows(0, 600, 0)
    asked = corrections()
    for top, bottom in ((0, 1), (1, 250), (250, 257), (450, 600), (100, 130), (130, 580)):
        (part,) = asked.rows(top, bottom, max(top - 5, 0))
        assert whole is not None
        assert part is not None
        assert part.top == min(top, 5)
        assert same_bits(part.values, whole.values[:, top:bottom])
        assert same_bits(part.share, whole.share[top:bottom])


def test_strips_and_batches_do_not_decide_the_bytes(place: Place) -> None:
    first = place.restore("first")
    assert first.references[0]["network_share"] == 1
    for how in ({"tile": 64, "overlap": 8}, {"tile": 512, "overlap": 32, "batch": 3}):
        assert same_bits(read(first.target), read(place.restore("second", **how).target)), how


def test_blocks_put_together_are_the_whole_to_the_byte(place: Place) -> None:
    place.restore("out", place.first, place.second)
    whole = place.files("out")
    options = place.options(place.first, place.second)
    parts = [place.folder / f"part{i}" for i in range(3)]
    for i, part in enumerate(parts):
        restore_block(place.cloudy, part, "none", block=(i, 3), options=options)
    join_blocks(place.cloudy, parts, place.folder / "out.tif", "none", options=options, overwrite=True)
    assert place.files("out") == whole


def test_interrupted_and_resumed_it_gives_the_same_bytes_and_with_another_network_it_begins_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.restore("out", place.first, place.second)
    whole = place.files("out")

    def interrupt() -> None:
        interrupted(lambda: place.restore("out", place.first, place.second), strips=2)

    interrupt()
    result = place.restore("out", place.first, place.second, resume=True)
    assert result.resumed_row > 0
    assert place.files("out") == whole
    interrupt()
    opened = scene_module.open_corrector
    other = {"weights_sha256": "e" * 64}
    monkeypatch.setattr(scene_module, "open_corrector", lambda *a, **k: replace(opened(*a, **k), identity=other))
    with pytest.warns(AttcrWarning, match="other work"):
        assert place.restore("out", place.first, place.second, resume=True).resumed_row == 0


def test_where_less_than_a_tenth_is_clear_it_is_not_used(place: Place) -> None:
    cloud = np.ones((1, HEIGHT, WIDTH), np.uint8)
    cloud[:, :24] = 0
    mask = make(place.folder / "wide.tif", cloud, **UTM)
    first = place.restore("first", mask=str(mask))
    second = place.restore("second", mask=str(mask), reference_fill="classical")
    assert "network_share" not in first.references[0]
    assert same_bits(read(first.target), read(second.target))


def test_cirrus_is_seen_and_not_corrected() -> None:
    network = Corrector(carry_along_rows, (0, 1, 2), (9, 10, 11))
    assert network.corrected == [0, 2]


def test_the_network_sees_errors_and_tones_relative_to_the_pair() -> None:
    target, harmonised, reference = (np.full((2, 8, 8), value, np.float32) for value in (0.25, 0.2, 0.125))
    harmonised[:, :, ::2] += 0.02  # the error is 0.03 and 0.05, and the mean deviation from the mean 0.01
    gap = np.zeros((8, 8), bool)
    gap[2:4] = True
    seen = see(target, harmonised, reference, ~gap, gap, (3, 7))
    assert seen.unit.ravel() == pytest.approx(0.04)
    assert seen.planes[3, 2] == pytest.approx(np.tile([1, -1], 4) * 0.01 / 0.011, rel=1e-4)
    assert not seen.planes[BANDS + 3].any()
    assert seen.planes[2 * BANDS + 7, 0] == pytest.approx(np.tile([0.75, 1.25], 4), rel=1e-4)
    assert not seen.planes[2 * BANDS + 7, 2:4].any()
    assert [at for at in range(BANDS) if seen.planes[3 * BANDS + at].any()] == [3, 7]
    assert np.array_equal(seen.planes[-3:-1], [~gap, gap])
    assert seen.planes[-1] == pytest.approx(np.log(0.04 / 0.011), rel=1e-4)
    out = np.zeros((2 * BANDS, 8, 8), np.float32)
    out[7], out[BANDS + 3] = 0.5, np.log(2)
    assert seen.corrected(out, harmonised, (3, 7)) - harmonised == pytest.approx(
        np.broadcast_to([[[0]], [[0.02]]], (2, 8, 8))
    )
    assert seen.expected(out, (3, 7))[:, 0, 0] == pytest.approx([0.08, 0.04])


def test_hidden_ground_is_no_longer_clear_and_what_is_harmonised_stays_within_bounds() -> None:
    clear = np.zeros((1, 6), bool)
    clear[:, :4] = True
    images = np.array([[[-0.3, 0.1, 0.5, 0.9, 0.2, 0.2]]], np.float32)
    pair = Pair(5, 7, images, images, clear, ~clear)
    here = np.array([[True, False, False, False, False, False]])
    hidden = pair.hide(here)
    assert hidden.clear.tolist() == [[False, True, True, True, False, False]]
    assert hidden.gap.tolist() == [[True, False, False, False, True, True]]
    fitted = pair.harmonised(lambda values, rows, cols: 3 * values)
    assert fitted[0, 0] == pytest.approx([-0.2, 0.3, 1.5, 2, 0.6, 0.6])
    placed = pair.cut(slice(2, 4)).harmonised(lambda values, rows, cols: (rows + cols / 100)[None].astype(np.float32))
    assert placed[0, 0] == pytest.approx([2, 2])  # rows begin at 5
    assert (pair.cut(slice(2, 4)).row, pair.cut(slice(2, 4)).col) == (5, 9)


class Nearer(Corrector):
    """Brings every pixel nearer to the truth by a part of what is missing."""

    gain = 0.0

    def correct(self, pairs: Sequence[Pair], bases: Sequence[np.ndarray]) -> list[np.ndarray]:
        filled = [
            Filled(base, (pair.clear | pair.gap)[None].astype(np.float32))
            for pair, base in zip(pairs, bases, strict=True)
        ]
        was = [meet_border(one, pair.target, pair.clear) for one, pair in zip(filled, pairs, strict=True)]
        return [one + self.gain * (pair.target - one) for one, pair in zip(was, pairs, strict=True)]


def share_taken(gain: float, clear: np.ndarray, gap: np.ndarray) -> Tuned:
    reference = ground(256, 256)
    noise = np.random.default_rng(1).normal(0, 0.02, reference.shape)
    target = (reference * 0.8 + 0.03 + noise).astype(np.float32)
    evidence = evidence_of(reference, target, gap, clear)
    pair = Pair(0, 0, target, reference, clear, gap)
    corrector = Nearer(carry_along_rows, (0, 1, 2), (1, 2, 3))
    object.__setattr__(corrector, "gain", gain)
    tiles = tiles_over(256, 256)
    assert tiles is not None
    return with_network(tune(evidence, ["regression"]), evidence, corrector, tiles, lambda top, bottom: pair)


def test_the_network_is_taken_where_it_makes_the_error_two_percent_smaller() -> None:
    gap = a_gap(256, 256)
    assert share_taken(0.01, ~gap, gap).corrected is None
    taken = share_taken(0.03, ~gap, gap)
    assert taken.corrected is not None
    assert taken.corrected.share == 1
    assert taken.error == pytest.approx(0.97 * taken.checked.error, rel=1e-3)


def test_a_tile_of_which_too_little_would_stay_clear_is_not_tried() -> None:
    gap = np.ones((256, 256), bool)
    gap[:38] = False  # 15 % is clear, and less than 10 % once some of it is hidden
    assert share_taken(0.5, ~gap, gap).corrected is None
    gap[38:128] = False
    assert share_taken(0.5, ~gap, gap).corrected is not None


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    torch.manual_seed(0)
    path = tmp_path / "tiny.safetensors"
    save_model(ATTCR(TINY).half(), path, spec=OTHER_DATES)
    monkeypatch.setattr(attcr.references.correct, "weights_file", lambda: path)
    return path


def test_weights_are_opened_for_the_bands_that_they_know(weights: Path) -> None:
    network = open_corrector(SENTINEL2_L2A, ["B04", "thermal", "B08"])
    assert network is not None
    assert (network.bands, network.slots) == ((0, 2), (3, 7))
    planes = np.random.default_rng(0).normal(size=(1, len(OTHER_DATES.slots), 32, 40)).astype(np.float32)
    assert network.network(planes).shape == (1, 2 * BANDS, 32, 40)
    half = open_corrector(SENTINEL2_L1C, ["B04"], dtype="bfloat16")
    assert half is not None
    assert np.abs(half.network(planes) - network.network(planes)).max() < 0.1 * np.abs(network.network(planes)).max()
    assert open_corrector(SENTINEL2_L1C, ["thermal"]) is None
    with pytest.raises(ConfigError, match="does not correct references"):
        open_corrector(SENTINEL2_L1C, ["B04"], weights="rgb-thin")


def test_a_network_that_does_not_help_leaves_what_is_classical(tmp_path: Path, weights: Path) -> None:
    place = Place(tmp_path)
    first, second = place.restore("first"), place.restore("second", reference_fill="classical")
    assert same_bits(read(first.target), read(second.target))
    told = [json.loads(one.item.read_text())["properties"]["attcr:fingerprint"] for one in (first, second)]
    assert told[0] != told[1]


def test_these_weights_restore_no_scene(place: Place, weights: Path) -> None:
    with pytest.raises(Exception, match="correct other dates inside gaps"):
        restore_scene(place.cloudy, place.folder / "out.tif", weights, options=RestoreOptions(mask=str(place.mask)))
