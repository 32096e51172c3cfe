"""Downloads: how much and how long is taken, and that they can be given up."""

import io
import threading
import time
from collections.abc import Iterator

import pytest

from attcr.downloads import background, copy, seconds_for


def test_pieces_are_copied_up_to_the_limit_and_not_past_it() -> None:
    file = io.BytesIO()
    assert copy([b"ab", b"", b"c"], file, most=3, seconds=60) == 3
    assert file.getvalue() == b"abc"
    with pytest.raises(OSError, match="more than the 2 bytes"):
        copy([b"ab", b"c"], io.BytesIO(), most=2, seconds=60)


def drip() -> Iterator[bytes]:
    while True:
        time.sleep(0.01)
        yield b"x"


def test_a_server_that_drips_is_given_up_after_a_while_or_when_asked() -> None:
    with pytest.raises(TimeoutError, match="too slowly"):
        copy(drip(), io.BytesIO(), most=10**9, seconds=0.1)
    stop = threading.Event()
    waiting = background(copy, drip(), io.BytesIO(), most=10**9, seconds=600, stop=stop)
    stop.set()
    with pytest.raises(InterruptedError):
        waiting.result(timeout=60)


def test_large_files_may_take_longer() -> None:
    assert seconds_for(0) == 120
    assert seconds_for(1 << 30) == 120 + 65536
