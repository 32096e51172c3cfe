"""Which of several dates see the ground under a scene's clouds: a greedy cover, near dates before far ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from attcr.dates.cells import Float32

HALF_LIFE = 60
"""Days after which another date counts half."""
OTHER_SIDE, AGAIN = 0.25, 0.05
"""What a cell is worth that a chosen date sees already: from the other side in time, and from the same."""
LEAST = 0.01
"""Part of the cloud that a date must add to be taken."""


def nearness(days: float) -> float:
    """Give what another date is worth, 1 on the same day."""
    return 1 / (1 + abs(days) / HALF_LIFE)


def choose_dates(cloud: NDArray[np.bool_], shares: Sequence[Float32], days: Sequence[float], most: int) -> list[int]:
    """Give the places of at most so many dates that together see the most of the ground under cloud (h, w).

    `shares` (h, w) say how much of each cell a date sees clearly, and `days` how far after the scene it is. First comes
    the one that sees most of the cloud, then always the one that adds most. Of what is seen already, a date from the
    other side in time adds a little, and one more from the same side less.
    """
    left = {i: np.where(cloud, share, 0).astype(np.float32) for i, share in enumerate(shares)}
    unseen = {side: cloud.astype(np.float32) for side in ("before", "after")}
    cells = max(int(cloud.sum()), 1)
    chosen: list[int] = []
    while left and len(chosen) < most:
        worth = {i: _adds(share, unseen, days[i]) / cells for i, share in left.items()}
        best = max(worth, key=lambda i: (worth[i], -i))
        if worth[best] < LEAST:
            break
        chosen.append(best)
        unseen[_side(days[best])] *= 1 - left.pop(best)
    return chosen


def _side(days: float) -> str:
    return "after" if days > 0 else "before"


def _adds(share: Float32, unseen: Mapping[str, Float32], days: float) -> float:
    """Give how many cells a date adds, by what they are worth."""
    own = unseen[_side(days)]
    other = unseen["before" if days > 0 else "after"]
    cells = share * (own * other + OTHER_SIDE * own * (1 - other) + AGAIN * (1 - own))
    return float(cells.sum(dtype=np.float64)) * nearness(days)
