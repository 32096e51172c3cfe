"""What an interrupted run left is taken up only where it is the same work, and whole."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attcr import files
from attcr.errors import AttcrWarning
from attcr.restore import Progress, RestoreOptions, RestoreResult, restore_scene
from attcr.restore import resume as resume_module
from attcr.restore import scene as scene_module
from attcr.restore.resume import State, empty, identity_of, read_state, take_up
from attcr.scenes import write
from fake_scenes import SENSORS, Counting, make, noise, read

HEIGHT, WIDTH = 128, 64


def options(**more: Any) -> RestoreOptions:
    return RestoreOptions(**{"sensor": SENSORS["uint8"], "mask": "none", "tile": 32, "overlap": 0, **more})


def flat(path: Path, value: int, bands: int = 3) -> Path:
    return make(path, np.full((bands, HEIGHT, WIDTH), value, np.uint8))


def interrupt(source: str | Path, target: Path, given: RestoreOptions) -> None:
    """Restore until half of the strips are done, and stop as if killed."""

    def stop(progress: Progress) -> None:
        if progress.stage == "restore" and progress.done > 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore_scene(source, target, Counting(), options=given, progress=stop)
    state = read_state(target.with_name(f".{target.name}.attcr"))
    assert state is not None
    assert state.row > 0


def resume(source: str | Path, target: Path, given: RestoreOptions) -> RestoreResult:
    return restore_scene(source, target, Counting(), options=given, resume=True)


def vrt_of(name: str) -> str:
    bands = "".join(
        f'<VRTRasterBand dataType="Byte" band="{i}"><SimpleSource><SourceFilename relativeToVRT="1">{name}'
        f"</SourceFilename><SourceBand>{i}</SourceBand></SimpleSource></VRTRasterBand>"
        for i in (1, 2, 3)
    )
    return f'<VRTDataset rasterXSize="{WIDTH}" rasterYSize="{HEIGHT}">{bands}</VRTDataset>'


@pytest.mark.parametrize("same_time", [False, True])
def test_a_changed_file_behind_a_vrt_starts_anew(tmp_path: Path, same_time: bool) -> None:
    source = flat(tmp_path / "a.tif", 10)
    (tmp_path / "in.vrt").write_text(vrt_of("a.tif"))
    interrupt(tmp_path / "in.vrt", tmp_path / "o.tif", options())
    then = source.stat().st_mtime_ns
    flat(source, 200)
    if same_time:
        os.utime(source, ns=(then, then))
    with pytest.warns(AttcrWarning, match="starting again"):
        resume(tmp_path / "in.vrt", tmp_path / "o.tif", options())
    assert (read(tmp_path / "o.tif") == 100).all()


@pytest.mark.parametrize("mask", ["{}", "scl={}"])
def test_a_changed_mask_starts_anew(tmp_path: Path, mask: str) -> None:
    source = flat(tmp_path / "in.tif", 10)
    clouds = np.zeros((1, HEIGHT, WIDTH), np.uint8)
    clouds[:, :, :33] = 9
    path = make(tmp_path / "m.tif", clouds)
    given = options(mask=mask.format(path), dilate=0, feather=0)
    interrupt(source, tmp_path / "o.tif", given)
    make(path, clouds[:, :, ::-1])
    with pytest.warns(AttcrWarning, match="starting again"):
        resume(source, tmp_path / "o.tif", given)
    quality = read(tmp_path / "o_quality.tif")[0]
    assert np.array_equal(quality > 1, clouds[0, :, ::-1] > 0)


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder from another process: GDAL holds Python's lock while it opens a file."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{server.stdout.readline().split(' port ')[1].split()[0]}"
        finally:
            server.terminate()


def test_a_changed_file_on_a_server_starts_anew_and_the_same_goes_on(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    source = flat(tmp_path / "served" / "in.tif", 10)
    os.utime(source, (1e9, 1e9))
    with serve(tmp_path / "served") as address:
        interrupt(f"{address}/in.tif?sig=1", tmp_path / "o.tif", options())
        assert resume(f"{address}/in.tif?sig=2", tmp_path / "o.tif", options()).resumed_row > 0
        interrupt(f"{address}/in.tif", tmp_path / "p.tif", options())
        os.utime(source, (1.1e9, 1.1e9))
        with pytest.warns(AttcrWarning, match="starting again"):
            assert resume(f"{address}/in.tif", tmp_path / "p.tif", options()).resumed_row == 0


def test_what_a_server_does_not_tell_of_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "served").mkdir()
    flat(tmp_path / "served" / "in.tif", 10)
    monkeypatch.setattr("attcr.restore.resume._of_server", lambda _: None)
    with serve(tmp_path / "served") as address:
        interrupt(f"{address}/in.tif", tmp_path / "o.tif", options())
        with pytest.warns(AttcrWarning, match="does not say"):
            assert resume(f"{address}/in.tif", tmp_path / "o.tif", options()).resumed_row == 0


def test_the_identity_of_a_file_is_its_size_time_and_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(200_000))
    first = identity_of(str(path))
    assert first is not None
    assert first[:3] == (str(path), "200000", str(path.stat().st_mtime_ns))
    then = path.stat().st_mtime_ns
    path.write_bytes(bytes(199_999) + b"x")
    os.utime(path, ns=(then, then))
    changed = identity_of(str(path))
    assert changed is not None
    assert changed[:3] == first[:3]
    assert changed[3] != first[3]
    assert identity_of("s3://bucket/in.tif") is None
    assert identity_of("http://127.0.0.1:9/in.tif") is None


def _edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        told = json.loads((folder / "state.json").read_text())
        change(told)
        (folder / "state.json").write_text(json.dumps(told))

    return edit


def _cut(folder: Path) -> None:
    path = folder / "restored.tif"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 4])


def _link(folder: Path) -> None:
    (folder / "restored.tif").rename(folder.parent / "elsewhere.tif")
    (folder / "restored.tif").symlink_to(folder.parent / "elsewhere.tif")


def _link_as_long_as_the_file(folder: Path) -> None:
    _link(folder)
    _edit(lambda told: told["sizes"].update({"restored.tif": 1}))(folder)


def _zero(name: str) -> Callable[[Path], None]:
    """Let a working file keep its size and its head, and lose what was written since it was made."""

    def zero(folder: Path) -> None:
        content = (folder / name).read_bytes()
        kept = len(content) - read(folder / name).nbytes
        (folder / name).write_bytes(content[:kept] + bytes(len(content) - kept))

    return zero


DAMAGE: dict[str, Callable[[Path], object]] = {
    **{repr(text): lambda folder, text=text: (folder / "state.json").write_text(text)  # type: ignore[misc]
       for text in ("", "{", '{"x": 1}', "[]", "null", "[" * 100_000)},
    "row beyond the scene": _edit(lambda told: told.update(row=100_000)),
    "negative row": _edit(lambda told: told.update(row=-5)),
    "row between strips": _edit(lambda told: told.update(row=7)),
    "another row": _edit(lambda told: told.update(row=96)),
    "row of text": _edit(lambda told: told.update(row="x")),
    "one class": _edit(lambda told: told.update(pixels=[1])),
    "pixels of text": _edit(lambda told: told.update(pixels="abcde")),
    "sizes of text": _edit(lambda told: told.update(sizes={"restored.tif": "x"})),
    "a file elsewhere": _edit(lambda told: told["sizes"].update({"../in.tif": 1})),
    "restored.tif gone": lambda folder: (folder / "restored.tif").unlink(),
    "quality.tif gone": lambda folder: (folder / "quality.tif").unlink(),
    "preview.tif gone": lambda folder: (folder / "preview.tif").unlink(),
    "restored.tif cut": _cut,
    "restored.tif a link": _link,
    "restored.tif a link as long as the file": _link_as_long_as_the_file,
    "rows before the clouds were found": _edit(lambda told: told.update(has_clouds=False)),
    "restored.tif of zeros": _zero("restored.tif"),
    "quality.tif of zeros": _zero("quality.tif"),
    "preview.tif of zeros": _zero("preview.tif"),
    "a checksum too few": _edit(lambda told: told["checksums"].pop()),
    "another checksum": _edit(lambda told: told["checksums"].__setitem__(0, 1)),
    "a checksum of text": _edit(lambda told: told.update(checksums="ab")),
    "no checksums": _edit(lambda told: told.pop("checksums")),
}  # fmt: skip


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_damaged_working_folder_is_told_and_the_work_starts_anew(tmp_path: Path, damage: str) -> None:
    source = flat(tmp_path / "in.tif", 10)
    interrupt(source, tmp_path / "o.tif", options())
    DAMAGE[damage](tmp_path / ".o.tif.attcr")
    with pytest.warns(AttcrWarning, match="is damaged: starting again"):
        result = resume(source, tmp_path / "o.tif", options())
    assert result.resumed_row == 0
    assert (read(tmp_path / "o.tif") == 5).all()
    assert sum(result.pixels.values()) == HEIGHT * WIDTH


def test_clouds_that_became_zeros_start_anew(tmp_path: Path) -> None:
    source = flat(tmp_path / "in.tif", 10)
    mask = make(tmp_path / "m.tif", np.ones((1, HEIGHT, WIDTH), np.uint8))
    given = options(mask=str(mask))
    interrupt(source, tmp_path / "o.tif", given)
    _zero("clouds.tif")(tmp_path / ".o.tif.attcr")
    with pytest.warns(AttcrWarning, match="is damaged: starting again"):
        assert resume(source, tmp_path / "o.tif", given).resumed_row == 0
    assert (read(tmp_path / "o.tif") == 5).all()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_rows_of_every_layer_and_type_are_known_again(tmp_path: Path, dtype: str) -> None:
    """Alpha, spread and values that are not numbers: what was written is what is read."""
    values = noise(dtype, (4, HEIGHT, WIDTH))
    if dtype == "float32":
        values[:, ::7, ::5] = np.nan
        values[:, 1::7, ::5] = -0.0
    source = make(tmp_path / "in.tif", values, photometric="RGB", alpha="yes")
    given = RestoreOptions(sensor=SENSORS[dtype], tile=32, overlap=8, confidence=True, mask="none")
    (tmp_path / "whole").mkdir()
    restore_scene(source, tmp_path / "whole" / "o.tif", Counting(), options=given)
    interrupt(source, tmp_path / "o.tif", given)
    assert resume(source, tmp_path / "o.tif", given).resumed_row > 0
    for made in (tmp_path / "whole").iterdir():
        assert (tmp_path / made.name).read_bytes() == made.read_bytes()


def test_rows_are_on_the_disk_before_the_state_that_tells_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = flat(tmp_path / "in.tif", 10)
    done: list[str] = []
    plain, save = files.to_disk, State.save

    def to_disk(path: Path) -> None:
        done.append(path.name)
        plain(path)

    def saving(state: State) -> None:
        done.append("state")
        save(state)

    monkeypatch.setattr(write, "to_disk", to_disk)
    monkeypatch.setattr(State, "save", saving)
    restore_scene(source, tmp_path / "o.tif", Counting(), options=options())
    strips = done[: done.index("state", done.index("restored.tif")) + 1]
    assert strips[-4:] == ["restored.tif", "quality.tif", "preview.tif", "state"]


def test_a_run_killed_between_two_names_goes_on_without_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = flat(tmp_path / "in.tif", 10)
    rename = Path.replace

    def killed(path: Path, target: Path) -> Path:
        if path.parent.name == "publish" and path.name == "o_quality.tif":
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            restore_scene(source, tmp_path / "o.tif", Counting(), options=options())
    assert (tmp_path / "o.tif").exists()
    assert not (tmp_path / "o.json").exists()
    assert resume(source, tmp_path / "o.tif", options()).resumed_row == HEIGHT
    assert (tmp_path / "o.json").exists()
    assert not (tmp_path / ".o.tif.attcr").exists()


@pytest.mark.parametrize("second", ["while it starts", "while it restores"])
def test_a_run_killed_while_it_removes_its_folder_and_once_more_goes_on_without_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    source, folder = flat(tmp_path / "in.tif", 10), tmp_path / ".o.tif.attcr"

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(scene_module, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            restore_scene(source, tmp_path / "o.tif", Counting(), options=options())
    (folder / "restored.tif").unlink()
    right = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with monkeypatch.context() as patch:
        if second == "while it starts":
            patch.setattr(resume_module, "empty", lambda *given, **more: killed(empty(*given, **more)))
        else:
            patch.setattr(scene_module, "publish", killed)
        with pytest.raises(KeyboardInterrupt), pytest.warns(AttcrWarning, match="starting again"):
            resume(source, tmp_path / "o.tif", options())
    (tmp_path / "o.json").unlink()  # as where it was killed between two names
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttcrWarning)
        resume(source, tmp_path / "o.tif", options())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == right


def test_other_work_is_not_taken_up(tmp_path: Path) -> None:
    State(tmp_path, "mine").save()
    given: dict[str, Any] = {"resume": True, "strips": {0}, "width": 3, "checksum": lambda top, bottom: None}
    assert take_up(tmp_path, "mine", **given) == State(tmp_path, "mine")
    with pytest.warns(AttcrWarning, match="other work"):
        take_up(tmp_path, "other", **given)
    assert not list(tmp_path.iterdir())
