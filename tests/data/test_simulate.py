import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from attcr.bands.spec import RICE2, SEN12MSCR, TRUE_COLOUR, InputSpec, Slot
from attcr.data import PairFolder
from attcr.data.simulate import THICK_CLOUD, THIN_VEIL, CloudKind, _broken, cover, simulate_clouds
from attcr.errors import ConfigError, ShapeError


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ground(bands: int = 3, size: int = 64) -> Tensor:
    return torch.rand(bands, size, size, generator=seeded(99)) * 0.4


def bands_at(*nanometres: float) -> InputSpec:
    slots = tuple(Slot(f"at {nm:g}", nm) for nm in nanometres)
    return replace(TRUE_COLOUR, slots=slots, outputs=tuple(slot.name for slot in slots))


@pytest.mark.parametrize("spec", [TRUE_COLOUR, RICE2, SEN12MSCR], ids=["true colour", "rice2", "sen12mscr"])
@pytest.mark.parametrize("kind", [THIN_VEIL, THICK_CLOUD])
def test_cloud_stays_in_range_and_a_seed_gives_the_same_again(kind: CloudKind, spec: InputSpec) -> None:
    white = spec.span
    clear = ground(len(spec.outputs)) * white
    first, again, other = (simulate_clouds(clear, kind, generator=seeded(s), spec=spec).cloudy for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == clear.shape
    assert first.dtype == clear.dtype
    assert 0 <= first.min() <= first.max() <= white


def test_any_band_count_works_with_its_wavelengths_and_not_without() -> None:
    clear = ground(5)
    nanometres = (490.0, 560.0, 665.0, 842.0, 1610.0)
    spec = bands_at(*nanometres)
    assert simulate_clouds(clear, THIN_VEIL, generator=seeded(0), spec=spec).cloudy.shape == clear.shape
    with pytest.raises(ShapeError, match=r"with the bands red green blue, got the shape \(5, 64, 64\)"):
        simulate_clouds(clear, THIN_VEIL, generator=seeded(0))
    dark = replace(spec, slots=(Slot("at 490"), *spec.slots[1:]))
    with pytest.raises(ConfigError, match="wavelength of at 490 is not known"):
        simulate_clouds(clear, THIN_VEIL, generator=seeded(0), spec=dark)
    with pytest.raises(ShapeError, match=r"\(2, 3, 8, 8\)"):
        simulate_clouds(torch.zeros(2, 3, 8, 8), THIN_VEIL, generator=seeded(0))


def test_what_is_seen_is_cloud_light_plus_ground_dimmed_twice() -> None:
    kind = replace(THIN_VEIL, thickness=(5.0, 5.0), unevenness=(0.0, 0.0))
    clear = ground(1)
    seen = simulate_clouds(clear, kind, generator=seeded(0), spec=bands_at(865.0)).cloudy
    reflected = 0.15 * 5 / (2 + 0.15 * 5)
    torch.testing.assert_close(seen, reflected + (1 - reflected) ** 2 * clear)


def test_where_there_is_neither_cloud_nor_shadow_the_image_is_untouched() -> None:
    clear = ground(3, 128)
    for seed in range(5):
        cloudy, thickness, light = simulate_clouds(clear, THICK_CLOUD, generator=seeded(seed))
        open_sky = (thickness == 0) & (light == 1)
        assert open_sky.float().mean() > 0.1
        torch.testing.assert_close(cloudy[:, open_sky], clear[:, open_sky])
        shaded = (thickness == 0) & (light < 0.5)
        assert (cloudy[:, shaded] < clear[:, shaded]).all()


@pytest.mark.parametrize("cover", [0.1, 0.3, 0.6])
def test_the_share_under_cloud_is_the_one_asked(cover: float) -> None:
    kind = replace(THICK_CLOUD, cover=(cover, cover), shift=(0.0, 0.0))
    shares = [
        (simulate_clouds(ground(3, 128), kind, generator=seeded(s)).thickness > 0).float().mean() for s in range(8)
    ]
    assert float(torch.stack(shares).mean()) == pytest.approx(cover, abs=0.03)


def test_broken_cloud_is_thin_at_its_edge_and_grows_faster_inside() -> None:
    thickness = _broken(torch.linspace(0, 1, 201), 0.5)
    assert not thickness[:101].any()
    assert thickness[150] == pytest.approx(0.25**1.5, abs=1e-3)
    assert thickness[200] == pytest.approx(0.5**1.5, abs=1e-3)


def test_the_shadow_is_the_cloud_moved_aside() -> None:
    kind = replace(THICK_CLOUD, shift=(20.0, 20.0))
    _, thickness, light = simulate_clouds(ground(3, 128), kind, generator=seeded(4))
    cloud, shadow = (thickness > 0).float(), (light < 1).float()
    matches = {}
    for down in range(-20, 21):
        for right in range(-20, 21):
            if abs(np.hypot(down, right) - 20) < 1:
                moved = torch.roll(cloud, (down, right), (0, 1))[20:-20, 20:-20]
                matches[down, right] = float((moved == shadow[20:-20, 20:-20]).float().mean())
    assert max(matches.values()) == 1
    assert sum(share == 1 for share in matches.values()) == 1


def test_cloud_hides_the_ground_and_is_dark_where_vapour_takes_the_light() -> None:
    kind = replace(THICK_CLOUD, thickness=(300.0, 300.0), cover=(0.6, 0.6))
    clear = ground(13, 128) * 5
    cloudy, thickness, _ = simulate_clouds(clear, kind, generator=seeded(0), spec=SEN12MSCR)
    core = thickness > thickness.quantile(0.95)
    bright = cloudy[:, core].mean(1) / 5
    assert bright[8] > 0.95
    assert bright[10] < 0.05  # B10, where only high cloud would show
    assert bright[12] < bright[11] < bright[8]
    assert abs(np.corrcoef(cloudy[3][core], clear[3][core])[0, 1]) < 0.2


def test_large_images_and_odd_sizes_are_served() -> None:
    for shape in ((3, 9, 1), (3, 33, 70), (3, 1100, 40)):
        assert simulate_clouds(torch.zeros(shape), THICK_CLOUD, generator=seeded(0)).cloudy.shape == shape


def test_a_kind_with_a_range_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cover.*\(0\.5, 1\.5\)"):
        replace(THICK_CLOUD, cover=(0.5, 1.5))
    with pytest.raises(ConfigError, match="thickness"):
        replace(THICK_CLOUD, thickness=(5.0, 2.0))


def test_planes_that_are_no_bands_stay_as_they_are() -> None:
    clear = ground(13) * 5
    inputs = torch.cat([torch.full((2, 64, 64), 1.5), clear])
    cloudy = simulate_clouds(clear, THICK_CLOUD, generator=seeded(0), spec=SEN12MSCR).cloudy
    covered = cover({"inputs": inputs, "clear": clear, "masks": {}, "name": "x"}, cloudy, SEN12MSCR)
    assert torch.equal(covered["inputs"][:2], inputs[:2])
    assert (covered["inputs"][2:] != clear).any()
    assert torch.equal(inputs[2:], clear)


def veil(cloudy: np.ndarray, clear: np.ndarray) -> tuple[float, float]:
    slope = float(((clear - clear.mean()) * (cloudy - cloudy.mean())).mean() / clear.var())
    return slope, float(cloudy.mean() - slope * clear.mean())


def test_simulated_veils_are_like_the_real_thin_cloud_of_rice1(shared_data: Path) -> None:
    data = PairFolder(shared_data / "rice1_256" / "cloud", shared_data / "rice1_256" / "label")
    real, ours = [], []
    for index in range(0, len(data), 3):
        item = data[index]
        clear = item["clear"]
        if clear.std() < 0.05:  # a slope needs contrast
            continue
        real.append(veil(item["inputs"].numpy(), clear.numpy()))
        ours.append(veil(simulate_clouds(clear, THIN_VEIL, generator=seeded(index)).cloudy.numpy(), clear.numpy()))
    for which in (0, 1):
        low, middle, high = np.percentile([r[which] for r in real], (5, 50, 95))
        at = np.percentile([o[which] for o in ours], (5, 50, 95))
        assert abs(at[1] - middle) < 0.08
        assert low - 0.12 < at[0]
        assert at[2] < high + 0.12
    # The law of the module's first lines, on the real images: the offset is 1 - T where the slope is T^2.
    gaps = [abs(1 - np.sqrt(slope) - offset) for slope, offset in real if 0 < slope < 1]
    assert np.median(gaps) < 0.05


def test_it_is_quick_enough_to_run_in_training() -> None:
    clear = ground(3, 256)
    simulate_clouds(clear, THICK_CLOUD, generator=seeded(0))
    times = []
    for seed in range(15):
        start = time.process_time()
        simulate_clouds(clear, THICK_CLOUD, generator=seeded(seed))
        times.append(time.process_time() - start)
    assert min(times) < 0.05  # 10 ms on a quiet core (docs/reference/data.md)
