"""How a server is set up, and what is refused before it starts."""

from dataclasses import fields
from pathlib import Path

import pytest

from attcr.errors import ConfigError
from attcr.restore.options import RestoreOptions
from attcr.serve.describe import FILES, SERVER_DECIDES, docstrings, inputs, schema_of
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


def test_the_process_takes_every_option_of_the_command() -> None:
    """An option that is added to RestoreOptions is an input the same day, with its own sentence and default."""
    told = inputs(("rgb-thin",))
    names = {field.name for field in fields(RestoreOptions)} - set(SERVER_DECIDES)
    assert set(told) == {"scene", "weights", *names}
    for field in fields(RestoreOptions):
        if field.name in names:
            assert told[field.name]["description"] == docstrings()[field.name]
        if field.name in names - {*FILES, "references"} and field.default is not None:
            assert told[field.name]["schema"]["default"] == getattr(RestoreOptions().on_any_machine(), field.name)
    assert schema_of("dtype") == {"type": "string", "enum": ["float32", "bfloat16", "float16"], "default": "float32"}
    assert schema_of("confidence") == {"type": "boolean", "default": False}
    assert schema_of("nodata") == {"type": "number"}
    assert schema_of("tile") == {"type": "integer", "default": 256, "minimum": 16, "maximum": 2048}
