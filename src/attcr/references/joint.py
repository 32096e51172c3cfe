"""All references together: the scene as a linear mixture of every band of each, fitted where the scene is clear.

A reference takes part twice, as it is and as the mean around each pixel, so that detail and tone have weights of their
own. Where only some of the references are clear, the mixture is of these, fitted on pixels that all of them show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attcr.references.check import Evidence
from attcr.references.fill import EDGE, Shown, inwards, smoothed
from attcr.references.harmonise import Array, Cells, Float32, Float64

SOFT = 2.0
"""Standard deviation, in pixels, of the neighbourhood whose mean is taken."""
MARGIN = EDGE + 1
"""Rows that mixing needs above and below, so that the result does not depend on where strips end."""
MOST_TOGETHER = 10
"""The most references of a mixture: the best ones."""
MOST_PIXELS = 1 << 16
"""About the most pixels that a mixture is fitted on."""
FEWEST = 10
"""The fewest pixels of a fit, for each weight of a band; with fewer, a reference is left out."""
SLACK = 2.5e-6
"""Variance of reflectance below which weights are mostly those of the plain mean of the references."""
ROUNDS, SMALL_ERROR = 4, 0.004
"""Times that a mixture is fitted, each time with pixels weighed by the inverse of their error before, or of this one
where it is smaller: what changed between the dates shall not decide."""
MOST_FITS = 256
"""The most fits that are held; others are made again."""
ROWS = 64
"""Rows that are mixed at a time."""
TINY = 1e-20


@dataclass(frozen=True)
class Mixture:
    """A linear mixture of some of N references."""

    weights: Float64
    """(N, C, 2C) for the planes of each reference, as `planes_of` gives them; 0 for the others."""
    offset: Float64
    """(C, 1)."""
    parts: Float32
    """(N,): how much of the mixture is from each reference: the spread of what it adds to the bands on clear ground, so
    that one of half the contrast counts no more for its larger weights. They sum to 1."""

    def __call__(self, planes: Float32) -> Float64:
        """Give the mixture (C, n) of planes (N, 2C, n)."""
        return np.asarray(sum(w @ x for w, x in zip(self.weights, planes, strict=True)) + self.offset)


@dataclass(frozen=True)
class Mixed(Shown):
    """Rows as all references show them together."""

    parts: Float32
    """(N, h, W): how much is from each reference; they sum to 1, and are 0 where none is clear."""


def planes_of(shown: Shown, rows: Array, cols: Array) -> Float32:
    """Give the values of a reference at some pixels, then their means over what is clear around each, (2C, n)."""
    share = smoothed(shown.clear, SOFT, 3.0)[rows, cols] + np.float32(1e-6)
    planes = (smoothed(np.where(shown.clear, plane, 0), SOFT, 3.0)[rows, cols] for plane in shown.values)
    return np.concatenate([shown.values[:, rows, cols], np.stack([plane / share for plane in planes])])


@dataclass
class Joint:
    """Pixels of the clear scene with what all references show there, gathered from blocks of rows, and the fits."""

    cells: Cells
    count: int
    """Number of references."""
    _added: list[tuple[Array, ...]] = field(default_factory=list)
    _fits: dict[tuple[int, ...], Mixture] = field(default_factory=dict)

    def add(self, top: int, shown: Sequence[Shown], target: Float32, clear: NDArray[np.bool_], above: int) -> None:
        """Add rows of the scene from `top` on; the references have as many more `above`, and some below."""
        step = max(int(np.ceil(np.sqrt(self.cells.height * self.cells.width / MOST_PIXELS))), 1)
        first = -top % step
        seen = np.stack([one.clear[above : above + len(clear)] for one in shown])
        rows, cols = np.nonzero((clear & seen.any(axis=0))[first::step, ::step])
        rows, cols = rows * step + first, cols * step
        planes = np.stack([planes_of(one, rows + above, cols) for one in shown])
        self._added.append((rows + top, cols, planes, seen[:, rows, cols], target[:, rows, cols]))

    @cached_property
    def _pixels(self) -> list[Array]:
        """Rows and columns (n,), planes (N, 2C, n), where each reference is clear (N, n), and the scene (C, n)."""
        return [np.concatenate(some, axis=-1) for some in zip(*self._added, strict=True)]

    def fit(self, chosen: tuple[int, ...], known: NDArray[np.bool_] | None = None) -> Mixture:
        """Fit the scene to some references, on pixels that all of them show, and only on the known ones.

        The fit is robust (`ROUNDS`); of too few pixels, it is of fewer references.
        """
        _, _, planes, seen, target = self._pixels
        told = seen if known is None else seen & known
        bands = len(target)
        while len(chosen) > 1 and told[list(chosen)].all(axis=0).sum() < FEWEST * 2 * bands * len(chosen):
            rest = [tuple(one for one in chosen if one != out) for out in reversed(chosen)]
            chosen = max(rest, key=lambda some: int(told[list(some)].all(axis=0).sum()))
        here = told[list(chosen)].all(axis=0)
        x = np.concatenate([planes[i][:, here] for i in chosen]).astype(np.float64)
        y = target[:, here].astype(np.float64)
        plain = np.tile(np.eye(2 * bands, bands) / len(chosen), (len(chosen), 1))
        count = np.ones(x.shape[1])
        for _ in range(ROUNDS):
            count /= count.sum()
            middle, level = (x @ count)[:, None], (y @ count)[:, None]
            off = x - middle
            spread, common = (off * count) @ off.T, (off * count) @ (y - level).T
            solved = np.linalg.solve(spread + SLACK * np.eye(len(x)), common + SLACK * plain)
            count = 1 / np.maximum(np.abs(solved.T @ off + level - y).mean(axis=0), SMALL_ERROR)
        weights, parts = np.zeros((self.count, bands, 2 * bands)), np.zeros(self.count)
        for at, i in enumerate(chosen):
            own = slice(at * 2 * bands, (at + 1) * 2 * bands)
            weights[i] = solved[own].T
            parts[i] = max(np.einsum("ck,kl,cl->", weights[i], spread[own, own], weights[i]), TINY) ** 0.5
        return Mixture(weights, level - solved.T @ middle, np.float32(parts / parts.sum()))

    def _fitted(self, code: int) -> Mixture:
        """Give the fit for the references whose bits are set."""
        chosen = tuple(i for i in range(self.count) if code >> i & 1)
        if chosen not in self._fits:
            if len(self._fits) >= MOST_FITS:
                self._fits.clear()
            self._fits[chosen] = self.fit(chosen)
        return self._fits[chosen]

    def mix(self, shown: Sequence[Shown], above: int, wanted: NDArray[np.bool_]) -> Mixed:
        """Give the wanted pixels (h, W) of rows; the references have some more `above` and below.

        Towards the edge of a reference, the mixture with it goes over into the one without it: no border shows.
        """
        blocks = [
            self._mix([one.cut(max(top + above - MARGIN, 0), top + above + ROWS + MARGIN) for one in shown], some, at)
            for top in range(0, len(wanted), ROWS)
            for some, at in [(wanted[top : top + ROWS], min(top + above, MARGIN))]
        ]
        values, clear, parts = (np.concatenate(some, axis=-2) for some in zip(*blocks, strict=True))
        return Mixed(values, clear, parts)

    def _mix(self, shown: Sequence[Shown], wanted: NDArray[np.bool_], above: int) -> tuple[Array, Array, Array]:
        inner = slice(above, above + len(wanted))
        clear = np.any([one.clear[inner] for one in shown], axis=0)
        rows, cols = np.nonzero(clear & wanted)
        values = np.zeros((len(shown[0].values), *clear.shape), np.float32)
        parts = np.zeros((self.count, *clear.shape), np.float32)
        trust = np.stack([inwards(one.clear)[inner][rows, cols] for one in shown])
        planes = np.stack([planes_of(one, rows + above, cols) for one in shown])
        order = np.argsort(-trust, axis=0, kind="stable")
        trust = np.take_along_axis(trust, order, axis=0) / np.maximum(trust.max(axis=0), np.float32(TINY))
        trust = np.concatenate([trust, np.zeros_like(trust[:1])])
        for much, less, code in zip(trust[:-1], trust[1:], np.cumsum(1 << order, axis=0), strict=True):
            for one in np.unique(code[much > less]).tolist():
                at = np.flatnonzero((code == one) & (much > less))
                weight, fit = (much - less)[at], self._fitted(one)
                values[:, rows[at], cols[at]] += weight * fit(planes[..., at])
                parts[:, rows[at], cols[at]] += weight * fit.parts[:, None]
        return values, clear, parts

    def optimism(self, evidence: Evidence) -> float:
        """Say how many times larger the error on hidden ground is where the mixture of all was not fitted on it."""
        rows, cols, planes, seen, target = self._pixels
        every, off = tuple(range(self.count)), np.zeros(2)
        for hidden in evidence.hidden_cells():
            here = hidden[self.cells.of(rows, cols)]
            tried = here & seen.all(axis=0)
            fits = self._fitted((1 << self.count) - 1), self.fit(every, ~here)
            off += [np.abs(fit(planes[..., tried]) - target[:, tried]).sum() for fit in fits]
        return max(float(off[1] / off[0]), 1.0) if off[0] else 1.0
