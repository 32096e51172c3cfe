"""Where results go: what is published once, and what the dead leave."""

import os
import signal
from pathlib import Path

from attcr.fleet.store import Scratch, Store, sweep


def test_scratch_of_the_living_stays_and_of_the_dead_goes(tmp_path: Path) -> None:
    alive = Scratch(tmp_path / "s")
    child = os.fork()
    if not child:
        dead = Scratch(tmp_path / "s")
        (dead.folder / "scene").mkdir()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    sweep(tmp_path / "s")
    assert [path.name for path in (tmp_path / "s").iterdir() if path.is_dir()] == [alive.folder.name]
    alive.close()
    assert not (tmp_path / "s").exists()


def test_a_key_is_created_once(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "out"))
    with Scratch(store.scratch) as scratch:
        for expected, text in ((True, "first"), (False, "second")):
            made = scratch.folder / "made"
            made.write_text(text)
            assert store.create(made, "items/a.json") is expected
            assert not made.exists()
    assert store.read("items/a.json") == b"first"
    assert list(store.names("items")) == ["a.json"]
    store.delete("items/a.json")
    store.delete("items/a.json")
    assert store.read("items/a.json") is None
