"""What the API's description promises, asked at random: no failure, and no answer that it does not tell."""

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS
from starlette.testclient import TestClient

from fake_services import send, tiff

CASES = int(os.environ.get("ATTCR_API_CASES", "0")) or 5
"""Of each operation; `ATTCR_API_CASES=125` makes 2,000 of them."""


def checks() -> list[object]:
    names = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
    return [CHECKS.get_one(name) for name in names]


def test_no_case_fails_and_no_answer_is_untold(server: TestClient, done: str) -> None:
    upload = send(server, tiff(8))
    schema = schemathesis.openapi.from_asgi("/api", server.app)
    total = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith("/events"):
            continue  # a stream

        @given(case=operation.as_strategy(), known=st.booleans())
        @settings(
            max_examples=CASES, deadline=None, database=None, derandomize=True,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def ask(case: schemathesis.Case, known: bool) -> None:
            nonlocal total
            total += 1
            if known and "job" in case.path_parameters and case.method != "DELETE":
                case.path_parameters["job"] = done
            if known and "process" in case.path_parameters:
                case.path_parameters["process"] = "restore"
                if isinstance(case.body, dict) and isinstance(case.body.get("inputs"), dict):
                    case.body["inputs"]["scene"] = {"upload": upload}
            answer = case.call(session=server, base_url=str(server.base_url))
            case.validate_response(answer, checks=checks())

        ask()
    print(f"{total} cases")
    assert total >= 16 * CASES * 0.5


@pytest.mark.slow
def test_2000_cases(server: TestClient, done: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "CASES", 135)
    test_no_case_fails_and_no_answer_is_untold(server, done)
