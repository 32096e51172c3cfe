"""The QGIS plugin's half that needs no QGIS: finding attcr, running it, taking its result over, and what it names."""

import importlib.util
import json
import os
import re
import stat
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from attcr.bands.sensors import SENSORS
from attcr.restore.walk import ORIGINAL, QUALITY_COLOURS, QUALITY_NAMES
from attcr.weights import restoring

PLUGIN = Path(__file__).parents[2] / "plugins" / "qgis" / "attcr_clouds"


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


engine = _load("attcr_clouds_engine", PLUGIN / "engine.py")
qgis_zip = _load("qgis_zip", PLUGIN.parents[2] / "tools" / "qgis_zip.py")


class Heard:
    """A listener that keeps what it hears, and may say stop at a word."""

    def __init__(self, stop_at: str = "never") -> None:
        self.percent: list[float] = []
        self.warnings: list[str] = []
        self._stop_at, self._stop = stop_at, False

    def listener(self) -> Any:
        return engine.Listener(self._progress, self._note, self.warnings.append, lambda: self._stop)

    def _progress(self, percent: float, text: str) -> None:
        self.percent.append(percent)
        self._note(text)

    def _note(self, text: str) -> None:
        self._stop = self._stop or self._stop_at in text


def fake(folder: Path, body: str) -> str:
    """A program that stands for attcr: `scene` and `target` are its arguments, `tell` writes an event."""
    program = folder / "attcr"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, signal, sys, time\n"
        "from pathlib import Path\n"
        "scene, target = sys.argv[-2], Path(sys.argv[-1])\n"
        "def tell(event, **told): print(json.dumps({'event': event, **told}), file=sys.stderr, flush=True)\n"
        "def make(*endings):\n"
        "    for ending in endings: target.with_name(target.stem + ending).write_text('new' + ending)\n"
        "    item = {'properties': {'attcr:fingerprint': ''}, 'assets': {'restored': {'href': './' + target.name}}}\n"
        "    target.with_suffix('.json').write_text(json.dumps(item))\n" + body
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


GOOD = """
tell("start", message="")
tell("progress", stage="mask", done=1, total=2, message="finding clouds")
tell("progress", stage="restore", done=1, total=2, message="restoring")
tell("warning", message=f"{target} has a cloud left")
make(".tif", "_quality.tif", "_preview.png")
tell("result", result={"weights": "s2-thin", "pixels": {"original": 3, "no data": 1}}, message="done")
"""


def restore(program: str, target: Path, heard: Heard | None = None, **more: Any) -> Any:
    return engine.restore(
        program, "in.tif", target, more.get("options", []), more.get("inputs", []), (heard or Heard()).listener()
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def test_attcr_is_found_on_the_path_and_in_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("env/bin", "path"):
        (tmp_path / place).mkdir(parents=True)
        fake(tmp_path / place, "")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert engine.find_attcr() == str(tmp_path / "path" / "attcr")
    assert engine.find_attcr(str(tmp_path / "env")) == str(tmp_path / "env" / "bin" / "attcr")
    assert engine.find_attcr(str(tmp_path / "env" / "bin" / "attcr")) == str(tmp_path / "env" / "bin" / "attcr")


def test_without_attcr_the_user_reads_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(engine.EngineError, match=r"pip install 'attcr\[scenes\]'"):
        engine.find_attcr()
    with pytest.raises(engine.EngineError, match="There is no attcr in /nowhere"):
        engine.find_attcr("/nowhere")


def test_what_qgis_sets_for_its_own_libraries_does_not_reach_attcr(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONHOME", "PYTHONPATH", "PROJ_LIB", "GDAL_DATA"):
        monkeypatch.setenv(name, "/qgis")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    kept = engine.environment()
    assert "/qgis" not in kept.values()
    assert kept["OMP_NUM_THREADS"] == "1"


def test_a_result_is_taken_over_with_all_its_files(tmp_path: Path, out: Path) -> None:
    heard = Heard()
    result = restore(fake(tmp_path, GOOD), out / "clear.tif", heard)
    assert names(out) == ["clear.json", "clear.tif", "clear_preview.png", "clear_quality.tif"]
    assert (out / "clear_quality.tif").read_text() == "new_quality.tif"
    assert result["weights"] == "s2-thin"
    assert heard.percent == [2.5, 50.0]
    assert heard.warnings == [f"{out / 'clear.tif'} has a cloud left"]  # not the folder where it is made
    assert engine.told_pixels(result) == ["  75.00%  original", "  25.00%  no data"]


def test_an_earlier_result_is_replaced_whole(tmp_path: Path, out: Path) -> None:
    restore(fake(tmp_path, GOOD), out / "clear.tif")
    for stale in ("clear_spread.tif", "clear.tif.aux.xml", "clear.tif"):
        (out / stale).write_text("old")
    restore(fake(tmp_path, GOOD), out / "clear.tif")
    assert names(out) == ["clear.json", "clear.tif", "clear_preview.png", "clear_quality.tif"]
    assert (out / "clear.tif").read_text() == "new.tif"


@pytest.mark.parametrize("taken", ["clear.tif", "clear.json", "clear_quality.tif"])
def test_what_is_no_earlier_result_is_not_replaced(tmp_path: Path, out: Path, taken: str) -> None:
    (out / taken).write_text("mine")
    with pytest.raises(engine.EngineError, match=f"{re.escape(taken)} exists and is of no earlier result"):
        restore(fake(tmp_path, GOOD), out / "clear.tif")
    assert {path.name: path.read_text() for path in out.iterdir()} == {taken: "mine"}


def test_an_input_is_never_replaced(tmp_path: Path, out: Path) -> None:
    program = fake(tmp_path, GOOD)
    restore(program, out / "clear.tif")
    (tmp_path / "alias").symlink_to(out)
    with pytest.raises(engine.EngineError, match=r"clear_quality\.tif is an input"):
        restore(program, tmp_path / "alias" / "clear.tif", inputs=[str(out / "clear_quality.tif")])


def test_the_files_of_another_result_are_not_replaced(tmp_path: Path, out: Path) -> None:
    restore(fake(tmp_path, GOOD.replace('".tif", ', '".png", ')), out / "clear.png")
    with pytest.raises(engine.EngineError, match=r"is of no earlier result clear\.tif"):
        restore(fake(tmp_path, GOOD), out / "clear.tif")
    assert not (out / "clear.tif").exists()


def test_a_cancelled_run_leaves_nothing_and_an_earlier_result_as_it_was(tmp_path: Path, out: Path) -> None:
    restore(fake(tmp_path, GOOD), out / "clear.tif")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    waiting = "make('_quality.tif')\ntell('note', message='half')\ntime.sleep(60)\n"
    began = time.monotonic()
    assert restore(fake(tmp_path, waiting), out / "clear.tif", Heard(stop_at="half")) is None
    assert time.monotonic() - began < 20
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_child_that_does_not_end_when_asked_is_killed(tmp_path: Path) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntell(os.getpid())\ntime.sleep(60)\n"
    heard: list[str] = []
    began = time.monotonic()
    ended = engine.run([fake(tmp_path, deaf), "", "", "x"], heard.append, lambda: bool(heard), patience=0.5)
    assert ended.stopped
    assert time.monotonic() - began >= 0.5
    with pytest.raises(ProcessLookupError):
        os.kill(json.loads(heard[0])["event"], 0)


def test_a_refusal_is_told_in_attcrs_words_and_leaves_nothing(tmp_path: Path, out: Path) -> None:
    refusing = "tell('error', error='SceneError', exit_code=2, message=f'{target} is too long')\nsys.exit(2)\n"
    with pytest.raises(engine.EngineError, match=f"^{re.escape(str(out / 'clear.tif'))} is too long$"):
        restore(fake(tmp_path, refusing), out / "clear.tif")
    assert names(out) == []


def test_a_crash_is_told_by_the_last_lines(tmp_path: Path, out: Path) -> None:
    with pytest.raises(engine.EngineError, match=r"ended with code 1 and said: .*ZeroDivisionError"):
        restore(fake(tmp_path, "1 / 0\n"), out / "clear.tif")
    missing = "tell('error', error='ModuleNotFoundError', message=\"No module named 'rasterio'\")\nsys.exit(1)\n"
    with pytest.raises(engine.EngineError, match=r"(?s)rasterio.*pip install 'attcr\[scenes\]'"):
        restore(fake(tmp_path, missing), out / "clear.tif")


def test_options_are_split_as_a_shell_does_and_reach_attcr(tmp_path: Path, out: Path) -> None:
    assert engine.split_options("--dilate 12 --radar 'a b.tif'") == ["--dilate", "12", "--radar", "a b.tif"]
    with pytest.raises(engine.EngineError, match="cannot be read"):
        engine.split_options("'open")
    keeping = f"Path({str(tmp_path / 'said')!r}).write_text(json.dumps(sys.argv))\n" + GOOD
    restore(fake(tmp_path, keeping), out / "clear.tif", options=["--dilate", "12"])
    said = json.loads((tmp_path / "said").read_text())
    assert said[1:-2] == ["restore", "--dilate", "12", "--progress", "json", "--quiet", "--"]
    assert said[-2] == "in.tif", "a scene's name may begin with a hyphen"


def test_the_style_has_the_classes_of_the_quality_raster() -> None:
    entries = ElementTree.parse(PLUGIN / "quality.qml").findall(".//paletteEntry")
    assert [(int(one.attrib["value"]), one.attrib["label"]) for one in entries] == list(enumerate(QUALITY_NAMES))
    for one in entries:
        red, green, blue, alpha = QUALITY_COLOURS[int(one.attrib["value"])]
        assert one.attrib["color"] == f"#{red:02x}{green:02x}{blue:02x}"
        if int(one.attrib["value"]) != ORIGINAL:  # seen through, so that the map stays visible under it
            assert int(one.attrib["alpha"]) == alpha


def test_the_choices_are_those_of_attcr() -> None:
    told = (PLUGIN / "choices.json").read_text()
    assert told == qgis_zip.choices(), "write it again: python tools/qgis_zip.py attcr_clouds.zip --choices"
    choices = json.loads(told)
    assert choices["sensor"] == list(SENSORS)
    assert choices["weights"] == [*restoring(), "none"]
    assert choices["mask"] == ["scl", "qa_pixel", "csmask", "s2cloudless", "auto", "none"]
    assert choices["unseen"] == ["keep", "fill", "nodata"]


def test_the_form_takes_its_choices_from_the_file() -> None:
    named = "".join((PLUGIN / file).read_text() for file in ("scene.py", "remove_clouds.py"))
    assert set(re.findall(r'CHOICES\["(\w+)"\]', named)) == {"sensor", "weights", "mask", "unseen"}
