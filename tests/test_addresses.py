import time
from pathlib import Path

import pytest

from attcr.addresses import error_text, hide_secrets, local_file, redact, redact_all

LEAKS = [
    "https://host/a.tif?X-Amz-Credential=hunter2&X-Amz-Signature=hunter2",
    "https://acct.blob.core.windows.net/c/a.tif?sv=2020&se=2030&sig=hunter2 cannot be read",
    "s3://user:hunter2@bucket/key",
    "/vsicurl/https://user:hunter2@host/a.tif?token=hunter2",
    "/vsicurl?header.Authorization=hunter2&url=https%3A%2F%2Fhost",
    "scl=https://user:hunter2@host/scl.tif#hunter2",
    "Authorization: AWS4-HMAC-SHA256 Credential=hunter2/2024, Signature=hunter2",
    "Bearer hunter2hunter2",
    "<Error><AWSAccessKeyId>hunter2</AWSAccessKeyId><SignatureProvided>hunter2</SignatureProvided></Error>",
    '{"aws_secret_access_key": "hunter2"}',
    "aws_session_token = hunter2",
    "x-amz-security-token: hunter2",
    "password=hunter2;",
]


@pytest.mark.parametrize("text", LEAKS)
def test_no_secret_is_left(text: str) -> None:
    assert "hunter2" not in hide_secrets(text)


def test_keys_are_known_by_their_form_and_the_environment_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    assert hide_secrets("key AKIAIOSFODNN7EXAMPLE and wJalrXUtnFEMI") == "key *** and ***"


@pytest.mark.parametrize("text", ["/data/a?b#c.tif cannot be read", "The tile is 7 pixels", "sentinel-2 L2A N0400"])
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide_secrets(text) == text


@pytest.mark.parametrize("text", LEAKS[:6])
def test_an_address_is_redacted(text: str) -> None:
    assert "hunter2" not in redact(text.split(" ")[0])


def test_an_errors_class_is_that_of_its_first_cause() -> None:
    error = ValueError("https://u:hunter2@h/x?sig=hunter2\ncannot be read")
    error.__cause__ = TimeoutError("slow")
    assert error_text(error) == ("TimeoutError", "https://h/x cannot be read")


@pytest.mark.parametrize("text", ["a" * 10**6, "a-" * 10**6, "x-amz-" * 10**5, "token " * 10**5, "://" * 10**5])
def test_a_long_text_takes_no_longer_for_its_length_squared(text: str) -> None:
    began = time.process_time()
    hide_secrets(text)
    redact_all(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", ["--token=hunter2", "my-own-token: hunter2", "mytoken=hunter2", "a@b:hunter2@host"])
def test_tokens_and_users_are_hidden_in_any_word(text: str) -> None:
    assert "hunter2" not in hide_secrets(text)


def test_the_file_behind_an_address_is_found_where_it_is_on_this_machine(tmp_path: Path) -> None:
    archive = tmp_path / "z.zip"
    archive.write_bytes(b"")
    assert local_file("a/b.tif") == Path("a/b.tif")
    assert local_file(f"file://{archive}") == archive
    assert local_file(f"/vsizip/{archive}/inner/a.tif") == archive
    assert local_file(f"/vsizip//vsigzip/{archive}/a.tif") == archive
    for elsewhere in ("https://h/a.tif", "/vsicurl/https://h/a.tif", "s3://b/a.tif", "/vsis3/b/a.tif", "a\0b"):
        assert local_file(elsewhere) is None
