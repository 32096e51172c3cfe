"""Veils that are moved keep their shape and light, and the ground below them is known exactly."""

from pathlib import Path

import numpy as np
import pytest

from attcr.bands.sensors import S2_L1C_BANDS
from attcr.data import DATASETS
from attcr.data.dates import BANDS_10M, BANDS_20M, BANDS_60M, CLASSES_MASK, ONE_REFLECTANCE, DatedPairs
from attcr.errors import ConfigError, DataError
from attcr.evaluate.moved import MovedVeils, place_of
from attcr.evaluate.run import COPY, evaluate, open_benchmark
from fakes import write_tif

SIZE = 48
VEIL = 0.08


def write_pair(root: Path, name: str, seed: int, *, veiled: bool = True, thick: bool = False) -> None:
    """Write a pair of SEN12MS-CR: the left third of the cloudy date is under a veil, all of it in other tones."""
    clear = np.random.default_rng(seed).integers(1000, 3000, (13, SIZE, SIZE)).astype(np.uint16)
    cloudy = clear + 20
    if veiled:
        cloudy[:, :, :16] += int(VEIL * 1e4)
    if thick:
        cloudy[:, 20:30, 30:40] = 7000
    for kind, image in (("s2", clear), ("s2_cloudy", cloudy)):
        for part, bands in (("10m.jp2", BANDS_10M), ("rest.tif", BANDS_20M + BANDS_60M)):
            write_tif(root / f"{name}_{kind}_{part}", image[[S2_L1C_BANDS.index(band) for band in bands]])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for seed, name in enumerate(("a_p1", "a_p2", "b_p1", "c_p1", "d_p1")):
        write_pair(tmp_path, name, seed, veiled=name != "d_p1")
    return tmp_path


def moved(root: Path) -> tuple[DatedPairs, MovedVeils]:
    pairs = DATASETS["sen12mscr-pairs"].open(root)
    assert isinstance(pairs, DatedPairs)
    return pairs, MovedVeils(pairs)


def test_the_truth_is_the_clear_image_itself_and_a_veil_adds_light_to_what_is_not_white(root: Path) -> None:
    pairs, veils = moved(root)
    for index, name in enumerate(veils.names):
        sample = veils[index]
        place = pairs[pairs.names.index(name.split(" on ")[1])]
        assert np.array_equal(sample["clear"], place["clear"])
        ground, seen = (
            np.asarray(image) / ONE_REFLECTANCE for image in (sample["clear"], sample["inputs"][pairs.spec.optical])
        )
        added = (seen - ground) / (1 - ground)
        np.testing.assert_allclose(added[:, :, :12], VEIL, atol=0.001)
        assert not added[:, :, 16:].any()
        classes = np.asarray(sample["masks"][CLASSES_MASK])
        assert [set(classes[:, columns].ravel()) for columns in (slice(16), slice(16, 18), slice(18, None))] == [
            {2}, {255}, {0},
        ]  # fmt: skip
        assert np.array_equal(sample["inputs"][13:], place["inputs"][13:])


def test_thick_cloud_goes_with_its_veil_as_it_was_seen(tmp_path: Path) -> None:
    write_pair(tmp_path, "a_p1", 0, thick=True)
    write_pair(tmp_path, "b_p1", 1, veiled=False)
    pairs, veils = moved(tmp_path)
    assert veils.names == ["a_p1 on b_p1"]
    sample = veils[0]
    classes, seen = np.asarray(sample["masks"][CLASSES_MASK]), np.asarray(sample["inputs"][pairs.spec.optical])
    assert (classes[20:30, 30:40] == 1).all()
    assert (classes == 1).sum() == 100
    np.testing.assert_allclose(seen[:, 20:30, 30:40] / ONE_REFLECTANCE, 0.7, atol=1e-5)
    assert set(classes[18:20, 30:40].ravel()) == {255}
    assert (classes[4:16, 20:] == 0).all()
    assert np.array_equal(seen[:, 4:16, 20:], sample["clear"][:, 4:16, 20:])


def test_each_veil_goes_to_three_other_places_the_same_each_time(root: Path) -> None:
    _, veils = moved(root)
    assert len(veils) == len(veils.names) == len(set(veils.names)) == 2 * 3 + 2 * 3
    for name in veils.names:
        veil, place = name.split(" on ")
        assert place_of(veil) != place_of(place)
        assert veil != "d_p1"  # which has none
    assert moved(root)[1].names == veils.names
    assert veils.names[0] == "a_p1 on d_p1"


def test_pairs_without_a_veil_cannot_be_moved(tmp_path: Path) -> None:
    write_pair(tmp_path, "a_p1", 0, veiled=False)
    write_pair(tmp_path, "b_p1", 1, veiled=False)
    with pytest.raises(DataError, match="no pair has a veil"):
        moved(tmp_path)


def test_moved_veils_are_a_protocol_of_sen12mscr_alone_and_by_itself(root: Path, tmp_path: Path) -> None:
    benchmark = open_benchmark("sen12mscr-pairs", root)
    report = evaluate(benchmark, [COPY], ["moved-veil"], tmp_path / "out")
    result = report["protocols"]["moved-veil"]
    assert result["classes"] == {"thin": 12, "clear": 12, "all": 12}
    told = result["methods"]["input copied"]
    assert told["thin"]["mae"]["mean"] == pytest.approx(VEIL * 0.8, abs=0.004)
    assert told["thin"]["detail"]["mean"] == pytest.approx(1, abs=0.02)
    assert told["clear"]["mae"]["mean"] == 0
    assert report["made with"]["data"]["images"] == 12
    with pytest.raises(ConfigError, match="moved-veil makes images of its own: give no other protocol beside it"):
        evaluate(benchmark, [COPY], ["moved-veil", "two-dates"], tmp_path / "no")
    with pytest.raises(ConfigError, match="moved-veil scores the veils of SEN12MS-CR, and haze-20lmr has none"):
        evaluate(open_benchmark(DATASETS["haze-20lmr"], haze(tmp_path)), [COPY], ["moved-veil"], tmp_path / "no")


def haze(root: Path) -> Path:
    for date in ("2022-08-17", "2022-09-02", "2022-09-18"):
        write_tif(root / "haze" / f"{date}.tif", np.full((10, 16, 16), 900, np.uint16))
    return root / "haze"
