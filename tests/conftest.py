"""Where the data beside the repository lies."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from buckets import ask_s3
from tenths import is_due


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the nightly tests that are not of the tenth that is asked for; whatever needs S3 is one of them."""
    for item in items:
        if "s3" in getattr(item, "fixturenames", ()):
            item.add_marker("nightly")
    left_out = [item for item in items if item.get_closest_marker("nightly") and not is_due(item.nodeid)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(autouse=True)
def _auto_is_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are the same on all machines that run the tests, those that multiply in bfloat16 too."""
    monkeypatch.setattr("attcr.predict.CPU_INFO", Path("no such file"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the repository: parity tensors, golden values, real data."""
    folder = Path(os.environ.get("ATTCR_SHARED") or Path(__file__).parents[2] / "shared")
    if not folder.is_dir():
        pytest.skip(f"needs the data in {folder}")
    return folder


@pytest.fixture(scope="session")
def shared_data(shared: Path) -> Path:
    """The real data beside the repository."""
    return shared / "data"


@pytest.fixture(scope="session")
def s3(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A bucket on a real S3 server (Ceph RGW) on this machine; its settings are in the environment."""
    missing = [name for name in ("ceph-mon", "ceph-osd", "radosgw", "curl") if not shutil.which(name)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: apt-get install ceph-mon ceph-osd ceph-common radosgw curl")
    server, folder = shared / "tools" / "s3-server", tmp_path_factory.mktemp("s3")
    ports = {"S3_PORT": str(_free_port()), "S3_MON_PORT": str(_free_port()), "S3_BYTES": str(1 << 30)}
    before = dict(os.environ)
    try:
        up = subprocess.run(
            [server, "up", folder], env={**before, **ports}, capture_output=True, text=True, timeout=300, check=True
        )
        told = [word.split("=", 1) for word in up.stdout.replace("export ", "").split()]
        os.environ.update(dict(told))
        ask_s3("PUT", "fleet")
        yield "s3://fleet"
    finally:
        subprocess.run([server, "down", folder], check=True)
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB in memory, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no right to mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
