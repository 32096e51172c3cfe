"""The plugin in the real QGIS: headless, in the Python that QGIS was built for, from its zip in an empty profile."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.windows import Window

import attcr
from attcr.restore.walk import QUALITY_COLOURS, QUALITY_NAMES

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"
"""Debian's own, for which its QGIS is built."""
PROCESS = "qgis_process.bin"
"""Debian's wrapper of it takes its options as an algorithm."""
CASES = ("installed", "options", "addresses", "weights", "layers", "cancelled", "refused", "model", "batch")
CIRRUS = Window(224 + 660, 128 + 945, 96, 96)


def missing() -> str:
    """Say what is not here of QGIS."""
    if not shutil.which(PROCESS):
        return "needs QGIS: apt-get install --no-install-recommends qgis python3-qgis qgis-providers"
    asked = subprocess.run([PYTHON, "-c", "import qgis.core"], capture_output=True, env=_environment(Path("/tmp")))
    return "" if asked.returncode == 0 else f"{PYTHON} has no qgis: apt-get install python3-qgis"


def _environment(home: Path) -> dict[str, str]:
    """QGIS as on a desk of its own: no attcr on the path, no settings from elsewhere."""
    quiet = {"QT_QPA_PLATFORM": "offscreen", "XDG_RUNTIME_DIR": str(home), "LANG": "C.UTF-8"}
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), **quiet}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """A folder with a small real scene under cirrus, its SCL, an attcr, and a profile with the plugin from its zip."""
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("desk")
    files = {path.stem.split("_")[2]: path for path in (shared_data / "scenes" / "s2_l2a_60m").glob("*.jp2")}
    for name, bands, dtype in (("scene", ("B02", "B03", "B04", "B8A"), "uint16"), ("scl", ("SCL",), "uint8")):
        values = []
        for band in bands:
            with rasterio.open(files[band]) as source:
                values.append(source.read(1, window=CIRRUS))
                where = {"crs": source.crs, "transform": source.window_transform(CIRRUS)}
        size = {"count": len(bands), "height": CIRRUS.height, "width": CIRRUS.width, "dtype": dtype}
        with rasterio.open(folder / f"{name}.tif", "w", driver="GTiff", nodata=0, **size, **where) as target:
            target.write(np.stack(values).astype(dtype))
            target.descriptions = bands
    packed = folder / "plugin.zip"
    subprocess.run([sys.executable, ROOT / "tools" / "qgis_zip.py", packed], check=True, capture_output=True)
    plugins = folder / "profile" / "python" / "plugins"
    plugins.mkdir(parents=True)
    zipfile.ZipFile(packed).extractall(plugins)
    program = folder / "attcr"
    source = Path(attcr.__file__).parents[1]
    program.write_text(f'#!/bin/sh\nPYTHONPATH={source} OMP_NUM_THREADS=1 exec {sys.executable} -m attcr "$@"\n')
    program.chmod(0o755)
    for made in ("home", "out"):
        (folder / made).mkdir(mode=0o700)
    return folder


@pytest.fixture(scope="module")
def told(desk: Path) -> dict[str, Any]:
    """What a session of QGIS told of each case."""
    asked = {"profile": desk / "profile", "attcr": desk / "attcr", "scene": desk / "scene.tif", "scl": desk / "scl.tif"}
    asked_file = desk / "asked.json"
    asked_file.write_text(json.dumps({**asked, "folder": desk / "out", "cases": CASES}, default=str))
    session = [PYTHON, str(Path(__file__).with_name("qgis_session.py")), str(asked_file)]
    done = subprocess.run(session, env=_environment(desk / "home"), capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.partition("told:\n")[2])
    return answer


@pytest.fixture(scope="module")
def by_hand(desk: Path) -> dict[str, bytes]:
    """The files that the command line makes of the same scene."""
    folder = desk / "by_hand"
    folder.mkdir()
    options = ["--sensor", "s2-l2a", "--mask", f"scl={desk / 'scl.tif'}"]
    command = [desk / "attcr", "restore", desk / "scene.tif", folder / "clear.tif", *options]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    """Every file but what QGIS writes beside a raster when it counts its values."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.endswith(".aux.xml")}


def test_the_zip_installs_into_an_empty_profile_and_says_how_to_get_attcr(told: dict[str, Any]) -> None:
    installed = told["installed"]
    assert installed["loaded"]
    assert sorted(installed["algorithms"]) == [
        f"attcr:{name}" for name in ("fillfromdates", "removeclouds", "setup", "whichweights")
    ]
    can, why = installed["without"]
    assert not can
    assert "pip install 'attcr[scenes]'" in why
    assert not installed["elsewhere"][0]
    assert installed["with"] == [True, ""]


def test_the_result_is_that_of_the_command_line_to_the_byte(
    told: dict[str, Any], by_hand: dict[str, bytes], desk: Path
) -> None:
    assert set(by_hand) >= {"clear.tif", "clear_quality.tif", "clear_preview.png", "clear.json"}
    assert files(desk / "out" / "layers") == by_hand
    assert told["layers"]["done"]["OUTPUT"] == str(desk / "out" / "layers" / "clear.tif")


def test_the_layers_come_as_a_group_drawn_alike_with_a_legend(told: dict[str, Any]) -> None:
    layers = told["layers"]
    assert layers["group"] == ["Clouds removed from Moravia", ["Quality", "After", "Before"]]
    assert layers["left outside"] == ["Moravia"]  # the user's own layer stays where it was
    assert layers["bands"]["After"] == layers["bands"]["Before"]
    assert layers["bands"]["After"][:3] == [3, 2, 1]
    colours = ["#{:02x}{:02x}{:02x}".format(*QUALITY_COLOURS[value]) for value in range(len(QUALITY_NAMES))]
    assert layers["legend"] == [[at, *pair] for at, pair in enumerate(zip(colours, QUALITY_NAMES, strict=True))]


def test_progress_runs_to_the_end(told: dict[str, Any]) -> None:
    percent = told["layers"]["percent"]
    assert percent == sorted(percent)
    assert percent[-1] == 100
    assert any("reconstructed under thin cloud" in line for line in told["layers"]["lines"])


def test_a_cancelled_run_leaves_nothing(told: dict[str, Any]) -> None:
    assert told["cancelled"]["result"] == {}
    assert told["cancelled"]["left"] == []
    assert told["cancelled"]["took"] < 15


def test_what_cannot_be_done_is_refused_in_words(told: dict[str, Any]) -> None:
    nothing, mask, same, mine, misfit = told["refused"]["told"]
    assert "Choose a cloudy image" in nothing
    assert "takes no layer" in mask
    assert "is an input" in same
    assert "of no earlier result" in mine
    assert "weights that fit this scene: s2-thin" in misfit
    assert told["refused"]["left"] == ["mine.tif"]


def test_the_weights_that_fit_are_told(told: dict[str, Any]) -> None:
    assert told["weights"]["weights"] == "s2-thin"
    assert "removes thin cloud from blue (B02)" in told["weights"]["report"]


def test_every_parameter_reaches_attcr(told: dict[str, Any], desk: Path) -> None:
    scene, scl, target = desk / "scene.tif", desk / "scl.tif", desk / "out" / "options.tif"
    assert told["options"]["command"] == (
        f"/bin/false restore {scene} {target} --weights hf://me/mine --mask scl={scl} --reference {scl} "
        f"--reference {scene} --sensor s2-l2a --bands 3,2,1 --unseen fill --dilate 12"
    )
    assert told["options"]["told"] == "/bin/false ended with code 1 and said: nothing"


def test_layers_are_told_by_the_file_or_product_behind_them(told: dict[str, Any]) -> None:
    *addresses, refused = told["addresses"]["told"]
    products = ["/data/S2A.SAFE/MTD_MSIL2A.xml", "/data/S2A.zip", "C:/data/MTD_MSIL1C.xml"]
    assert addresses == ["/data/scene.tif", *products]
    assert "comes from 'wms', not from a raster file" in refused


def test_a_model_runs_from_its_file(told: dict[str, Any], by_hand: dict[str, bytes], desk: Path) -> None:
    model = told["model"]
    assert model["ok"], model["lines"]
    assert model["result"]["CHILD_INPUTS"]["clear"]["WEIGHTS"] == "s2-thin"  # from the step before
    assert files(desk / "out" / "model") == by_hand
    assert model["loads"] == []  # what nobody asked to see is not loaded


def test_a_batch_runs_row_by_row(told: dict[str, Any], by_hand: dict[str, bytes], desk: Path) -> None:
    made = files(desk / "out" / "batch")
    for name in ("one", "two"):
        assert made[f"{name}.tif"] == by_hand["clear.tif"]
        assert made[f"{name}_quality.tif"] == by_hand["clear_quality.tif"]
    assert told["batch"]["groups"] == 2


def test_qgis_process_runs_the_algorithm(told: dict[str, Any], by_hand: dict[str, bytes], desk: Path) -> None:
    """By the plugin loader of QGIS itself, in the profile that is the user's default."""
    home = desk / "process"
    profile = home / ".local" / "share" / "QGIS" / "QGIS3" / "profiles" / "default"
    shutil.copytree(desk / "profile" / "python", profile / "python")
    (profile / "QGIS").mkdir()
    (profile / "QGIS" / "QGIS3.ini").write_text(
        f"[PythonPlugins]\nattcr_clouds=true\n\n[Processing]\nConfiguration\\ATTCR_ENVIRONMENT={desk / 'attcr'}\n"
    )
    target = home / "clear.tif"
    options = [f"INPUT={desk / 'scene.tif'}", "SENSOR=s2-l2a", "MASK=scl", f"MASK_LAYER={desk / 'scl.tif'}"]
    command = [PROCESS, "run", "attcr:removeclouds", "--", *options, f"OUTPUT={target}"]
    home.chmod(0o700)
    done = subprocess.run(command, env=_environment(home), capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert target.read_bytes() == by_hand["clear.tif"]


def test_the_desk_was_left_clean(told: dict[str, Any], desk: Path) -> None:
    assert not [path for path in [*desk.iterdir(), *(desk / "out").rglob("*")] if path.name.startswith(".attcr")]
