"""Augmentation that does the same to the input, the target and the masks of a sample."""

from collections.abc import Callable

import torch
from torch import Tensor

from attcr.data.pairs import Sample
from attcr.errors import ShapeError


def change_planes(sample: Sample, change: Callable[[Tensor], Tensor]) -> Sample:
    """Do the same to the input, the target and each mask: a change of the last two axes."""
    return {
        "inputs": change(sample["inputs"]),
        "clear": change(sample["clear"]),
        "masks": {name: change(mask) for name, mask in sample["masks"].items()},
        "name": sample["name"],
    }


def crop_sample(sample: Sample, crop: int | None, *, generator: torch.Generator) -> Sample:
    """Cut the same random square of `crop` pixels out of all planes; None leaves them whole."""
    inputs, clear = sample["inputs"], sample["clear"]
    if inputs.shape[-2:] != clear.shape[-2:]:
        raise ShapeError(f"the two images of a pair differ in size: {tuple(inputs.shape)} and {tuple(clear.shape)}")
    if crop is None:
        return sample
    height, width = clear.shape[-2:]
    if min(height, width) < crop:
        raise ShapeError(f"a crop of {crop} pixels was asked of a {height}x{width} image: ask a smaller one")
    row, col = _draw(height - crop + 1, generator), _draw(width - crop + 1, generator)
    return change_planes(sample, lambda planes: planes[..., row : row + crop, col : col + crop])


def turn_sample(sample: Sample, *, generator: torch.Generator) -> Sample:
    """Flip and turn all planes alike, one of the eight ways."""
    flip, turns = _draw(2, generator), _draw(4, generator)

    def turn(planes: Tensor) -> Tensor:
        return torch.rot90(planes.flip(-1) if flip else planes, turns, (-2, -1)).contiguous()

    return change_planes(sample, turn)


def retone(image: Tensor, *, generator: torch.Generator) -> Tensor:
    """Give an image (C, H, W) in [0, 1] other tones: bands in any order, other gamma and gain, mixed with a colour.

    The tones of a picture are its product's more than the ground's, and plain sea or sand is rare among patches; cloud
    put on afterwards stays white.
    """
    image = image[torch.randperm(len(image), generator=generator)] if _draw(2, generator) else image
    gain, gamma = _between(0.6, 1.6, generator), _between(0.6, 1.5, generator)
    gains, gammas = (
        torch.tensor([_between(low, high, generator) for _ in image])[:, None, None]
        for low, high in ((0.75, 1.35), (0.85, 1.2))
    )
    toned = (gain * gains * image.clamp_min(0) ** (gamma * gammas)).clamp_(0, 1)
    share = 0.7 * float(torch.rand((), generator=generator))
    colour = torch.rand(len(image), generator=generator)[:, None, None]
    return toned * (1 - share) + colour * share


def _between(low: float, high: float, generator: torch.Generator) -> float:
    """A factor between two, even on a logarithmic scale."""
    return float(low * (high / low) ** torch.rand((), generator=generator))


def _draw(below: int, generator: torch.Generator) -> int:
    return int(torch.randint(below, (), generator=generator))
