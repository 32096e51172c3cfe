"""How a server is set up, and what is refused before it starts."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from attcr.bands.sensors import SENSORS
from attcr.cli import app
from attcr.errors import ConfigError
from attcr.restore.options import RestoreOptions, restore_options
from attcr.serve.models import LINK, REFERENCE, UPLOAD, inputs, options_taken, schema_of
from attcr.serve.settings import Limits, ServeSettings, digest_of, read_keys, read_limits


def test_without_keys_only_this_machine_is_served() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        assert ServeSettings("store", host=host).keys is None
    for host in ("0.0.0.0", "::", "192.168.1.4", "127.0.0.1.evil.org"):
        with pytest.raises(ConfigError, match="there are no API keys"):
            ServeSettings("store", host=host)
    assert ServeSettings("store", host="0.0.0.0", keys={digest_of("k" * 16): "ada"}).host == "0.0.0.0"


def test_a_bucket_is_no_store() -> None:
    with pytest.raises(ConfigError, match="no folder on this machine"):
        ServeSettings("s3://bucket/x")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"engine": "dask"}, "`engine` is 'dask'; expected local or ray"),
        ({"workers": 0}, "`workers` is 0 and must be at least 1"),
        ({"threads": 0}, "`threads` is 0 and must be at least 1"),
        ({"port": 65_536}, "`port` is 65536 and must be less than 65536"),
        ({"address": "auto"}, "address is for `engine=ray`"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ServeSettings("store", **given)
    assert ServeSettings("store", port=65_535, workers=1, threads=1).engine == "local"


def test_the_command_takes_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").write_text("ada ada-has-a-long-key\n")
    heard: list[ServeSettings] = []
    monkeypatch.setattr("attcr.serve.app.serve", lambda settings, announce: heard.append(settings))
    options = {
        "host": "0.0.0.0", "port": "0", "weights": "rgb-thin", "allow-host": "a.example", "engine": "ray",
        "workers": "2", "threads": "3", "device": "cuda", "address": "auto", "keys": str(tmp_path / "keys"),
        "limit": "jobs=5",
    }  # fmt: skip
    told = CliRunner().invoke(app, ["serve", "store", *(f"--{name}={value}" for name, value in options.items())])
    assert told.exit_code == 0, told.output
    assert heard == [
        ServeSettings(
            "store", "0.0.0.0", 0, ("rgb-thin",), ("a.example",), "ray", 2, 3, "cuda", "auto",
            read_keys(tmp_path / "keys"), Limits(jobs=5),
        )
    ]  # fmt: skip


def test_keys_are_read_and_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text(f"# users\nada ada-has-a-long-key\nada {'x' * 16}\n\nbob sha256:{digest_of('bobs')}\n")
    keys = read_keys(path)
    assert keys == {digest_of("ada-has-a-long-key"): "ada", digest_of("x" * 16): "ada", digest_of("bobs"): "bob"}
    assert "long-key" not in repr(ServeSettings("store", keys=keys))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no keys"),
        ("ada short", "at least 16"),
        ("ada " + "k" * 16 + "\nbob " + "k" * 16, "has the key of ada"),
        ("../x " + "k" * 16, "name"),
        ("anonymous " + "k" * 16, "name"),
        ("ada sha256:abc", "64 hexadecimal"),
    ],
)
def test_a_file_of_keys_that_cannot_be_is_refused(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "keys.txt").write_text(text)
    with pytest.raises(ConfigError, match=word):
        read_keys(tmp_path / "keys.txt")


def test_limits_are_read_by_name() -> None:
    assert read_limits(["jobs=5", "pixels=1e6", "keep_days=0.5"]) == Limits(jobs=5, pixels=10**6, keep_days=0.5)
    for text in ("other=1", "jobs=many", "jobs=0", "pixels=-1", "jobs"):
        with pytest.raises(ConfigError):
            read_limits([text])


def test_the_process_takes_every_option_but_those_of_the_operator() -> None:
    told = inputs(("rgb-thin",))
    options = restore_options()
    assert set(options) - set(told) == {"device", "vrt", "reference_days", "aoi"}
    assert set(told) - set(options) == {"scene", "weights"}
    for name, option in options_taken().items():
        assert told[name]["description"] == option.help
        assert told[name]["maxOccurs"] == (16 if name == "references" else 1)
        if not option.names and option.default is not None:
            assert told[name]["schema"]["default"] == getattr(RestoreOptions().on_any_machine(), name)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("dtype", {"type": "string", "enum": ["float32", "bfloat16", "float16"], "default": "float32"}),
        ("confidence", {"type": "boolean", "default": False}),
        ("nodata", {"type": "number"}),
        ("tile", {"type": "integer", "default": 256, "minimum": 16, "maximum": 2048}),
        ("batch", {"type": "integer", "default": 1, "minimum": 1, "maximum": 32}),
        ("sensor", {"type": "string", "enum": list(SENSORS)}),
        ("unseen", {"type": "string", "enum": ["keep", "fill", "nodata"], "default": "keep"}),
        ("radar", {"oneOf": [UPLOAD, LINK]}),
        ("references", {"type": "array", "items": REFERENCE, "maxItems": 16, "default": []}),
        (
            "bands",
            {
                "oneOf": [
                    {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 64},
                    {"type": "string"},
                ]
            },
        ),
    ],
)
def test_an_option_has_its_json_schema(name: str, schema: dict[str, object]) -> None:
    assert schema_of(restore_options()[name]) == schema


def test_a_mask_is_one_by_name_or_a_file_of_a_kind() -> None:
    named, upload, link = schema_of(restore_options()["reference_mask"])["oneOf"]
    assert named == {"type": "string", "enum": ["scl", "qa_pixel", "csmask", "s2cloudless", "auto", "none"]}
    for file in (upload, link):
        assert file["properties"]["kind"]["enum"] == ["scl", "qa_pixel"]
