"""What a cube will be: which dates, which blocks, what it costs, and when it is the same work."""

from typing import Any

import pytest

from attcr.cubes.options import CubeOptions
from attcr.cubes.plan import AT_REST, Plan, bytes_a_pixel, even, make_plan
from attcr.cubes.sources import SOURCES
from attcr.errors import ConfigError, SceneError
from fake_cubes import DAYS, HERE, Drawn, options


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    made = Drawn()
    made.install(monkeypatch.setattr)
    return made


def plan(**more: Any) -> Plan:
    return make_plan(HERE, options(**more))


def test_the_blocks_cover_the_grid_once(drawn: Drawn) -> None:
    made = plan()
    assert (made.grid.height, made.grid.width, made.block) == (160, 160, (64, 64))
    assert sum(one.height * one.width for one in made.blocks) == 160 * 160
    assert (made.blocks[1].col, made.blocks[2].width, made.blocks[3].row, made.blocks[-1].height) == (64, 32, 64, 32)


def test_blocks_of_a_line_are_about_equal() -> None:
    assert [even(size, 64) for size in (16, 64, 65, 130, 160, 10_980)] == [16, 64, 48, 48, 64, 64]
    assert even(10_980, 1024) == 1008


def test_the_memory_decides_the_blocks_and_the_extent_does_not(drawn: Drawn) -> None:
    small, large = (make_plan(f"49.64,16.39,{size}", options(memory=0.6)) for size in (20_000, 80_000))
    assert small.memory == large.memory < 0.6e9
    assert small.memory > 0.55e9  # it is used
    assert len(large.blocks) > 15 * len(small.blocks)
    assert plan(memory=2.0).memory < plan(memory=2.0).options.memory * 1e9


def test_a_budget_that_is_too_small_names_one_that_is_not(drawn: Drawn) -> None:
    with pytest.raises(ConfigError, match=r"4 acquisitions of 3 bands need `memory` of at least 0\.53 GB"):
        plan(memory=0.5)


def test_the_estimates_follow_from_size_dates_and_bands(drawn: Drawn) -> None:
    made, all_bands = plan(), plan(bands=None, memory=0.6)
    per_pixel = 2 * 3 + 1
    padded = sum((one.height + 128) * (one.width + 128) for one in made.blocks)
    assert made.fetched == pytest.approx(0.6 * padded * per_pixel * 4)
    assert all_bands.seconds > made.seconds > 0
    pixel = bytes_a_pixel(SOURCES["earth-search"], made.bands, 4, 4)
    ends = 34 * 32 * (64 + 32) * 4 * (3 * 2 + 2)  # of 32 blocks in a line and two more
    assert made.memory == AT_REST + (64 + 128) ** 2 * pixel + ends


def test_a_regular_axis_takes_the_nearest_acquisition_of_each_step_and_invents_none(drawn: Drawn) -> None:
    drawn.days = ("2024-05-01", "2024-05-04", "2024-05-09", "2024-05-13", "2024-05-31")
    made = plan(every="10d", memory=0.6)
    assert [f"{made.taken[at]:%m-%d}" for at in made.dates] == ["05-01", "05-09", "05-31"]  # nothing near 05-21
    assert len(made.acquisitions) == 5
    assert len(plan(memory=0.6).dates) == 5


def test_the_same_work_is_continued_with_the_addresses_of_now(drawn: Drawn) -> None:
    told = plan().describe()
    drawn.days = (*DAYS, "2024-06-10")  # the catalog grew meanwhile
    again = plan(memory=3.0).continued(_stored(told))
    assert (again.block, len(again.acquisitions)) == ((64, 64), 4)
    drawn.days = DAYS[1:]
    with pytest.raises(SceneError, match="no longer has 1 of the cube's 4 acquisitions, S2_2024-05-01"):
        plan().continued(_stored(told))
    assert len(plan().continued(_stored(told), kept=1).acquisitions) == 4


@pytest.mark.parametrize(
    ("change", "name"),
    [({"bands": "red"}, "options"), ({"resolution": 20.0}, "options"), ({"first": "2024-04-01"}, "options")],
)
def test_other_work_is_not_continued(drawn: Drawn, change: dict[str, Any], name: str) -> None:
    told = plan().describe()
    with pytest.raises(ConfigError, match=f"another {name}"):
        plan(**change).continued(_stored(told))


def test_a_cube_grows_by_what_was_taken_since(drawn: Drawn) -> None:
    drawn.days = DAYS[:3]
    told = plan().describe()
    drawn.days = (DAYS[0], "2024-05-05", *DAYS[1:], "2024-06-10")  # one came late
    made = plan(memory=0.6).grown(_stored(told))
    assert [f"{one:%m-%d}" for one in made.taken] == ["05-01", "05-11", "05-21", "05-31", "06-10"]
    assert made.dates == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("given", "told"),
    [({"every": "ten"}, "`every` is 'ten'"), ({"most_cloud": 0.0}, "`most_cloud`"), ({"first": "May"}, "is no day")],
)
def test_options_that_are_none_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises((ConfigError, SceneError), match=told):
        CubeOptions(**{"first": "2024-05-01", **given})


def _stored(told: dict[str, Any]) -> dict[str, Any]:
    import json

    made: dict[str, Any] = json.loads(json.dumps(told))
    return made
