"""What Linux has and Windows or macOS lack is taken away, and scenes are restored all the same."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly
MODULES = ("fcntl", "resource", "termios", "pwd", "grp")
NAMES = {
    "os": (
        "sysconf", "fork", "forkpty", "getuid", "geteuid", "sched_getaffinity", "getloadavg", "O_DIRECTORY",
        "O_NOFOLLOW", "posix_fadvise", "register_at_fork", "pread", "mkfifo", "killpg",
    ),
    "signal": ("SIGALRM", "SIGKILL", "SIGHUP", "setitimer", "pthread_sigmask"),
}  # fmt: skip
"""What Windows' Python does not have."""
WITHOUT = f"""
import os, signal, sys
import numpy, pystac, rasterio, rio_cogeo.cogeo, scipy.ndimage, torch, typer, PIL.Image  # they look where they are
for name in {MODULES!r}:
    sys.modules[name] = None
for module, names in {NAMES!r}.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
before, sys.platform = sys.platform, {{platform!r}}
import attcr.files, attcr.restore.resume, attcr.cli.threads
assert attcr.files.memory_of_machine() is None
assert attcr.cli.threads.load() == 0
sys.platform = before  # libraries of others ask for it whenever they like
"""


def run(code: str, folder: Path, platform: str = "win32") -> subprocess.CompletedProcess[str]:
    whole = WITHOUT.replace("{platform!r}", repr(platform)) + code
    return subprocess.run([sys.executable, "-c", whole], cwd=folder, capture_output=True, text=True, timeout=300)


SCENE = """
from attcr import RestoreOptions, restore_scene
values = numpy.full((3, 64, 64), 120, numpy.uint8)
with rasterio.open("a.tif", "w", driver="GTiff", count=3, height=64, width=64, dtype="uint8") as file:
    file.write(values)
options = RestoreOptions(sensor="rgb8", mask="none", tile=64)
sys.platform = "win32"
result = restore_scene("a.tif", "out.tif", "rgb-thin", options=options)
assert sum(result.pixels.values()) == 64 * 64
"""


def test_a_scene_is_restored_without_what_windows_lacks(tmp_path: Path) -> None:
    done = run(SCENE, tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"out.tif", "out_quality.tif", "out_preview.png", "out.json"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("module", ["attcr.fleet.store", "attcr.serve.store"])
def test_fleets_and_the_service_say_that_they_need_another_system(module: str, tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    done = run(f"import {module}\n", tmp_path)
    assert done.returncode == 1
    assert (
        done.stderr.strip()
        .splitlines()[-1]
        .endswith("Fleets and the service need Linux or macOS: on Windows run them in WSL or in a container.")
    )
