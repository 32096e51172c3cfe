"""How commands speak, to people and to programs."""

import json
import logging
import sys
import warnings
from types import SimpleNamespace

import pytest
import typer

from attcr.cli import voice as spoken
from attcr.cli.voice import Voice, as_flags, duration, quiet_rasterio, speaking
from attcr.errors import AttcrWarning, ConfigError, SceneError


def events(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("text", "flags", "settings"),
    [
        ("name it with `sensor` (a, b).", "name it with --sensor (a, b).", "name it with --set sensor=... (a, b)."),
        ("say `sensor=rgb8`.", "say --sensor rgb8.", "say --set sensor=rgb8."),
        ("give `mask=scl=FILE`", "give --mask scl=FILE", "give --set mask=scl=FILE"),
        ("say so with `vrt=any`.", "say so with --vrt.", "say so with --set vrt=any."),
        ("replace it with `overwrite`.", "replace it with --overwrite.", "replace it with --set overwrite=...."),
        ("give `references`", "give --reference", "give --set references=..."),
        ("see `reference_mask=none`", "see --reference-mask none", "see --set reference_mask=none"),
        ("more with `reference_days`", "more with --reference-days", "more with --set reference_days=..."),
        ("see `confidence=true`", "see --confidence", "see --set confidence=true"),
        ("are for `engine=ray`", "are for --engine ray", "are for --engine ray"),
        *((text, text, text) for text in ["the folder `mine`, `pip install x`"]),
    ],
)
def test_the_options_that_the_library_names_become_flags(text: str, flags: str, settings: str) -> None:
    assert as_flags(text) == flags
    assert as_flags(text, fleet=True) == settings


def test_each_event_is_a_line_of_json_with_the_same_names(capsys: pytest.CaptureFixture[str]) -> None:
    with speaking(Voice("restore", progress="json")) as voice:
        voice.note("weights: rgb-thin")
        with voice.showing() as show:
            show("restore", 0, 2)
            show("restore", 1, 2, 0.065)
            show("restore", 2, 2, 0.131)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("said with `sensor=picture`", AttcrWarning, stacklevel=1)
        voice.result({"target": "out.tif"}, ["out.tif"])
    out, err = capsys.readouterr()
    told = events(err)
    assert [event["event"] for event in told] == ["start", "note", "progress", "progress", "warning", "result"]
    assert all(isinstance(event["seconds"], float) and isinstance(event["message"], str) for event in told)
    assert (told[0]["command"], told[1]["message"]) == ("restore", "weights: rgb-thin")
    last = told[3]
    assert (last["stage"], last["done"], last["total"], last["megapixels"]) == ("restore", 2, 2, 0.131)
    assert told[4]["message"] == "said with --sensor picture"
    assert told[5]["result"] == {"target": "out.tif"}
    assert out == "out.tif\n"


def test_an_error_is_an_event_too_and_the_exit_code_stays(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, speaking(Voice("restore", progress="json")):
        raise SceneError("in.tif has\nno bands: name `bands`.")
    assert ended.value.exit_code == 2
    last = events(capsys.readouterr().err)[-1]
    assert (last["event"], last["error"], last["exit_code"]) == ("error", "SceneError", 2)
    assert last["message"] == "in.tif has no bands: name --bands."
    with pytest.raises(SceneError), speaking(Voice("restore")):
        raise SceneError("for main to say")
    assert capsys.readouterr().err == ""


def test_ctrl_c_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, speaking(Voice("restore", if_stopped="Go on with --resume.")):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "attcr: stopped. Go on with --resume.\n"


def test_json_is_alone_on_stdout_and_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with speaking(Voice("evaluate", as_json=True)) as voice:
        voice.say("for people")
        voice.result({"pairs": 3}, ["3 pairs"])
    assert json.loads(capsys.readouterr().out) == {"pairs": 3}
    with speaking(Voice("evaluate", quiet=True)) as voice:
        voice.note("weights: x")
        with voice.showing() as show:
            show("evaluate", 1, 2)
        voice.result({"pairs": 3}, ["3 pairs"])
        voice.warn("this is said")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "attcr: this is said\n")


def test_verbose_tells_the_log_and_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with speaking(Voice("restore", verbose=1)):
            logging.getLogger("attcr.restore").info("512 x 512 pixels")
            raise SceneError("it ends")

    with pytest.raises(SceneError):
        work()
    err = capsys.readouterr().err
    assert "attcr.restore: 512 x 512 pixels" in err
    assert "Traceback" in err
    with speaking(Voice("restore")):
        logging.getLogger("attcr.restore").info("not asked for")
    assert capsys.readouterr().err == ""


def test_without_a_terminal_a_line_comes_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(spoken.time, "monotonic", lambda: now)
    with Voice("restore").showing() as show:
        for second in range(601):
            now = float(second)
            show("restore", second, 600, second * 0.5)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "restoring (tiles): 10 of 600, 0.50 MP/s, about 10 min left"
    assert 8 <= len(lines) <= 14
    now = 0.0
    with Voice("restore").showing() as show:
        for done, at in ((0, 0.0), (0, 50.0), (1, 100.0)):
            now = at
            show("restore", done, 1)
    assert capsys.readouterr().err == ""


def test_progress_events_are_no_flood(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(spoken.time, "monotonic", lambda: now)
    with Voice("restore", progress="json").showing() as show:
        for tile in range(1001):
            now = tile / 100
            show("restore", tile, 1000)
    told = events(capsys.readouterr().err)
    assert len(told) <= 42
    assert (told[0]["done"], told[-1]["done"]) == (0, 1000)


def test_a_way_to_show_progress_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="'xml'; expected auto, json or none"):
        Voice("restore", progress="xml")


def test_a_time_is_told_in_its_unit() -> None:
    assert [duration(seconds) for seconds in (3.21, 119, 600, 9000)] == ["3.2 s", "119.0 s", "10 min", "2.5 h"]


def test_bytes_that_rasterio_cannot_decode_are_not_told_and_all_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: said.append(error))
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    quiet_rasterio()
    error, other = UnicodeDecodeError("utf-8", b"\xd3", 0, 1, "invalid"), ValueError("other")
    unraisable = SimpleNamespace(object="rasterio._env.log_error"), SimpleNamespace(object="another.function")
    sys.excepthook(UnicodeDecodeError, error, None)
    sys.excepthook(ValueError, other, None)
    for one in unraisable:
        sys.unraisablehook(one)  # type: ignore[arg-type]
    assert said == [other, unraisable[1]]
