"""OGC API - Processes 1.0, requirement by requirement: each test names those that it checks."""

import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from attcr.serve.models import OUTPUTS, PROCESS
from fake_services import HOME, ask, begin, ended, pixels, plain_tiff, problem, send, tiff

CONF = "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf"
EXCEPTIONS = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0"
REL = "http://www.opengis.net/def/rel/ogc/1.0"
NOBODY = "f" * 32
CHECKED: set[str] = set()


def requirement(*names: str) -> Any:
    """Name the requirements that a test checks."""
    CHECKED.update(names)
    return lambda test: test


def relations(body: dict[str, Any]) -> dict[str, str]:
    return {link["rel"]: link["href"] for link in body["links"]}


def operation(server: TestClient, path: str, method: str = "get") -> dict[str, Any]:
    found: dict[str, Any] = server.get("/api").json()["paths"][path][method]
    return found


def parameter(server: TestClient, path: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in operation(server, path)["parameters"] if one["name"] == name]
    assert found["in"] == "query"
    assert found["required"] is False
    schema: dict[str, Any] = found["schema"]
    return schema


def is_status(body: dict[str, Any], status: str | None = None) -> None:
    """A statusInfo.yaml: jobID, status and type are required, and for job-list processID."""
    assert {"jobID", "status", "type", "processID"} <= set(body)
    assert body["type"] == "process"
    assert body["status"] in ("accepted", "running", "successful", "failed", "dismissed")
    assert status is None or body["status"] == status
    assert 0 <= body["progress"] <= 100
    for name in {"created", "started", "finished", "updated"} & set(body):
        assert body[name].endswith("Z")


@requirement("/req/core/landingpage-op", "/req/core/landingpage-success", "/req/core/http")
def test_the_landing_page_links_to_the_api_conformance_and_processes(server: TestClient) -> None:
    answer = server.get("/")
    assert answer.status_code == 200
    found = relations(answer.json())
    assert found["service-desc"] == f"{HOME}/api"
    assert found[f"{REL}/conformance"] == f"{HOME}/conformance"
    assert found[f"{REL}/processes"] == f"{HOME}/processes"
    assert found[f"{REL}/job-list"] == f"{HOME}/jobs"
    assert all(server.get(href).status_code == 200 for href in found.values())


@requirement(
    "/req/core/api-definition-op", "/req/core/api-definition-success", "/req/oas30/oas-definition-1",
    "/req/oas30/oas-definition-2", "/req/oas30/oas-impl",
)  # fmt: skip
def test_the_api_is_described_as_openapi_3_0(server: TestClient) -> None:
    answer = server.get("/api")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/vnd.oai.openapi+json;version=3.0")
    described = answer.json()
    assert described["openapi"].startswith("3.0.")
    assert {"/", "/conformance", "/processes", "/processes/{process}", "/jobs", "/jobs/{job}"} <= set(
        described["paths"]
    )
    assert '"null"' not in answer.text, "OpenAPI 3.0 has no type null"


@requirement("/req/oas30/completeness", "/req/oas30/exceptions-codes")
def test_every_operation_tells_its_answers_and_refusals(server: TestClient) -> None:
    for path, operations in server.get("/api").json()["paths"].items():
        for told in operations.values():
            assert any(code.startswith("2") for code in told["responses"]), path
            for code, answer in told["responses"].items():
                if code.startswith(("4", "5")):
                    assert list(answer["content"]) == ["application/problem+json"], path


@requirement("/req/core/conformance-op", "/req/core/conformance-success")
def test_conformance_names_the_classes(server: TestClient) -> None:
    answer = server.get("/conformance")
    assert answer.status_code == 200
    names = ("core", "json", "job-list", "dismiss", "ogc-process-description", "oas30")
    assert set(answer.json()["conformsTo"]) == {f"{CONF}/{name}" for name in names}


@requirement(
    "/req/core/process-list", "/req/core/process-list-success", "/req/core/pl-limit-definition",
    "/req/core/pl-limit-response", "/req/core/pl-links",
)  # fmt: skip
def test_the_process_list_has_summaries_links_and_a_limit(server: TestClient) -> None:
    answer = server.get("/processes", params={"limit": 1})
    assert answer.status_code == 200
    (summary,) = answer.json()["processes"]
    assert summary["id"] == PROCESS
    assert summary["version"]
    assert "inputs" not in summary
    assert relations(answer.json())["self"] == f"{HOME}/processes"
    schema = parameter(server, "/processes", "limit")
    assert (schema["type"], schema["minimum"], schema["maximum"], schema["default"]) == ("integer", 1, 10000, 10)
    assert problem(server.get("/processes", params={"limit": 0}))["status"] == 400


@requirement(
    "/req/core/process-description", "/req/core/process-description-success",
    "/req/ogc-process-description/json-encoding", "/req/ogc-process-description/inputs-def",
    "/req/ogc-process-description/input-def", "/req/ogc-process-description/outputs-def",
    "/req/ogc-process-description/output-def", "/req/ogc-process-description/input-mixed-type",
    "/req/ogc-process-description/output-mixed-type", "/req/ogc-process-description/input-binary",
)  # fmt: skip
def test_the_description_has_a_schema_for_every_input_and_output(server: TestClient) -> None:
    body = server.get(f"/processes/{PROCESS}").json()
    assert body["id"] == PROCESS
    assert body["jobControlOptions"] == ["async-execute", "dismiss"]
    assert body["inputs"]["scene"]["minOccurs"] == 1
    assert all({"title", "schema"} <= set(one) for one in (*body["inputs"].values(), *body["outputs"].values()))
    assert all(one["minOccurs"] == 0 for name, one in body["inputs"].items() if name != "scene")
    assert "oneOf" in body["inputs"]["scene"]["schema"], "inputs of mixed types are told by oneOf"
    for name in ("restored", "quality", "preview"):
        schema = body["outputs"][name]["schema"]
        assert (schema["type"], schema["contentEncoding"]) == ("string", "binary")
        assert schema["contentMediaType"] == OUTPUTS[name][1]


@requirement("/req/core/process-exception/no-such-process")
def test_an_unknown_process_is_no_such_process(server: TestClient) -> None:
    for answer in (server.get("/processes/other"), server.post("/processes/other/execution", json={"inputs": {}})):
        assert answer.status_code == 404
        assert problem(answer)["type"] == f"{EXCEPTIONS}/no-such-process"


@requirement(
    "/req/core/process-execute-op", "/req/core/process-execute-request", "/req/core/process-execute-inputs",
    "/req/core/process-execute-async", "/req/core/process-execute-auto-execution-mode",
    "/req/core/process-execute-default-execution-mode",
)  # fmt: skip
def test_execution_is_asynchronous_and_gives_a_job(server: TestClient) -> None:
    scene = {"upload": send(server, tiff())}
    for headers in ({}, {"Prefer": "respond-async"}, {"Prefer": "respond-sync"}):
        answer = ask(server, {"scene": scene}, headers=headers)
        assert answer.status_code == 201
        is_status(answer.json())
        assert answer.json()["status"] in ("accepted", "running"), "it may have begun, it has not ended"
        assert answer.headers["location"] == f"{HOME}/jobs/{answer.json()['jobID']}"
        applied = answer.headers.get("preference-applied")
        assert applied == ("respond-async" if headers == {"Prefer": "respond-async"} else None)


@requirement("/req/core/process-execute-input-array")
def test_inputs_of_several_files_are_an_array(server: TestClient) -> None:
    files = [{"upload": send(server, plain_tiff(8, 8), f"X_B0{number}.tif")} for number in (2, 3, 4)]
    job = ask(server, {"scene": files}).json()["jobID"]
    assert ended(server, job)["status"] == "successful"


@requirement("/req/core/process-execute-input-inline-object", "/req/core/process-execute-input-mixed-type")
def test_an_object_is_taken_as_a_qualified_value(server: TestClient) -> None:
    item = {"type": "Feature", "stac_version": "1.0.0", "id": "x", "assets": {}}
    for scene in (item, {"value": item, "mediaType": "application/geo+json"}):
        answer = ask(server, {"scene": scene})
        assert answer.status_code == 201
        assert ended(server, answer.json()["jobID"])["status"] == "failed", "it has no assets"


@requirement("/req/core/process-execute-input-inline-binary", "/req/core/process-execute-input-inline-bbox")
def test_binary_and_boxes_are_no_inputs_of_this_process(server: TestClient) -> None:
    """No input is a box, and rasters come by reference: /uploads takes the bytes."""
    schemas = str(server.get(f"/processes/{PROCESS}").json()["inputs"])
    assert "ogc-bbox" not in schemas
    assert "contentEncoding" not in schemas
    assert ask(server, {"scene": "SUkqAAgAAAA="}).status_code == 400


@requirement("/req/core/process-execute-input-validation")
@pytest.mark.parametrize(
    ("inputs", "word"),
    [
        ({}, "scene"),
        ({"scene": {"upload": NOBODY}, "tile": "large"}, "tile"),
        ({"scene": {"upload": NOBODY}, "mask": "/etc/passwd"}, "mask"),
        ({"scene": {"upload": NOBODY}, "dilate": -1}, "dilate"),
        ({"scene": {"upload": NOBODY}, "unseen": "maybe"}, "unseen"),
        ({"scene": {"upload": NOBODY}, "colour": "red"}, "colour"),
        ({"scene": {"upload": NOBODY}, "weights": "none"}, "references"),
        ({"scene": {"upload": NOBODY}, "weights": "other"}, "other"),
    ],
    ids=str,
)
def test_inputs_are_validated_before_a_job_is_made(server: TestClient, inputs: dict[str, Any], word: str) -> None:
    answer = ask(server, inputs)
    assert answer.status_code == 400
    assert problem(answer)["type"] == "InvalidParameterValue"
    assert word in problem(answer)["detail"]


@requirement("/req/core/process-execute-default-outputs", "/req/core/job-results-param-outputs-omit")
def test_without_outputs_all_are_given(server: TestClient, done: str) -> None:
    assert set(server.get(f"/jobs/{done}/results").json()) == {"restored", "quality", "preview", "item"}


@requirement("/req/core/job", "/req/core/job-success")
def test_the_status_of_a_job(server: TestClient, done: str) -> None:
    answer = server.get(f"/jobs/{done}")
    assert answer.status_code == 200
    is_status(answer.json(), "successful")
    assert relations(answer.json())[f"{REL}/results"] == f"{HOME}/jobs/{done}/results"
    assert {"created", "started", "finished", "updated"} <= set(answer.json())


@requirement("/req/core/job-exception-no-such-job", "/req/core/job-results-exception/no-such-job")
@pytest.mark.parametrize("path", ["", "/results", "/results/restored", "/info", "/events", "/point?lon=0&lat=0"])
def test_an_unknown_job_is_no_such_job(server: TestClient, path: str) -> None:
    answer = server.get(f"/jobs/{NOBODY}{path}")
    assert answer.status_code == 404
    assert problem(answer)["type"] == f"{EXCEPTIONS}/no-such-job"


@requirement("/req/core/job-results-exception/results-not-ready")
def test_results_of_an_unfinished_job_are_not_ready(server: TestClient) -> None:
    job = begin(server, tiff(), "slow.tif")
    for path in ("results", "results/restored"):
        answer = server.get(f"/jobs/{job}/{path}")
        assert answer.status_code == 404
        assert problem(answer)["type"] == f"{EXCEPTIONS}/result-not-ready"
    assert server.delete(f"/jobs/{job}").status_code == 200


@requirement("/req/core/job-results-failed")
def test_results_of_a_failed_job_say_why(server: TestClient) -> None:
    job = begin(server, tiff(), "fail.tif")
    assert ended(server, job)["status"] == "failed"
    answer = server.get(f"/jobs/{job}/results")
    assert answer.status_code == 422
    told = problem(answer)
    assert told["type"] == "InvalidParameterValue"
    assert told["detail"] == "fail.tif is not to be restored.", "the places of files are nobody's business"


@requirement(
    "/req/core/job-results", "/req/core/job-results-async-many", "/req/core/job-results-async-document",
    "/req/core/job-results-param-outputs", "/req/core/job-results-param-outputs-response",
)  # fmt: skip
def test_results_are_a_document_of_references(server: TestClient, done: str) -> None:
    answer = server.get(f"/jobs/{done}/results", params={"outputs": "restored,quality"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"restored", "quality"}
    for link in answer.json().values():
        found = server.get(link["href"])
        assert found.status_code == 200
        assert found.headers["content-type"] == link["type"]
    assert parameter(server, "/jobs/{job}/results", "outputs")["type"] == "array"
    assert server.get(f"/jobs/{done}/results", params={"outputs": "other"}).status_code == 400


@requirement(
    "/req/core/job-result", "/req/core/job-results-async-one", "/req/core/job-results-async-raw-value-one",
)  # fmt: skip
def test_one_result_is_its_bytes(server: TestClient, done: str) -> None:
    whole = server.get(f"/jobs/{done}/results/restored").content
    assert (pixels(whole) == pixels(tiff())).all()
    part = server.get(f"/jobs/{done}/results/restored", headers={"Range": "bytes=4-9"})
    assert (part.status_code, part.content) == (206, whole[4:10])
    scene = {"upload": send(server, tiff())}
    asked = {"inputs": {"scene": scene}, "outputs": {"quality": {}}, "response": "raw"}
    job = server.post("/processes/restore/execution", json=asked).json()["jobID"]
    assert ended(server, job)["status"] == "successful"
    assert (pixels(server.get(f"/jobs/{job}/results").content) == 1).all()


@requirement("/req/json/definition")
def test_json_is_the_form_of_every_page(server: TestClient, done: str) -> None:
    for path in ("/", "/conformance", "/processes", f"/processes/{PROCESS}", f"/jobs/{done}", "/jobs"):
        assert server.get(path).headers["content-type"] == "application/json"


@requirement(
    "/req/job-list/job-list-op", "/req/job-list/job-list-success", "/req/job-list/links",
    "/req/job-list/limit-definition", "/req/job-list/limit-response", "/req/job-list/processID-mandatory",
)  # fmt: skip
def test_the_job_list_is_limited_and_goes_on(server: TestClient, done: str) -> None:
    begin(server, tiff())
    answer = server.get("/jobs", params={"limit": 1})
    assert answer.status_code == 200
    (newest,) = answer.json()["jobs"]
    is_status(newest)
    links = relations(answer.json())
    assert links["self"] == f"{HOME}/jobs?limit=1"
    (second,) = server.get(links["next"]).json()["jobs"]
    assert second["jobID"] != newest["jobID"]
    assert second["created"] <= newest["created"]
    schema = parameter(server, "/jobs", "limit")
    assert (schema["minimum"], schema["maximum"], schema["default"]) == (1, 10000, 10)


@requirement(
    "/req/job-list/type-definition", "/req/job-list/type-response", "/req/job-list/processID-definition",
    "/req/job-list/processid-response", "/req/job-list/status-definition", "/req/job-list/status-response",
)  # fmt: skip
def test_the_job_list_is_filtered_by_type_process_and_status(server: TestClient, done: str) -> None:
    job = begin(server, tiff(), "fail.tif")
    ended(server, job)

    def listed(**asked: Any) -> set[str]:
        return {one["jobID"] for one in server.get("/jobs", params={"limit": 1000, **asked}).json()["jobs"]}

    assert {done, job} <= listed() == listed(type="process") == listed(processID=["other", PROCESS])
    assert listed(type="other") == listed(processID="other") == set()
    assert job in listed(status="failed")
    assert done not in listed(status="failed")
    assert {done, job} <= listed(status=["failed", "successful"]) == listed(status="failed,successful")
    for name in ("type", "processID", "status"):
        schema = parameter(server, "/jobs", name)
        assert (schema["type"], schema["items"]["type"]) == ("array", "string")


@requirement("/req/job-list/datetime-definition", "/req/job-list/datetime-response")
def test_the_job_list_is_filtered_by_when_jobs_were_made(server: TestClient, done: str) -> None:
    made = server.get(f"/jobs/{done}").json()["created"]

    def has(text: str) -> bool:
        answer = server.get("/jobs", params={"limit": 1000, "datetime": text})
        assert answer.status_code == 200, answer.text
        return done in {one["jobID"] for one in answer.json()["jobs"]}

    assert has(made)
    assert has("2020-01-01T00:00:00Z/..")
    assert has("../2999-01-01T00:00:00Z")
    assert has("/2999-01-01T00:00:00Z")
    assert has("2020-01-01T00:00:00Z/2999-01-01T00:00:00+02:00")
    assert not has("2020-01-01T00:00:00Z/2021-01-01T00:00:00Z")
    assert not has("2999-01-01T00:00:00Z/")
    for text in ("yesterday", "..", "2020-13-01T00:00:00Z", "2020-01-01T00:00:00Z/x"):
        assert server.get("/jobs", params={"datetime": text}).status_code == 400


@requirement("/req/job-list/duration-definition", "/req/job-list/duration-response")
def test_the_job_list_is_filtered_by_how_long_jobs_took(server: TestClient, done: str) -> None:
    def has(**asked: Any) -> bool:
        answer = server.get("/jobs", params={"limit": 1000, **asked})
        return done in {one["jobID"] for one in answer.json()["jobs"]}

    assert has(minDuration=0, maxDuration=1000)
    assert not has(minDuration=1000)
    assert has(maxDuration=1000)
    assert server.get("/jobs", params={"minDuration": "long"}).status_code == 400


@requirement("/req/dismiss/job-dismiss-op", "/req/dismiss/job-dismiss-success")
@pytest.mark.parametrize("name", ["slow.tif", "scene.tif", "fail.tif"])
def test_a_job_is_dismissed(server: TestClient, name: str) -> None:
    job = begin(server, tiff(), name)
    if name == "slow.tif":
        until = time.monotonic() + 30
        while server.get(f"/jobs/{job}").json()["status"] != "running" and time.monotonic() < until:
            time.sleep(0.05)
    else:
        ended(server, job)
    answer = server.delete(f"/jobs/{job}")
    assert answer.status_code == 200
    is_status(answer.json(), "dismissed")
    assert server.get(f"/jobs/{job}").json()["status"] == "dismissed"
    assert server.get(f"/jobs/{job}/results").status_code == 410
    assert problem(server.delete(f"/jobs/{NOBODY}"))["type"] == f"{EXCEPTIONS}/no-such-job"
    after = begin(server, tiff())
    assert ended(server, after)["status"] == "successful", "whatever computed it is there again"


def test_every_requirement_of_the_classes_is_checked() -> None:
    """Those of core, json, job-list, dismiss, ogc-process-description and oas30; the ones left out cannot apply."""
    listed = set((Path(__file__).parent / "ogc_requirements.txt").read_text().split())
    cannot = {name for name in listed if "-sync-" in name or name.endswith(("-sync", "test-process", "oas30/security"))}
    assert listed - cannot <= CHECKED, "the process is asynchronous; CITE's own process and keys are told elsewhere"
