"""Writing whole or not at all, one sha256, one cache folder."""

import hashlib
import os
from pathlib import Path

import pytest

import attcr.files
from attcr.files import cache_folder, memory_of_machine, replacing, sha256, write_whole


def test_a_file_is_replaced_in_one_step_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_an_error_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, b"old")
    with pytest.raises(UnicodeEncodeError), replacing(path) as partial:
        partial.write_text("half\ud800", "utf-8")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_sha256_is_of_the_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000  # longer than a block
    (tmp_path / "a").write_bytes(content)
    assert sha256(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "attcr"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/attcr")


def test_the_memory_of_a_machine_is_told_where_its_system_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}.__getitem__)
    monkeypatch.setattr(attcr.files, "CONTAINER_LIMIT", tmp_path / "memory.max")
    assert memory_of_machine() == 4_096_000
    for told, allowed in (("max", 4_096_000), ("9000000", 4_096_000), ("1000000", 1_000_000)):
        (tmp_path / "memory.max").write_text(f"{told}\n")
        assert memory_of_machine() == allowed
    monkeypatch.setattr(os, "sysconf", lambda _: -1)
    assert memory_of_machine() is None
    monkeypatch.delattr(os, "sysconf")
    assert memory_of_machine() is None
