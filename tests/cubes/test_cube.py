"""`attcr cube` from an empty folder: a real STAC API, files over HTTP, a cube that xarray and GDAL open."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import attcr
from attcr.cli import app
from attcr.errors import AttcrError, ConfigError
from attcr.restore.walk import FROM_DATE, ORIGINAL
from fake_cubes import DAYS, archive, cloudy, place


def run(*arguments: object) -> Any:
    """Run the command, and give what it prints as JSON."""
    result = CliRunner().invoke(app, ["cube", "--json", "--progress", "none", *map(str, arguments)])
    if result.exception:
        raise result.exception
    return json.loads(result.stdout)


def test_one_command_gives_a_filled_cube_and_another_brings_it_up_to_date(tmp_path: Path) -> None:
    out = tmp_path / "o.zarr"
    given = (place(), out, "--from", DAYS[0], "--bands", "red,green,blue", "--resolution", 10, "--dilate", 0)
    with archive(tmp_path / "archive") as made:
        with made.source(3) as source:
            plan = run(*given, "--to", DAYS[-1], "--source", source, "--dry-run")
            assert not out.exists()
            assert [one["id"] for one in plan["acquisitions"]] == ["S2_20240501", "S2_20240511", "S2_20240521"]
            assert plan["fetched"] > 0 < plan["memory"]
            first = run(*given, "--to", DAYS[-1], "--source", source)
            with pytest.raises(ConfigError, match="has a cube already"):
                run(*given, "--to", DAYS[-1], "--source", source)
        with made.source() as source:
            second = run(*given, "--to", DAYS[-1], "--source", source, "--update")
    assert (first["dates"], second["dates"], second["added"]) == (3, 4, 1)
    there = attcr.open_cube(out)
    shown = there.isel(y=slice(4, 124), x=slice(4, 124))  # the grid reaches a pixel beyond the files
    rows, cols = (_index(there, axis) for axis in ("y", "x"))
    for day in range(4):
        under = cloudy(day)[np.ix_(rows[4:124], cols[4:124])]
        assert (shown["quality"][day].values == np.where(under, FROM_DATE, ORIGINAL)).all()
    assert float(shown["red"].max()) < 0.8  # cloud is 0.9
    assert json.loads((tmp_path / "o.json").read_text())["properties"]["end_datetime"].startswith(DAYS[-1])


def _index(there: Any, axis: str) -> np.ndarray:
    """Which row or column of the files each of a cube's is."""
    from fake_scenes import UTM

    t = UTM["transform"]
    at = (there[axis].values - (t.c if axis == "x" else t.f)) / (t.a if axis == "x" else t.e)
    index: np.ndarray = np.floor(at).astype(int)
    return index


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere", "o.zarr", "--from", "2024-05-01"), "no place and no file"),
        (("1,2,3,4", "o.zarr", "--from", "May"), "is no day"),
        (("1,2,3,4", "o.zarr", "--from", "2024-05-01", "--source", "nobody"), "no source 'nobody'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(
    arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AttcrError, match=told):
        run(*arguments)
    assert not list(tmp_path.iterdir())
