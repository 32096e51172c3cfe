"""One scene at a time: how often it is tried, what is published, and what its item tells."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from attcr.errors import WeightsError
from attcr.fleet.fetch import Fetched
from attcr.fleet.manifest import Work, read_manifest
from attcr.fleet.run import FleetOptions, make_job
from attcr.fleet.store import Store
from attcr.fleet.worker import Job, SceneWorker, block_key, item_key, scene_folder
from attcr.restore.options import RestoreOptions
from fake_fleets import Publisher, host, item, make_scenes, told
from fake_scenes import UTM, make, noise

OPTIONS = RestoreOptions(tile=64, overlap=8, mask="none")


@pytest.fixture
def job(tmp_path: Path, weights: Path) -> Job:
    return make_job(str(tmp_path / "out"), str(weights), OPTIONS, FleetOptions(attempts=2))


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    return make(tmp_path / "plain.tif", noise("uint8", (3, 40, 50)), photometric="RGB", **UTM)


def test_of_two_workers_at_one_scene_the_second_finds_it_done(tmp_path: Path, weights: Path) -> None:
    scenes = make_scenes(tmp_path / "in", 1)
    job = make_job(str(tmp_path / "out"), str(weights), OPTIONS, FleetOptions())
    (work,) = (work.keyed("r") for work in read_manifest(str(scenes)))
    with SceneWorker(job) as first, SceneWorker(job) as second:
        publish = second.publish

        def late(work: Work, path: Path) -> bool:
            assert first.run(work).status == "done"
            return publish(work, path)

        second.publish = late  # type: ignore[method-assign]
        assert second.run(work).status == "found"


def test_a_worker_whose_weights_do_not_load_leaves_nothing(tmp_path: Path, job: Job) -> None:
    with pytest.raises(WeightsError):
        SceneWorker(replace(job, weights=b"broken"))
    assert list((tmp_path / "out").iterdir()) == []


def test_the_places_of_items_and_blocks() -> None:
    assert item_key("a.b") == "items/a.b.json"
    assert block_key(Work("a", (), key="k", block=9, blocks=3), 1) == "blocks/k-1-3.zip"


def test_an_outcome_tells_tries_pixels_and_reason(job: Job, scene: Path) -> None:
    good = Work("good", (str(scene),)).keyed("r")
    with SceneWorker(job) as worker:
        done, found = worker.run(good), worker.run(good)
        lost = worker.run(Work("lost", ("https://u:hunter2@127.0.0.1:9/a.tif?sig=hunter2",)).keyed("r"))
        refused = worker.run(replace(good, id="refused", problem="No href in https://u:hunter2@h/x?sig=hunter2"))
    assert (done.status, done.attempts, done.megapixels, done.error) == ("done", 1, 40 * 50 / 1e6, "")
    assert done.seconds > 0
    assert (found.status, found.attempts, found.megapixels, found.work) == ("found", 0, 0.0, good.key)
    assert (lost.status, lost.attempts, lost.error) == ("quarantined", 2, "URLError")
    assert (refused.status, refused.attempts, refused.error) == ("quarantined", 1, "ManifestError")
    assert refused.message == "No href in https://h/x"
    assert "hunter2" not in lost.message


def test_a_vrt_is_never_taken_even_if_the_options_would(tmp_path: Path, weights: Path, scene: Path) -> None:
    bands = "".join(
        f'<VRTRasterBand dataType="Byte" band="{i}"><SimpleSource><SourceFilename>{scene}</SourceFilename>'
        f"<SourceBand>{i}</SourceBand></SimpleSource></VRTRasterBand>"
        for i in (1, 2, 3)
    )
    named = tmp_path / "named.tif"
    named.write_text(f'<VRTDataset rasterXSize="50" rasterYSize="40">{bands}</VRTDataset>')
    job = make_job(str(tmp_path / "out"), str(weights), replace(OPTIONS, vrt="any"), FleetOptions(attempts=1))
    with SceneWorker(job) as worker:
        outcome = worker.run(Work("named", (str(named),)).keyed("r"))
    assert (outcome.status, outcome.error) == ("quarantined", "SceneError")
    assert "VRT" in outcome.message


def test_what_was_fetched_is_used_once_and_after_a_failure_fetched_again(job: Job, scene: Path) -> None:
    with host({"/a.tif": told(scene.read_bytes())}) as (address, asked), SceneWorker(job) as worker:
        work = Work("a", (f"{address}/a.tif",))
        ahead = worker.run(work.keyed("first"), Fetched({work.hrefs[0]: scene.read_bytes()}))
        assert (ahead.status, ahead.attempts, len(asked)) == ("done", 1, 0)
        stale = worker.run(work.keyed("second"), Fetched({work.hrefs[0]: b"no raster"}))
        assert (stale.status, stale.attempts, len(asked)) == ("done", 2, 1)


def test_a_fetch_that_fails_is_tried_again(job: Job, scene: Path) -> None:
    failing = (503, {"Content-Length": "0"}, b"")
    answers = {"/a.tif": [failing, *told(scene.read_bytes())], "/b.tif": [failing]}
    with host(answers) as (address, asked), SceneWorker(job) as worker:
        first = worker.run(Work("a", (f"{address}/a.tif",)).keyed("r"), None)
        second = worker.run(Work("b", (f"{address}/b.tif",)).keyed("r"), None)
    assert (first.status, first.attempts) == ("done", 2)
    assert (second.status, second.attempts, second.error) == ("quarantined", 2, "HTTPError")
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("name", "remote", "date", "source"),
    [
        ("plain.tif", True, "1970-01-01T00:00:00Z", "unknown"),
        ("plain.tif", False, None, "file"),
        ("s_20210506.tif", True, "2021-05-06T00:00:00Z", "name"),
    ],
)
def test_the_date_of_a_fetched_file_is_not_that_of_its_copy(
    job: Job, scene: Path, tmp_path: Path, name: str, remote: bool, date: str | None, source: str
) -> None:
    path = scene.rename(scene.with_name(name))
    with host({f"/{name}": told(path.read_bytes())}) as (address, _), SceneWorker(job) as worker:
        worker.run(Work("a", (f"{address}/{name}" if remote else str(path),)).keyed("r"))
    properties = item(tmp_path / "out", "a")["properties"]
    assert properties["attcr:datetime_from"] == source
    assert date is None or properties["datetime"] == date


def test_an_item_tells_of_the_scene_and_not_of_the_folder_it_was_restored_in(
    job: Job, scene: Path, tmp_path: Path
) -> None:
    size = scene.stat().st_size
    with host({"/a.tif?sig=hunter2": told(scene.read_bytes())}) as (address, _), SceneWorker(job) as worker:
        remote = address.replace("://", "://user:hunter2@")
        far = Work("far", (f"{remote}/a.tif?sig=hunter2",), version="e1").keyed("r")
        near = Work("near", (str(scene),)).keyed("r")
        assert (worker.run(far).status, worker.run(near).status) == ("done", "done")
    told_far, told_near = item(tmp_path / "out", "far"), item(tmp_path / "out", "near")
    assert told_far["links"] == [{"rel": "derived_from", "href": f"{address}/a.tif"}]
    properties = told_far["properties"]
    assert properties["attcr:input"] == [{"name": f"{address}/a.tif", "bytes": size}]
    assert (properties["attcr:input_version"], properties["attcr:work"]) == ("e1", far.key)
    assert properties["attcr:weights_sha256"] == job.weights_sha256
    assert "attcr:fingerprint" not in properties
    assert {asset["href"] for asset in told_far["assets"].values()} == {
        f"../scenes/far/{far.key[:16]}/far{ending}" for ending in (".tif", "_quality.tif", "_preview.png")
    }
    assert told_near["properties"]["attcr:input"] == [{"name": str(scene), "bytes": size}]
    assert "attcr:input_version" not in told_near["properties"]


def test_of_other_work_under_one_id_the_item_goes_before_the_pixels(job: Job, tmp_path: Path) -> None:
    """A worker that dies between the two leaves no item, never an old item over new pixels."""
    first, second = (Work("a", ("a.tif",)).keyed(recipe) for recipe in ("first", "second"))
    with Publisher(job) as worker:
        assert worker.run(first).status == "done"
        there: list[bool] = []
        put = worker.store.put

        def watched(path: Path, key: str) -> None:
            there.append(worker.store.exists(item_key("a")))
            put(path, key)

        worker.store.put = watched  # type: ignore[method-assign]
        made = worker.scratch.folder / "made"
        made.mkdir(exist_ok=True)
        (made / "a.tif").write_text("pixels")
        assert worker.run(second).status == "done"
        assert there == [False]
    assert (tmp_path / "out" / scene_folder(second) / "a.tif").read_text() == "pixels"
    assert item(tmp_path / "out", "a")["properties"]["attcr:work"] == second.key


class Drawing(Publisher):
    """A worker whose raster is the key of its work."""

    def restore(self, work: Work, fetched: Fetched | None) -> float | None:
        made = self.scratch.folder / "made"
        made.mkdir(exist_ok=True)
        (made / f"{work.id}.tif").write_text(work.key)
        asset = {"href": f"../{scene_folder(work)}/{work.id}.tif"}
        (made / "item.json").write_text(
            json.dumps({"properties": {"attcr:work": work.key}, "assets": {"restored": asset}})
        )
        return 2.0 if self.publish(work, made / "item.json") else None


@pytest.mark.parametrize("dies", [True, False])
def test_an_item_never_stands_over_the_pixels_of_other_work(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """Two drivers with other options at one scene: the second comes between the pixels and the item of the first."""
    first, second = (Work("a", ("a.tif",)).keyed(recipe) for recipe in ("first", "second"))
    create = Store.create

    def late(store: Store, path: Path, key: str) -> bool:
        def killed(store: Store, path: Path, key: str) -> bool:
            raise KeyboardInterrupt

        monkeypatch.setattr(Store, "create", killed if dies else create)
        with suppress(KeyboardInterrupt), Drawing(job) as other:
            other.run(second)
        monkeypatch.setattr(Store, "create", create)
        return create(store, path, key)

    monkeypatch.setattr(Store, "create", late)
    with Drawing(job) as worker:
        worker.run(first)
        told_of = item(tmp_path / "out", "a")
        pixels = (tmp_path / "out" / "items" / told_of["assets"]["restored"]["href"]).resolve()  # type: ignore[index]
        assert pixels.read_text() == told_of["properties"]["attcr:work"]  # type: ignore[index]
        assert worker.is_done(first)
        assert pixels.read_text() == first.key
