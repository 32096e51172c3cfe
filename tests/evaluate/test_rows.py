"""Rows survive a kill, and their means and bins are right at the edges."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from attcr.errors import ConfigError, DataError
from attcr.evaluate.rows import Rows, as_csv, as_markdown, in_bins, interval, number

ABOUT = {"data": "fields", "methods": ["one"]}


def written(path: Path, *names: str) -> None:
    with Rows(path, ABOUT, names) as rows:
        for name in names:
            rows.append({"name": name, "x": 1.5})


def test_rows_are_kept_line_by_line_and_half_a_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path, "a", "b")
    whole = path.read_bytes()
    assert [json.loads(line) for line in whole.splitlines()] == [ABOUT, *({"name": n, "x": 1.5} for n in "ab")]
    path.write_bytes(whole + b'{"name": "c", "x')
    with Rows(path, ABOUT, ["a", "b", "c"]) as rows:
        assert [row["name"] for row in rows.done] == ["a", "b"]
        assert path.read_bytes() == whole
        rows.append({"name": "c", "x": 2})
        assert path.read_bytes() == whole + b'{"name": "c", "x": 2}\n'  # without closing the file


def test_rows_of_another_evaluation_or_in_another_order_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path, "a", "b")
    with pytest.raises(ConfigError, match="differs in its methods and size: give another folder"):
        Rows(path, {"data": "fields", "methods": ["two"], "size": 1}, ["a", "b"])
    with pytest.raises(DataError, match="not hold the images in their order"):
        Rows(path, ABOUT, ["b", "a"])


def test_an_interval_is_of_the_values_that_are_known() -> None:
    told = interval([1.0, 2.0, 6.0, math.nan])
    assert (told["mean"], told["images"]) == (3, 3)
    assert (told["low"], told["high"]) == (1, 6)
    values = np.random.default_rng(1).normal(size=400)
    many = interval(list(values))
    assert many["high"] - many["low"] == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.05)
    endless = interval([1.0, math.inf])
    assert endless["mean"] == math.inf
    assert math.isnan(endless["low"])
    nothing = interval([math.nan])
    assert nothing["images"] == 0
    assert math.isnan(nothing["mean"])


def test_a_value_on_an_edge_belongs_to_the_bin_above_it() -> None:
    rows = [{"name": name, "cover": cover} for name, cover in (("a", 0.05), ("b", 0.1), ("c", 0.3), ("d", 0.9))]
    found = {label: [row["name"] for row in some] for label, some in in_bins(rows, "cover", (0.1, 0.3), " %", 100)}
    assert found == {"below 10 %": ["a"], "10 to 30 %": ["b"], "30 % and above": ["c", "d"]}


def test_tables_are_written_as_markdown_and_csv() -> None:
    assert as_markdown(["a", "b"], [["1", "2"]]) == ["| a | b |", "| --- | --- |", "| 1 | 2 |"]
    assert as_csv(["a", "b"], [["x, y", 0.5]]) == 'a,b\n"x, y",0.5\n'
    assert (number(None, 2), number(1.005, 1)) == ("-", "1.0")
