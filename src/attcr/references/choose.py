"""Which of several dates see the ground under a scene's clouds: a greedy cover, near dates before far ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from attcr.references.cells import Float32

HALF_LIFE = 60
"""Days after which another date counts half."""
OTHER_SIDE, AGAIN = 0.25, 0.05
"""What a cell is still worth once a chosen date sees it: to a date on the other side in time, and on the same side."""
LEAST = 0.01
"""The smallest part of the cloud that a date must add to be taken."""


def nearness(days: float) -> float:
    """Give what another date is worth, 1 on the same day."""
    return 1 / (1 + abs(days) / HALF_LIFE)


def choose_dates(cloud: NDArray[np.bool_], shares: Sequence[Float32], days: Sequence[float], most: int) -> list[int]:
    """Give the positions of the dates, `most` of them at most, that together see the most ground under cloud (h, w).

    `shares` (h, w) say how much of each cell a date sees clearly, and `days` how many days after the scene it is. The
    date that sees most of the cloud comes first, then each time the date that adds most. Where a chosen date already
    sees the ground, a date on the other side in time still adds a little, and one on the same side less.
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
    """Give how many cells a date adds, each weighted by what it is worth."""
    own = unseen[_side(days)]
    other = unseen["before" if days > 0 else "after"]
    cells = share * (own * other + OTHER_SIDE * own * (1 - other) + AGAIN * (1 - own))
    return float(cells.sum(dtype=np.float64)) * nearness(days)
