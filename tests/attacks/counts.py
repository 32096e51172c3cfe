"""How often each attack is tried: a tenth of the nightly's count in the gate, or what ATTCR_ATTACKS says.

    ATTCR_ATTACKS=nightly                  the counts of the nightly
    ATTCR_ATTACKS=all                      the large counts of the table, for days
    ATTCR_ATTACKS=mutated=500:20000        seeds 500 to 19,999 of one attack, nothing of the others
    ATTCR_ATTACKS_LOG=FILE                 a line of JSON about each attack so far, every few seconds

A seed decides what is tried, so what went wrong is tried again with its seed alone: `mutated=731:732`.
"""

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from tenths import tenth

COUNTS = {
    "rasters": (600, 5_000),
    "mutated": (1_500, 20_000),
    "full disks": (300, 500),
    "weights": (600, 600),
    "kills of restore": (40, 200),
    "kills of restore with references": (10, 50),
    "kills of restore with the network for references": (10, 20),
    "kills of local fleets": (20, 150),
    "kills of S3 fleets": (20, 100),
    "kills of Ray drivers": (10, 50),
}
"""Attack to how many seeds in the nightly, and by hand."""


def seeds_of(attack: str) -> range:
    """Give the seeds to try, or skip where others are asked for."""
    asked = os.environ.get("ATTCR_ATTACKS", "")
    nightly, by_hand = COUNTS[attack]
    if not asked:
        begin = nightly // 10 * (tenth() or 0)
        return range(begin, begin + nightly // 10)
    if asked in ("nightly", "all"):
        return range(nightly if asked == "nightly" else by_hand)
    for one in asked.split(","):
        name, _, seeds = one.partition("=")
        if name == attack:
            first, _, end = seeds.rpartition(":")
            return range(int(first or 0), int(end))
    pytest.skip(f"ATTCR_ATTACKS asks for {asked}")


class Record:
    """What became of each seed, and what went wrong."""

    def __init__(self, attack: str, seeds: range) -> None:
        self.attack, self.seeds = attack, seeds
        self.counts: Counter[str] = Counter()
        self.wrong: dict[int, object] = {}
        self._began = self._told = time.monotonic()

    def add(self, seed: int, outcome: str, wrong: object = None) -> None:
        """Count an outcome; `wrong` says what should not have been."""
        self.counts[outcome] += 1
        if wrong:
            self.wrong[seed] = wrong
        if time.monotonic() - self._told > 5:
            self._log()

    def check(self) -> None:
        """See that nothing went wrong and every seed has an outcome."""
        self._log()
        assert not self.wrong, f"{self.attack}: {json.dumps(self.wrong, indent=1, default=str)[:5000]}"
        assert self.counts.total() == len(self.seeds)

    def _log(self) -> None:
        self._told = time.monotonic()
        if path := os.environ.get("ATTCR_ATTACKS_LOG"):
            told = {
                "attack": self.attack,
                "seeds": [self.seeds.start, self.seeds.stop],
                "counts": self.counts,
                "wrong": self.wrong,
                "seconds": round(self._told - self._began, 1),
            }
            with Path(path).open("a") as file:
                file.write(json.dumps(told, default=str) + "\n")
