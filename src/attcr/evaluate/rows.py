"""Rows of an evaluation, one for each image: kept on disk as they are scored, averaged, and laid out as tables."""

import csv
import io
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attcr.errors import ConfigError, DataError

Row = dict[str, Any]

COPIED = "input copied"
"""The name of the method that leaves the input as it is."""
RESAMPLES = 2000
"""Bootstrap resamples behind each 95 % interval; their seed is 0."""


class Rows:
    """The rows scored so far, appended durably: the first line says what they are of, each other is an image."""

    def __init__(self, path: Path, about: Mapping[str, Any], names: Sequence[str]) -> None:
        self.done: list[Row] = []
        # A run killed while writing leaves half a line, which is cut off.
        kept = path.read_bytes() if path.exists() else b""
        kept = kept[: kept.rfind(b"\n") + 1]
        lines = [json.loads(line) for line in kept.splitlines()]
        if lines:
            differing = sorted(key for key in {*lines[0], *about} if lines[0].get(key) != about.get(key))
            if differing:
                raise ConfigError(
                    f"{path.parent} holds an evaluation that differs in its {' and '.join(differing)}: "
                    "give another folder, or remove it to start again."
                )
            self.done = lines[1:]
            if [row["name"] for row in self.done] != list(names[: len(self.done)]):
                raise DataError(f"{path} does not hold the images in their order: remove it to start again.")
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(len(kept))
        self._file.seek(len(kept))
        if not lines:
            self._line(about)

    def append(self, row: Row) -> None:
        """Add a row; when this returns it survives a power cut."""
        self._line(row)
        self.done.append(row)

    def _line(self, content: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(content).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> "Rows":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def interval(values: Sequence[float]) -> dict[str, float | int]:
    """Give the mean over images and its bootstrap 95 % interval; NaN values are left out and not counted."""
    known = np.array([value for value in values if not math.isnan(value)])
    if not known.size:
        return {"mean": math.nan, "low": math.nan, "high": math.nan, "images": 0}
    generator = np.random.default_rng(0)
    means = [known[generator.integers(0, known.size, known.size)].mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5]) if np.isfinite(known).all() else (math.nan, math.nan)
    return {"mean": float(known.mean()), "low": float(low), "high": float(high), "images": int(known.size)}


def in_bins(
    rows: Sequence[Row], key: str, edges: Sequence[float], unit: str = "", times: float = 1
) -> Iterator[tuple[str, list[Row]]]:
    """Give the label of each bin and the rows whose value is in it; one on an edge belongs to the bin above it."""
    for low, high in itertools.pairwise((-math.inf, *edges, math.inf)):
        if low == -math.inf:
            label = f"below {high * times:g}{unit}"
        elif high == math.inf:
            label = f"{low * times:g}{unit} and above"
        else:
            label = f"{low * times:g} to {high * times:g}{unit}"
        yield label, [row for row in rows if low <= row[key] < high]


def number(value: float | None, decimals: int) -> str:
    """Write a number for a table; what is not known is a dash."""
    return "-" if value is None else f"{value:.{decimals}f}"


def as_markdown(heading: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """Give the lines of a table in Markdown."""
    return [f"| {' | '.join(cells)} |" for cells in (heading, ["---"] * len(heading), *body)]


def as_csv(heading: Sequence[str], body: Iterable[Sequence[Any]]) -> str:
    """Give a table as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(body)
    return text.getvalue()
