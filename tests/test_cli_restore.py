"""`attcr restore` as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import attcr
from attcr.bands.spec import TRUE_COLOUR
from attcr.cli.scenes import _told_by_classes
from commands import attcr as attcr_command
from fake_scenes import UTM, make, noise, read, same_bits, serve


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    config = attcr.ATTCRConfig(dim=8, blocks=(1,) * 5, heads=(2,) * 5, scales=((1,),) * 5)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    attcr.save_model(attcr.ATTCR(config), path, spec=TRUE_COLOUR)
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "attcr", "restore", *map(str, arguments)]


def start(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`attcr restore` as a process of its own."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`attcr restore` in this process, which GDAL holds up while it reads: not for a server in it."""
    return attcr_command("restore", *arguments)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_photo_goes_in_and_out(tmp_path: Path, weights: Path) -> None:
    photo = make(tmp_path / "photo.png", noise("uint8", (3, 90, 80)) // 2, driver="PNG")
    done = start(photo, tmp_path / "out.png", "--weights", weights)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "out.png: mask auto+network, " in done.stdout
    assert "original" in done.stdout
    assert read(tmp_path / "out.png").shape == (3, 90, 80)
    again = start(photo, tmp_path / "out.png", "--weights", weights)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr


def test_a_dry_run_tells_tiles_time_and_memory_and_writes_nothing(tmp_path: Path, weights: Path) -> None:
    scene = make(tmp_path / "in.tif", noise("uint8", (3, 300, 280)), photometric="RGB", **UTM)
    done = run(scene, tmp_path / "out.tif", "--weights", weights, "--dry-run", "--mask", "auto", "--tile", 128)
    assert done.returncode == 0, done.stderr
    for text in ("280 x 300", "of 9 tiles", "MiB of memory", "MiB of disk", "about"):
        assert text in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["in.tif"]


@pytest.mark.nightly
def test_killed_in_the_middle_and_resumed_gives_the_bytes_of_an_undisturbed_run(tmp_path: Path, weights: Path) -> None:
    scene = make(tmp_path / "in.tif", noise("uint8", (3, 600, 130)), photometric="RGB", **UTM)
    clouds = np.zeros((1, 600, 130), np.uint8)
    clouds[:, 50:560, 20:110] = 1
    mask = make(tmp_path / "clouds.tif", clouds, **UTM)
    options = ("--weights", weights, "--tile", 64, "--overlap", 16, "--mask", mask)
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    assert start(scene, tmp_path / "whole" / "out.tif", *options).returncode == 0
    target = tmp_path / "killed" / "out.tif"
    state = target.with_name(".out.tif.attcr") / "state.json"
    rows = []
    for wanted in (1, 200):
        process = subprocess.Popen(command(scene, target, *options, "--resume"), stderr=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if json.loads(state.read_text())["row"] >= wanted:
                    break
            except (FileNotFoundError, json.JSONDecodeError):
                pass
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not target.exists()
        rows.append(json.loads(state.read_text())["row"])
    assert 0 < rows[0] < rows[1] < 600
    assert start(scene, target, *options, "--resume").returncode == 0
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_a_scene_that_is_all_cloud_ends_with_4_and_what_to_do(tmp_path: Path, weights: Path) -> None:
    scene = make(tmp_path / "in.tif", np.full((3, 40, 40), 90, np.uint8), photometric="RGB", **UTM)
    scl = make(tmp_path / "scl.tif", np.full((1, 40, 40), 9, np.uint8), **UTM)
    target = tmp_path / "out.tif"
    done = run(scene, target, "--weights", weights, "--mask", f"scl={scl}")
    assert done.returncode == 4
    assert done.stderr.startswith("attcr: All of ")
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tif", "scl.tif"]
    done = run(scene, target, "--weights", weights, "--mask", f"scl={scl}", "--unseen", "fill")
    assert done.returncode == 0
    assert "100.0% of the scene is under cloud that these weights do not remove" in done.stderr


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "served").mkdir()
    with serve(tmp_path / "served") as address:
        yield address


def test_a_scene_on_a_server_is_read_where_it_is_and_its_signature_is_told_to_no_one(
    tmp_path: Path, weights: Path, served: str
) -> None:
    values = noise("uint8", (3, 90, 100))
    make(tmp_path / "served" / "in.tif", values, photometric="RGB", **UTM)
    clouds = make(tmp_path / "clouds.tif", np.zeros((1, 90, 100), np.uint8), **UTM)
    target = tmp_path / "out.tif"
    done = start(f"/vsicurl/{served}/in.tif?X-Amz-Signature=secret", target, "--weights", weights, "--mask", clouds)
    assert done.returncode == 0, done.stderr
    assert same_bits(read(target), values)
    assert "secret" not in target.with_suffix(".json").read_text() + done.stdout
    missing = start(f"{served}/nowhere.tif?X-Amz-Signature=secret", tmp_path / "no.tif", "--weights", weights)
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1
    assert "secret" not in missing.stderr


def test_a_scene_in_a_bucket_is_restored(tmp_path: Path, weights: Path, s3: str) -> None:
    obstore = pytest.importorskip("obstore")
    from obstore.store import from_url

    scene = make(tmp_path / "in.tif", noise("uint8", (3, 90, 100)), photometric="RGB", **UTM)
    obstore.put(from_url(s3), "restore/in.tif", scene)
    for source, target in ((f"{s3}/restore/in.tif", "remote.tif"), (scene, "local.tif")):
        done = run(source, tmp_path / target, "--weights", weights)
        assert done.returncode == 0, done.stderr
    assert same_bits(read(tmp_path / "remote.tif"), read(tmp_path / "local.tif"))


def test_restore_help_needs_no_torch() -> None:
    code = """
import sys
import attcr.cli
sys.argv = ["attcr", "restore", "--help"]
try:
    attcr.cli.main()
except SystemExit:
    assert not {"torch", "rasterio"} & set(sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_several_pictures_go_into_a_folder_and_a_bad_one_stops_no_other(tmp_path: Path, weights: Path) -> None:
    first = make(tmp_path / "a.png", np.full((3, 40, 40), 120, np.uint8), driver="PNG")
    floats = np.linspace(0.1, 0.9, 4800, dtype=np.float32).reshape(3, 40, 40)
    last = make(tmp_path / "c.tif", floats, photometric="RGB", **UTM)
    (tmp_path / "b.tif").write_text("no raster")
    (tmp_path / "out").mkdir()
    options = ("--weights", weights, "--mask", "none", "--json", "--progress", "json")
    done = run(first, tmp_path / "b.tif", last, tmp_path / "out", *options)
    assert done.returncode == 3, done.stderr
    told = json.loads(done.stdout)
    assert [Path(scene["target"]).name for scene in told["scenes"]] == ["a.png", "c.tif"]
    assert list(told["failed"]) == [str(tmp_path / "b.tif")]
    assert read(tmp_path / "out" / "a.png").shape == read(tmp_path / "out" / "c.tif").shape == (3, 40, 40)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert {event["event"] for event in events} == {"start", "progress", "warning", "result"}
    warned = [event["message"] for event in events if event["event"] == "warning"]
    assert any("cannot be opened as a raster" in text for text in warned)
    assert any("say --sensor picture" in text for text in warned)
    restored = [event for event in events if event.get("stage") == "restore"]
    assert (restored[0]["done"], restored[0]["total"], restored[-1]["done"]) == (0, 1, 1)
    assert events[-1]["result"] == told


def test_four_bands_without_names_are_restored_by_their_numbers(tmp_path: Path, weights: Path) -> None:
    values = np.full((4, 80, 80), 800, np.uint16)
    values[:, 20:40, 20:40] = 9000
    scene = make(tmp_path / "in.tif", values, **UTM)
    options = ("--sensor", "S2-L2A", "--bands", "3,2,1", "--mask", "auto", "--dilate", 0, "--feather", 0, "--quiet")
    done = run(scene, tmp_path / "out.tif", "--weights", weights, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    quality = read(tmp_path / "out_quality.tif")[0]
    assert (quality[25:35, 25:35] > 1).all()
    assert (quality[50:] == 1).all()


@pytest.mark.parametrize(
    ("pixels", "said"),
    [
        ([0, 10, 0, 0, 0, 0, 0], "no cloud was found"),
        ([5, 10, 0, 0, 0, 2, 0], ""),
        ([0, 10, 4, 0, 5, 0, 0], "more than half"),
        ([0, 10, 5, 0, 5, 9, 0], ""),
    ],
)
def test_what_to_try_is_said_where_nothing_was_found_or_little_is_sure(pixels: list[int], said: str) -> None:
    told = " ".join(_told_by_classes(pixels))
    assert (said in told) if said else not told
