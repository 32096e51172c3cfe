"""A real S3 server on this machine: scenes come from it and results go to it."""

from pathlib import Path

import obstore
import pytest
from obstore.store import from_url

from attcr.errors import FleetError
from attcr.fleet.ledger import Outcome
from attcr.fleet.manifest import read_manifest
from attcr.fleet.plan import list_prefix, write_plan
from attcr.fleet.run import Tally, read_status, run_fleet
from attcr.fleet.store import Scratch, Store
from attcr.restore.options import RestoreOptions
from buckets import ask_s3
from fake_fleets import bucket_contents, completed, ledger, make_scenes, run

OPTIONS = RestoreOptions(tile=64, overlap=8, mask="none")


@pytest.fixture(scope="module")
def scenes(s3: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("scenes") / "in"
    make_scenes(folder, 3)
    bucket = from_url(s3)
    for path in folder.iterdir():
        obstore.put(bucket, f"in/{path.name}", path)
    return f"{s3}/in"


def test_scenes_of_a_bucket_are_restored_into_a_bucket(s3: str, scenes: str, weights: Path) -> None:
    out = f"{s3}/out"
    tally = run_fleet(f"{scenes}/*.tif", out, str(weights), options=OPTIONS)
    assert (tally.done, tally.complete) == (3, True), ledger(out)
    before = bucket_contents(out)
    assert {key.partition("/")[0] for key in before} == {"items", "scenes", "run.json"}
    again = run_fleet(f"{scenes}/*.tif", out, str(weights), options=OPTIONS)
    assert (again.skipped, again.done) == (3, 0)
    assert bucket_contents(out) == before
    assert set(completed(out).values()) == {1}
    assert read_status(out).left == 0


def test_an_object_that_changes_is_other_work(s3: str, scenes: str, weights: Path, tmp_path: Path) -> None:
    out = f"{s3}/changed"
    run_fleet(f"{scenes}/*.tif", out, str(weights), options=OPTIONS)
    make_scenes(tmp_path / "in", 5)
    obstore.put(from_url(s3), "in/s000_20200101.tif", tmp_path / "in" / "s004_20200101.tif")
    tally = run_fleet(f"{scenes}/*.tif", out, str(weights), options=OPTIONS)
    assert (tally.skipped, tally.done) == (2, 1)


def test_a_key_is_created_once(s3: str) -> None:
    store = Store(f"{s3}/keys")
    with Scratch(store.scratch) as scratch:
        for expected, text in ((True, "first"), (False, "second")):
            made = scratch.folder / "made"
            made.write_text(text)
            assert store.create(made, "items/a.json") is expected
    assert store.read("items/a.json") == b"first"
    assert (store.exists("items/a.json"), store.exists("items/b.json")) == (True, False)
    assert list(store.names("items")) == ["a.json"]
    store.delete("items/a.json")
    store.delete("items/a.json")
    assert store.read("items/a.json") is None


def test_a_prefix_becomes_a_manifest_and_a_manifest_may_lie_in_a_bucket(s3: str, scenes: str, tmp_path: Path) -> None:
    plan = write_plan(list_prefix(scenes), tmp_path / "m.parquet")
    assert (plan.scenes, plan.estimated, plan.refused) == (3, 3, 0)
    assert plan.megapixels == pytest.approx(3 * 64 * 64 / 1e6)
    obstore.put(from_url(s3), "m.parquet", tmp_path / "m.parquet")
    works = list(read_manifest(f"{s3}/m.parquet"))
    assert [work.id for work in works] == [f"s00{i}_20200101" for i in range(3)]
    assert all(work.version for work in works)
    (tmp_path / "list.txt").write_text("".join(f"{work.hrefs[0]}\n" for work in works))
    obstore.put(from_url(s3), "list.txt", tmp_path / "list.txt")
    assert [work.hrefs for work in read_manifest(f"{s3}/list.txt")] == [work.hrefs for work in works]


def test_a_bucket_that_refuses_us_is_told_without_keys(s3: str) -> None:
    key, secret = "AKIAWRONGWRONGWRONG1", "wrong+secret/of+forty+characters+in+all1"
    for arguments in (("status", f"{s3}/out"), ("retry", f"{s3}/out", "--class", "all")):
        done = run(*arguments, AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert key not in done.stderr + done.stdout
        assert secret not in done.stderr + done.stdout


def test_a_bucket_that_is_not_there_is_told_in_a_line(s3: str, scenes: str, weights: Path, tmp_path: Path) -> None:
    done = run("run", f"{scenes}/*.tif", "s3://nowhere/out", "--weights", weights, TMPDIR=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "attcr: s3://nowhere/out: there is no such bucket. Make it, or give another output."
    )
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_bucket_that_is_removed_meanwhile_ends_the_run_with_an_error_of_ours(
    s3: str, scenes: str, weights: Path
) -> None:
    ask_s3("PUT", "short-lived")
    bucket = from_url("s3://short-lived")

    def remove(outcome: Outcome, tally: Tally) -> None:
        for key in bucket_contents("s3://short-lived"):
            obstore.delete(bucket, key)
        ask_s3("DELETE", "short-lived")

    with pytest.raises(FleetError, match="there is no such bucket"):
        run_fleet(f"{scenes}/*.tif", "s3://short-lived", str(weights), options=OPTIONS, on_outcome=remove)
