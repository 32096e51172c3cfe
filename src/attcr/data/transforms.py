"""Augmentation that does the same to both sides of a pair."""

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from attcr.errors import ShapeError


class PairedAugment:
    """A random crop, flip and quarter turn, the same for both images; every draw comes from `generator`.

    In a DataLoader worker the generator is seeded anew from its first seed and the worker's own, so that
    workers do not repeat each other and a loader with a seeded generator gives the same images again.
    """

    def __init__(self, crop: int | None, *, generator: torch.Generator) -> None:
        self.crop = crop
        self.generator = generator
        self._worker_seed: int | None = None

    def __call__(self, cloudy: Tensor, clear: Tensor) -> tuple[Tensor, Tensor]:
        """Augment two images (C, H, W) of equal height and width; the band counts may differ."""
        if cloudy.shape[-2:] != clear.shape[-2:]:
            raise ShapeError(
                f"the two images of a pair differ in size: {tuple(cloudy.shape)} and {tuple(clear.shape)}"
            )
        worker = get_worker_info()
        if worker is not None and worker.seed != self._worker_seed:
            self._worker_seed = worker.seed
            self.generator.manual_seed((self.generator.initial_seed() + worker.seed) % 2**63)
        if self.crop is not None:
            height, width = cloudy.shape[-2:]
            if min(height, width) < self.crop:
                raise ShapeError(
                    f"a crop of {self.crop} pixels was asked of a {height}x{width} image: ask a smaller one"
                )
            row = self._draw(height - self.crop + 1)
            col = self._draw(width - self.crop + 1)
            window = (..., slice(row, row + self.crop), slice(col, col + self.crop))
            cloudy, clear = cloudy[window], clear[window]
        flip, turns = self._draw(2), self._draw(4)
        if flip:
            cloudy, clear = cloudy.flip(-1), clear.flip(-1)
        cloudy, clear = (torch.rot90(image, turns, (-2, -1)).contiguous() for image in (cloudy, clear))
        return cloudy, clear

    def _draw(self, below: int) -> int:
        return int(torch.randint(below, (), generator=self.generator))
