"""The seams between blocks: what goes on from one into the next, and in which order they are filled."""

import numpy as np
import pytest

from attcr.cubes.seams import ACROSS, RAMP, STEPS, in_order, join, neighbours, piece, turns
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, LOW_CONFIDENCE, ORIGINAL
from attcr.scenes.tiles import Tile

SIDE = 64


def laid(rows: int, cols: int) -> list[Tile]:
    return in_order([Tile(row * SIDE, col * SIDE, SIDE, SIDE) for row in range(rows) for col in range(cols)], SIDE)


def filled(number: float, tile: Tile, quality: int = FROM_DATE) -> dict[str, np.ndarray]:
    """A block of one number, with what goes on beyond it."""
    shape = (1, tile.height + RAMP, tile.width + RAMP)
    values = {"red": np.full(shape, number, np.uint16), "error": np.full(shape, number, np.uint16)}
    return {**values, "quality": np.full(shape, quality, np.uint8), "source": np.full(shape, 3, np.int16)}


def joined(numbers: dict[tuple[int, int], float], own: dict[str, np.ndarray], tile: Tile) -> dict[str, np.ndarray]:
    pieces = {step: piece(filled(number, tile), tile, step, ["red"]) for step, number in numbers.items()}
    return join(own, tile, pieces, ["red"])


def test_a_filling_gives_way_to_the_next_one_over_the_ramp_and_no_further() -> None:
    tile = Tile(0, 0, SIDE, SIDE)
    made = joined({(1, 0): 1000}, filled(2000, tile), tile)["red"][0]
    assert made.shape == (SIDE, SIDE)
    assert (made[RAMP:] == 2000).all()
    ramp = 1000 + 1000 * (np.arange(RAMP) + 0.5) / RAMP
    assert np.abs(made[:RAMP] - ramp[:, None]).max() <= 0.5
    beside = joined({(0, 1): 1000}, filled(2000, tile), tile)["red"][0]
    assert (beside == made.T).all()


def test_at_a_corner_four_fillings_meet_and_their_shares_are_one() -> None:
    tile = Tile(0, 0, SIDE, SIDE)
    same = joined(dict.fromkeys(STEPS, 500), filled(500, tile), tile)
    assert (same["red"] == 500).all()
    made = joined({(1, 1): 100, (1, 0): 200, (0, 1): 400}, filled(800, tile), tile)["red"][0]
    near, far = 1 - 0.5 / RAMP, 0.5 / RAMP
    expected = near * near * 100 + near * far * 200 + far * near * 400 + far * far * 800
    assert made[0, 0] == pytest.approx(expected, abs=0.5)
    assert made[0, -1] == pytest.approx(near * 200 + far * 800, abs=0.5)
    assert made[-1, 0] == pytest.approx(near * 400 + far * 800, abs=0.5)


def test_what_was_seen_and_what_is_not_known_stay_and_so_does_the_source() -> None:
    tile = Tile(0, 0, SIDE, SIDE)
    for quality in (ORIGINAL, CLOUD_LEFT):
        made = joined(dict.fromkeys(STEPS, 500), filled(100, tile, quality), tile)
        assert (made["red"] == 100).all()
        assert (made["quality"] == quality).all()
    made = joined(dict.fromkeys(STEPS, 500), filled(100, tile), tile)
    assert (made["source"] == 3).all()
    assert (made["quality"][made["error"] > 200] == LOW_CONFIDENCE).all()  # of 0.02
    assert (made["quality"][made["error"] <= 200] == FROM_DATE).all()
    assert (made["error"] > 200).any()
    assert (made["error"][0, RAMP:, RAMP:] == 100).all()


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (4, ACROSS + 3), (2, 2 * ACROSS + 1)])
def test_every_block_comes_after_all_that_go_on_into_it_wherever_the_work_is_taken_up(shape: tuple[int, int]) -> None:
    blocks = laid(*shape)
    before = neighbours(blocks)
    for finished in {0, 1, len(blocks) // 2, len(blocks) - 1}:
        have: dict[Tile, set[tuple[int, int]]] = {one: set() for one in blocks}
        made, most = [], 0
        for tile, gives, kept in turns(blocks, finished):
            for step, other in gives:
                assert before[other][step] == tile
                have[other].add(step)
            if kept:
                assert have.pop(tile) == set(before[tile])
                made.append(tile)
            most = max(most, sum(bool(one) for one in have.values()))
        assert made == blocks[finished:]
        assert most <= ACROSS + 2  # of so many blocks something is kept


def test_neighbours_lie_above_and_on_the_left() -> None:
    blocks = laid(3, 3)
    assert neighbours(blocks)[blocks[4]] == {(1, 1): blocks[0], (1, 0): blocks[1], (0, 1): blocks[3]}
    assert neighbours(blocks)[blocks[0]] == {}


def test_a_block_is_filled_once_but_at_the_edge_of_a_column() -> None:
    count = [len([*turns(laid(3, cols), 0)]) for cols in (3, ACROSS, ACROSS + 1)]
    assert count == [9, 3 * ACROSS, 3 * (ACROSS + 1) + 3]
