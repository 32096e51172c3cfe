import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from attcr.data import PairedAugment, Sample
from attcr.data.transforms import retone
from attcr.errors import ShapeError


def sample(inputs: Tensor, clear: Tensor, **masks: Tensor) -> Sample:
    return {"inputs": inputs, "clear": clear, "masks": masks, "name": ""}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_all_planes_get_the_same_crop_flip_and_turn() -> None:
    clear = torch.arange(3 * 40 * 50, dtype=torch.float32).reshape(3, 40, 50)
    cloudy = torch.cat([clear[:2] - 1, clear + 0.5])
    augment = PairedAugment(16, generator=seeded(0))
    for _ in range(50):
        cut = augment(sample(cloudy, clear, cloud=clear[0] + 7))
        assert cut["inputs"].shape == (5, 16, 16)
        assert cut["clear"].shape == (3, 16, 16)
        assert torch.equal(cut["inputs"][2:], cut["clear"] + 0.5)
        assert torch.equal(cut["masks"]["cloud"], cut["clear"][0] + 7)


def test_all_8_symmetries_and_all_corners_come() -> None:
    image = torch.arange(9.0).reshape(1, 3, 3)
    augment = PairedAugment(None, generator=seeded(1))
    assert len({tuple(augment(sample(image, image))["inputs"].flatten().tolist()) for _ in range(200)}) == 8
    crop = PairedAugment(1, generator=seeded(1))
    assert {float(crop(sample(image, image))["clear"]) for _ in range(200)} == set(range(9))


def test_a_seed_gives_the_same_again() -> None:
    image = torch.rand(3, 32, 32, generator=seeded(5))
    both = sample(image, image)
    runs = [[PairedAugment(8, generator=g)(both)["inputs"] for _ in range(5)] for g in (seeded(7), seeded(7))]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_a_crop_larger_than_the_image_and_unequal_sides_are_refused() -> None:
    augment = PairedAugment(33, generator=seeded(0))
    with pytest.raises(ShapeError, match="crop of 33 pixels was asked of a 32x40"):
        augment(sample(torch.zeros(3, 32, 40), torch.zeros(3, 32, 40)))
    with pytest.raises(ShapeError, match="differ in size"):
        augment(sample(torch.zeros(3, 40, 40), torch.zeros(3, 40, 41)))


class Same(Dataset[Sample]):
    """The same image over and over, so that only the augmentation differs."""

    def __init__(self, seed: int) -> None:
        self.image = torch.arange(64.0 * 64).reshape(1, 64, 64)
        self.transform = PairedAugment(8, generator=seeded(seed))

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Sample:
        return {**self.transform(sample(self.image, self.image)), "name": str(index)}


def corners(seed: int, loader_seed: int) -> list[tuple[float, ...]]:
    loader = DataLoader(Same(seed), None, num_workers=4, generator=seeded(loader_seed), multiprocessing_context="fork")
    return [tuple(item["clear"].flatten()[:2].tolist()) for _ in range(2) for item in loader]


def test_workers_and_epochs_do_not_repeat_each_other_and_a_seeded_loader_repeats_itself() -> None:
    first = corners(3, 11)
    assert len(set(first)) >= 31
    assert corners(3, 11) == first
    assert corners(4, 11) != first
    assert corners(3, 12) != first


def test_retoned_images_differ_in_tone_and_keep_their_order_of_brightness() -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.linspace(0.05, 0.5, 27).reshape(3, 3, 3)
    first, second = (retone(image, generator=generator) for _ in range(2))
    assert not torch.equal(first, second)
    for toned in (first, second):
        assert (toned.flatten(1).diff(dim=1) > 0).all()
        assert toned.min() >= 0
        assert toned.max() <= 1
