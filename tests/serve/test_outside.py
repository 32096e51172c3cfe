"""What comes from outside: text that is none, files beside scenes, addresses, and jobs that go while they are sent."""

import json
import socket
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import FileResponse
from starlette.testclient import TestClient

from attcr.serve import worker
from attcr.serve.limits import Hosts, fetch_file
from attcr.serve.settings import Limits
from attcr.serve.worker import JobRunner, WorkerSettings
from fake_fleets import host, told
from fake_scenes import UTM, make, noise
from fake_services import ask, begin, ended, problem, quick_server, tiff

HALF = "\ud800"
ITEM = {"type": "Feature", "stac_version": "1.0.0", "id": "x", "assets": {}}


@pytest.mark.parametrize(
    "inputs",
    [
        {"scene": {**ITEM, "id": HALF}}, {"scene": {**ITEM, "id": {"a": [HALF]}}}, {"scene": ITEM, "bands": HALF},
        {"scene": {"href": f"http://allowed.example/{HALF}.tif"}}, {"scene": ITEM, HALF: 1},
        {"scene": {**ITEM, "assets": {HALF: {"href": "http://allowed.example/x.tif"}}}},
    ],
    ids=ascii,
)  # fmt: skip
def test_half_a_character_is_no_text(server: TestClient, inputs: dict[str, Any]) -> None:
    answer = server.post("/processes/restore/execution", content=json.dumps({"inputs": inputs}).encode())
    assert answer.status_code == 400
    assert problem(answer)["detail"] == "The request is no JSON: its text is not UTF-8."
    assert server.get("/jobs").status_code == 200


def test_an_item_that_was_fetched_holds_no_half_characters(tmp_path: Path) -> None:
    item = json.dumps({**ITEM, "assets": {"a": {"href": f"{HALF}.tif", "bands": [{"name": "red"}]}}}).encode()
    with (
        host({"/x.json": told(item)}) as (url, _),
        quick_server(tmp_path / "store", allow_hosts=(f"private:{url.removeprefix('http://')}",)) as client,
    ):
        job = ask(client, {"scene": {"href": f"{url}/x.json"}}).json()["jobID"]
        assert "its text is not UTF-8" in ended(client, job)["message"]
        assert client.get("/jobs").status_code == 200


def test_a_store_with_half_a_character_in_a_title_is_served(tmp_path: Path) -> None:
    with quick_server(tmp_path / "store") as client:
        job = begin(client, tiff(8))
        ended(client, job)
    path = tmp_path / "store" / "requests" / f"{job}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "title": HALF}))
    with quick_server(tmp_path / "store") as client:
        assert [one["title"] for one in client.get("/jobs").json()["jobs"]] == ["\\ud800"]


@pytest.mark.parametrize("digits", [308, 309, 400, 5000])
@pytest.mark.parametrize("name", ["minDuration", "maxDuration"])
def test_durations_of_many_digits_are_refused(server: TestClient, name: str, digits: int) -> None:
    answer = server.get("/jobs", params={name: "9" * digits})
    assert answer.status_code == (200 if digits == 308 else 400)


def test_an_address_with_letters_beyond_ascii_is_asked_as_servers_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with host({"/%C3%A9t%C3%A9%20.tif?a=%C3%A9": told(b"there")}) as (url, _):
        port = int(url.rpartition(":")[2])
        names: list[str] = []

        def look(name: str, *_: Any, **__: Any) -> list[Any]:
            names.append(name)
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

        monkeypatch.setattr(socket, "getaddrinfo", look)
        file = BytesIO()
        address = f"http://bücher.example:{port}/été%20.tif?a=é"
        fetch_file(address, file, Hosts((f"private:bücher.example:{port}",)), 1000)
    assert (file.getvalue(), names[0]) == (b"there", "xn--bcher-kva.example")


def worker_settings(store: Path, **limits: Any) -> WorkerSettings:
    return WorkerSettings(str(store), "local", 1, 1, "cpu", None, Limits(**limits))


def restored(root: Path, scene: str, beside: dict[str, Any], **limits: Any) -> str:
    """What a job says in the end whose files are there."""
    told = {"scene": [scene], "files": {"references": [], **beside}, "options": {}}
    (root / "inputs" / "job" / "ready.json").write_text(json.dumps(told))
    (root / "items").mkdir(exist_ok=True)
    outcome, _ = JobRunner(worker_settings(root, **limits)).run("job")
    assert (outcome.status, outcome.error) == ("quarantined", "SceneError")
    return outcome.message


@pytest.mark.parametrize("slot", ["", "mask", "reference_mask", "references", "radar"])
@pytest.mark.parametrize(("shape", "word"), [((1, 70, 70), "pixels"), ((5, 8, 8), "bands")])
def test_a_file_that_is_too_large_is_refused_before_it_is_read_whatever_it_is_for(
    tmp_path: Path, slot: str, shape: tuple[int, int, int], word: str
) -> None:
    folder = tmp_path / "inputs" / "job"
    folder.mkdir(parents=True)
    make(folder / "x.tif", noise("uint16", (3, 8, 8)), **UTM)
    make(folder / "large.tif", noise("uint16", shape), **UTM)
    beside: dict[str, Any] = {slot: ["large.tif"] if slot == "references" else ["", "large.tif"]} if slot else {}
    message = restored(tmp_path, "x.tif" if slot else "large.tif", beside, pixels=4000, bands=4)
    assert message.startswith("large.tif has ")
    assert word in message


@pytest.mark.parametrize("short", [True, False])
def test_what_looked_short_is_given_back_where_it_has_many_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    folder = tmp_path / "inputs" / "job"
    folder.mkdir(parents=True)
    (folder / "ready.json").write_text(
        json.dumps({"scene": ["x.tif"], "files": {"references": ["y.tif"]}, "options": {}})
    )
    for name in ("x.tif", "y.tif"):
        make(folder / name, noise("uint16", (3, 8, 8)), **UTM)
    runner = JobRunner(replace(worker_settings(tmp_path), short=short))
    for most, long in ((2 * 3 * 64, False), (2 * 3 * 64 - 1, True)):
        monkeypatch.setattr(worker, "SHORT_VALUES", most)
        outcome, told = runner.run("job")
        given_back = (outcome.status, told) == ("found", {"long": True})
        assert given_back == (short and long), "with the reference's; what is taken fails later, for want of a request"


@pytest.mark.parametrize("path", ["info", "tiles/input/0/0/0.png", "point?lon=16.4&lat=49.6"])
def test_nothing_is_shown_of_a_scene_beyond_the_limits(tmp_path: Path, path: str) -> None:
    with quick_server(tmp_path / "store", limits=Limits(pixels=1000)) as client:
        small, large = begin(client, tiff(31)), begin(client, tiff(32))
        for job in (small, large):
            ended(client, job)
        assert client.get(f"/jobs/{small}/{path}").status_code in (200, 404)
        answer = client.get(f"/jobs/{large}/{path}")
    assert answer.status_code == 422
    assert "scene.tif has 32 x 32 pixels and this server takes 1,000" in problem(answer)["detail"]


def test_a_result_is_sent_whole_while_its_job_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is removed after the answer was begun, before the file is read."""
    with quick_server(tmp_path / "store") as client:
        job = begin(client, tiff(32))
        ended(client, job)
        whole = client.get(f"/jobs/{job}/results/restored").content
        serving = client.app.state.supervisor  # type: ignore[attr-defined]
        send = FileResponse._handle_simple

        async def removed_first(self: FileResponse, *arguments: Any) -> None:
            serving.store.remove_files(serving.queue.get("anonymous", job))  # type: ignore[attr-defined]
            await send(self, *arguments)

        monkeypatch.setattr(FileResponse, "_handle_simple", removed_first)
        assert client.get(f"/jobs/{job}/results/restored").content == whole
        for path in ("results", "results/restored", "results/item"):
            assert client.get(f"/jobs/{job}/{path}").status_code == 410
        assert client.get(f"/jobs/{job}/info").status_code in (404, 410)


def test_a_download_bears_the_name_of_the_scene(server: TestClient, done: str) -> None:
    said = {
        name: server.get(f"/jobs/{done}/results/{name}").headers["content-disposition"].partition("filename=")[2]
        for name in ("restored", "quality", "preview", "item")
    }
    assert said == {
        "restored": '"done_restored.tif"',
        "quality": '"done_quality.tif"',
        "preview": '"done_preview.png"',
        "item": '"done_item.json"',
    }
