import pytest
import torch
from torch import Tensor

from attcr.data import Sample
from attcr.data.transforms import crop_sample, retone, turn_sample
from attcr.errors import ShapeError


def sample(inputs: Tensor, clear: Tensor, **masks: Tensor) -> Sample:
    return {"inputs": inputs, "clear": clear, "masks": masks, "name": ""}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def augment(given: Sample, crop: int | None, generator: torch.Generator) -> Sample:
    return turn_sample(crop_sample(given, crop, generator=generator), generator=generator)


def test_all_planes_get_the_same_crop_flip_and_turn() -> None:
    clear = torch.arange(3 * 40 * 50, dtype=torch.float32).reshape(3, 40, 50)
    cloudy = torch.cat([clear[:2] - 1, clear + 0.5])
    generator = seeded(0)
    for _ in range(50):
        cut = augment(sample(cloudy, clear, cloud=clear[0] + 7), 16, generator)
        assert cut["inputs"].shape == (5, 16, 16)
        assert cut["clear"].shape == (3, 16, 16)
        assert torch.equal(cut["inputs"][2:], cut["clear"] + 0.5)
        assert torch.equal(cut["masks"]["cloud"], cut["clear"][0] + 7)


def test_all_8_symmetries_and_all_corners_come() -> None:
    image = torch.arange(9.0).reshape(1, 3, 3)
    same, generator = sample(image, image), seeded(1)
    assert len({tuple(augment(same, None, generator)["inputs"].flatten().tolist()) for _ in range(200)}) == 8
    assert {float(augment(same, 1, generator)["clear"]) for _ in range(200)} == set(range(9))


def test_crops_come_from_the_whole_width_and_height() -> None:
    wide, generator = torch.arange(40.0).reshape(1, 2, 20), seeded(2)
    for image in (wide, wide.transpose(1, 2)):
        cuts = [crop_sample(sample(image, image), 2, generator=generator)["clear"] for _ in range(300)]
        assert {float(cut.min()) for cut in cuts} == set(map(float, range(19)))


def test_a_seed_gives_the_same_again() -> None:
    image = torch.rand(3, 32, 32, generator=seeded(5))
    both = sample(image, image)
    runs = [[augment(both, 8, g)["inputs"] for _ in range(5)] for g in (seeded(7), seeded(7))]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_a_crop_larger_than_the_image_and_unequal_sides_are_refused() -> None:
    with pytest.raises(ShapeError, match="crop of 33 pixels was asked of a 32x40"):
        augment(sample(torch.zeros(3, 32, 40), torch.zeros(3, 32, 40)), 33, seeded(0))
    with pytest.raises(ShapeError, match="differ in size"):
        augment(sample(torch.zeros(3, 40, 40), torch.zeros(3, 40, 41)), 33, seeded(0))


def test_retoned_images_differ_in_tone_and_keep_their_order_of_brightness() -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.linspace(0.05, 0.5, 27).reshape(3, 3, 3)
    first, second = (retone(image, generator=generator) for _ in range(2))
    assert not torch.equal(first, second)
    for toned in (first, second):
        assert (toned.flatten(1).diff(dim=1) > 0).all()
        assert toned.min() >= 0
        assert toned.max() <= 1
