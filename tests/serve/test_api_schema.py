"""What the API's description promises, asked at random: no failure, and no answer that it does not tell."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from siege import TOLD

from fake_services import QUICK, answers, begin, command, ended, send, tiff


def fails_only_as_told(context: Any, response: Any, case: Any) -> bool | None:
    """Not ready and no room are answers that the description has."""
    return None if response.status_code in TOLD else not_a_server_error(context, response, case)


CHECKS = [fails_only_as_told, status_code_conformance, content_type_conformance, response_schema_conformance]


def fill(case: Any, job: str, upload: str) -> None:
    """Let a case be of what is there."""
    if "job" in case.path_parameters and case.method != "DELETE":
        case.path_parameters["job"] = job
    if "process" in case.path_parameters:
        case.path_parameters["process"] = "restore"
        if isinstance(case.body, dict) and isinstance(case.body.get("inputs"), dict):
            case.body["inputs"]["scene"] = {"upload": upload}


def ask_all(url: str, each: int, job: str, upload: str, headers: dict[str, str] | None = None) -> int:
    """Ask every operation so many times; give how many cases there were."""
    total = 0
    for found in schemathesis.openapi.from_url(f"{url}/api").get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events"):
            continue  # a stream

        @given(case=operation.as_strategy(), there=st.booleans())
        @settings(
            max_examples=each, deadline=None, database=None, derandomize=True,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def ask(case: Any, there: bool) -> None:
            nonlocal total
            total += 1
            if there:
                fill(case, job, upload)
            case.validate_response(case.call(headers=headers), checks=CHECKS)

        ask()
    return total


def asked_of_one(store: Path, each: int) -> int:
    """Ask a server without keys."""
    with command(store, "--limit", "jobs=1000000", worker=QUICK) as (_, url), answers(url, 120) as client:
        job, upload = begin(client, tiff(8)), send(client, tiff(8))
        assert ended(client, job)["status"] == "successful"
        return ask_all(url, each, job, upload)


def test_no_case_fails_and_no_answer_is_untold(tmp_path: Path) -> None:
    assert asked_of_one(tmp_path / "store", 7) >= 80


@pytest.mark.slow
def test_2000_cases(tmp_path: Path) -> None:
    cases = asked_of_one(tmp_path / "store", 190)
    print(f"{cases} cases")
    assert cases >= 2000
