"""The scene's own clear ground says how much veil and shadow a pixel has."""

import numpy as np
import pytest

from attcr.scenes.clouds.spectra import SAMPLES, SHADE, Survey, matched_filter, spread_of
from attcr.scenes.clouds.spectra import VEIL as ADDED

BANDS = ["blue", "green", "red", "nir"]
VEIL = np.array([0.97, 0.94, 1.09, 0.76])
MIXING = np.array([[0.01, 0, 0, 0], [0.008, 0.004, 0, 0], [0.007, 0.003, 0.004, 0], [-0.01, 0.005, 0.02, 0.02]])


def _ground(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal((4, rows * columns))
    return (0.2 + MIXING @ noise).reshape(4, rows, columns).astype(np.float32)


def _survey(values: np.ndarray, clear: np.ndarray, *, step: int = 1 << 30) -> Survey:
    survey = Survey(BANDS, *clear.shape)
    for top in range(0, clear.shape[0], step):
        survey.add(values[:, top : top + step], clear[top : top + step], top)
    return survey


def _filter(beyond: np.ndarray) -> np.ndarray:
    return matched_filter(spread_of(beyond), VEIL[:, None, None])[:, 0, 0]


def test_shadow_takes_more_from_longer_waves() -> None:
    assert [ADDED[name] for name in BANDS] == VEIL.tolist()
    assert [SHADE[name] for name in (*BANDS, "swir22")] == [0.5, 0.72, 0.84, 1.0, 1.25]


def test_the_filter_gives_what_algebra_does_for_a_known_covariance() -> None:
    beyond = MIXING @ np.random.default_rng(1).standard_normal((4, 100_000))
    inverse = np.linalg.inv(MIXING @ MIXING.T + 0.002**2 * np.eye(4))
    found = _filter(beyond)
    assert found @ VEIL == pytest.approx(np.sqrt(VEIL @ inverse @ VEIL), rel=0.1)
    assert (found @ beyond).std() == pytest.approx(1, abs=0.1)


def test_a_few_pixels_of_another_kind_do_not_count() -> None:
    beyond = MIXING @ np.random.default_rng(1).standard_normal((4, 50_000))
    roofs = beyond.copy()
    roofs[:, :500] += 0.3
    assert _filter(roofs) @ VEIL == pytest.approx(_filter(beyond) @ VEIL, rel=0.02)


def test_bands_of_one_value_have_a_filter() -> None:
    assert _filter(np.zeros((4, 1000))) == pytest.approx(VEIL / np.linalg.norm(VEIL) / 0.002)


def test_a_veil_is_told_in_standard_deviations_of_the_clear_ground() -> None:
    values, clear = _ground(200, 160), np.ones((200, 160), bool)
    clear[80:120, 40:80] = False
    values[:, 80:120, 40:80] += 0.03 * VEIL[:, None, None].astype(np.float32)
    ground = _survey(values, clear).ground()
    assert ground is not None
    amount, _ = ground.amounts(values, 0)
    strength = float(ground.filters[0][:, 0, 0] @ VEIL) * 0.03
    assert strength > 3
    assert amount[84:116, 44:76].mean() == pytest.approx(strength, abs=0.15)
    assert amount[:76].mean() == pytest.approx(0, abs=0.05)
    assert amount[:76].std() == pytest.approx(1 / (2 * np.sqrt(np.pi) * 1.5), abs=0.02), "the mean of noise is less"
    assert ground.amounts(values[:, 80:120], 80)[0][8:-8] == pytest.approx(amount[88:112], abs=1e-5)


def test_shadow_is_told_by_the_share_of_the_light_around_that_it_takes() -> None:
    values, clear = _ground(200, 320), np.ones((200, 320), bool)
    values[:, :, 160:] += np.float32(0.2)
    places = np.s_[80:120, 40:80], np.s_[80:120, 260:300]
    for place in places:
        clear[place] = False
    taken = 1 - 0.3 * np.array([SHADE[name] for name in BANDS], np.float32)[:, None, None]
    for place in places:
        values[(slice(None), *place)] *= taken
    ground = _survey(values, clear).ground()
    assert ground is not None
    _, shade = ground.amounts(values, 0)
    inner = [np.s_[place[0].start + 6 : place[0].stop - 6, place[1].start + 6 : place[1].stop - 6] for place in places]
    dark, bright = (float(shade[place].mean()) for place in inner)
    assert dark > 2
    assert bright == pytest.approx(2 * dark, rel=0.15), "twice the light is lost"
    around = ground.around[:, 25, 15].astype(float)
    loss = np.array([SHADE[name] for name in BANDS]) * around
    assert dark == pytest.approx(-0.3 * float(ground.filters[1][:, 25, 15] @ loss), rel=0.1)
    assert shade[:70, :100].mean() == pytest.approx(0, abs=0.1)


def test_an_amount_is_a_mean_of_what_is_data() -> None:
    values, clear = _ground(200, 160), np.ones((200, 160), bool)
    ground = _survey(values, clear).ground()
    assert ground is not None
    values[:] = 0.25
    whole, _ = ground.amounts(values, 0)
    values[:, 50:60, 40:50] = np.nan
    amount, _ = ground.amounts(values, 0)
    assert np.array_equal(np.isnan(amount), np.isnan(values[0]))
    assert amount[~np.isnan(amount)] == pytest.approx(whole[~np.isnan(amount)], abs=0.05)


def test_ground_is_compared_with_the_ground_around() -> None:
    values, clear = _ground(400, 400), np.ones((400, 400), bool)
    values[:, :, :200] += np.float32(0.1)
    survey = _survey(values, clear)
    ground = survey.ground()
    assert ground is not None
    assert ground.around.shape == (4, 100, 100)
    wide = np.abs(np.arange(100) - 50) / 16
    far = wide > 2.5
    assert ground.around[0, 50, far & (np.arange(100) < 50)] == pytest.approx(0.3, abs=0.003)
    assert ground.around[0, 50, far & (np.arange(100) > 50)] == pytest.approx(0.2, abs=0.003)
    assert ground.around[0, 50, 49:51].mean() == pytest.approx(0.25, abs=0.003)
    assert ground.around[0, 50, 66] == pytest.approx(0.216, abs=0.004), "a Gaussian"


def test_only_what_is_clear_counts() -> None:
    values, clear = _ground(120, 120), np.ones((120, 120), bool)
    clear[::2] = False
    there = _survey(values, clear).ground()
    values[:, ::2] = np.nan
    gone = _survey(values, clear).ground()
    assert there is not None
    assert gone is not None
    assert np.array_equal(gone.around, there.around)
    assert np.array_equal(gone.filters, there.filters)


def test_blocks_change_nothing() -> None:
    values, clear = _ground(600, 500, 3), np.random.default_rng(0).random((600, 500)) > 0.3
    whole, parts = _survey(values, clear).ground(), _survey(values, clear, step=256).ground()
    assert whole is not None
    assert parts is not None
    assert np.array_equal(parts.around, whole.around)
    for one, other in zip(parts.filters, whole.filters, strict=True):
        assert one == pytest.approx(other, abs=1e-3)


def test_nothing_is_told_far_from_all_clear_ground() -> None:
    values, clear = _ground(64, 1000), np.zeros((64, 1000), bool)
    clear[:, :200] = True
    ground = _survey(values, clear).ground()
    assert ground is not None
    veil, shade = ground.amounts(values, 0)
    told = np.isfinite(veil)
    assert np.array_equal(np.isfinite(shade), told)
    reach = 4 * 16
    assert told[:, : int(200 + 1.5 * reach)].all()
    assert not told[:, int(200 + 3.5 * reach) :].any()


def test_too_little_clear_ground_says_nothing() -> None:
    values, clear = _ground(40, 40), np.zeros((40, 40), bool)
    assert _survey(values, clear).ground() is None
    assert Survey([], 40, 40).ground() is None
    clear.flat[:79] = True
    assert _survey(values, clear).ground() is None
    clear.flat[:80] = True
    assert _survey(values, clear).ground() is not None


def test_a_large_scene_is_sampled() -> None:
    values = _ground(1000, 900)
    parts, whole = (_survey(values, np.ones((1000, 900), bool), step=step) for step in (256, 1000))
    kept = np.concatenate(parts._samples, axis=1)
    assert SAMPLES / 3 < kept.shape[1] <= SAMPLES
    assert np.array_equal(kept, whole._samples[0])
