import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

from attcr.errors import ConfigError, ManifestError
from attcr.fleet import manifest
from attcr.fleet.manifest import Work, read_manifest
from attcr.fleet.plan import Plan, list_prefix, measure_rate, megapixels_of, search, write_plan
from attcr.fleet.run import run_fleet
from attcr.fleet.settings import options_of
from attcr.restore import restore_scene
from attcr.restore.options import RestoreOptions
from commands import attcr
from fake_catalogs import add_date, counted, item_at, scl_with, stac_api
from fake_fleets import make_scenes, stac_item
from fake_scenes import UTM, make, noise

ITEMS = 5
CUT = RestoreOptions(tile=64, overlap=16, dilate=2, feather=2)


class Api(http.server.BaseHTTPRequestHandler):
    """A STAC API with five items, two a page."""

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, asked: dict) -> None:
        here = f"http://{self.headers['Host']}"
        parts = urlsplit(self.path)
        if parts.path.rstrip("/") == "":
            conforms = ["https://api.stacspec.org/v1.0.0/core", "https://api.stacspec.org/v1.0.0/item-search"]
            links = [{"rel": "search", "href": f"{here}/search", "type": "application/geo+json", "method": "POST"}]
            links.append({"rel": "root", "href": here})
            told = {"type": "Catalog", "id": "api", "description": "-", "stac_version": "1.0.0", "links": links}
            self._send({**told, "conformsTo": conforms})
            return
        start = int(asked.get("token") or parse_qs(parts.query).get("token", ["0"])[0])
        items = [{**stac_item(f"s{i}"), "collection": "c"} for i in range(start, min(start + 2, ITEMS))]
        after = {"rel": "next", "href": f"{here}/search", "method": "POST", "body": {**asked, "token": start + 2}}
        links = [after] if start + 2 < ITEMS else []
        self._send({"type": "FeatureCollection", "features": items, "links": links})

    def _send(self, told: dict) -> None:
        data = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/geo+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_stac_search_becomes_a_manifest_without_signatures(api: str, tmp_path: Path) -> None:
    pytest.importorskip("pystac_client")
    plan = write_plan(search(api, ["c"], None, None), tmp_path / "m.parquet")
    assert (plan.scenes, plan.estimated, plan.megapixels) == (ITEMS, 0, ITEMS * 0.005)
    works = list(read_manifest(str(tmp_path / "m.parquet")))
    assert [work.id for work in works] == [f"s{i}" for i in range(ITEMS)]
    assert "secret" not in str(works)


def test_an_api_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    pytest.importorskip("pystac_client")
    with pytest.raises(ManifestError, match="cannot be searched") as caught:
        write_plan(search("http://u:hunter2@127.0.0.1:9", ["c"], None, None), tmp_path / "m.parquet")
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_becomes_a_manifest_and_band_files_one_scene(tmp_path: Path) -> None:
    make_scenes(tmp_path / "in", 2, 100)
    (tmp_path / "in" / "T33UXQ").mkdir()
    for band in ("B02", "B03", "B04"):
        make(tmp_path / "in" / "T33UXQ" / f"T33UXQ_{band}.tif", noise("uint16", (1, 50, 50)), **UTM)
    plan = write_plan(list_prefix(str(tmp_path / "in")), tmp_path / "m.parquet")
    works = list(read_manifest(str(tmp_path / "m.parquet")))
    assert [(work.id, len(work.hrefs)) for work in works] == [
        ("s000_20200101", 1),
        ("s001_20200101", 1),
        ("T33UXQ", 3),
    ]
    assert plan.megapixels == pytest.approx((2 * 100 * 100 + 50 * 50) / 1e6)
    assert plan.estimated == 3


def test_scenes_without_a_size_count_as_the_mean_of_those_that_open(tmp_path: Path) -> None:
    path = str(make(tmp_path / "a.tif", noise("uint8", (3, 40, 50)), **UTM))
    works = [Work("a", (path,)), Work("b", (str(tmp_path / "absent.tif"),)), Work("c", ("x",), megapixels=3.0)]
    plan = write_plan(iter([*works, Work("d", (path,)), Work("e", (), problem="no")]), tmp_path / "m.parquet")
    assert (plan.scenes, plan.estimated, plan.refused) == (5, 3, 1)
    assert plan.megapixels == pytest.approx(3.0 + 3 * 40 * 50 / 1e6)


def test_band_files_are_scenes_by_their_folders_below_the_prefix(tmp_path: Path) -> None:
    for folder in ("S2A_1.SAFE/IMG_DATA/R10m", "S2A_2.SAFE/IMG_DATA/R10m", "plain"):
        for band in ("B02", "B03", "B04"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            make(tmp_path / folder / f"{band}.tif", noise("uint16", (1, 9, 9)), **UTM)
    found = [(work.id, len(work.hrefs)) for work in list_prefix(str(tmp_path))]
    assert found == [("S2A_1_IMG_DATA_R10m", 3), ("S2A_2_IMG_DATA_R10m", 3), ("plain", 3)]


def test_hours_follow_from_the_rate() -> None:
    assert Plan(1000, 120_560.0, 0, 0).worker_hours(0.05) == pytest.approx(669.8, abs=0.1)


def test_a_rate_is_the_new_pixels_of_a_tile_over_its_seconds(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 10.5])
    monkeypatch.setattr("attcr.fleet.plan.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert measure_rate(weights, RestoreOptions(tile=64, overlap=8, mask="none")) == pytest.approx(56 * 56 / 1e6 / 0.5)


def test_a_size_is_told_by_the_row_or_by_a_file_of_this_machine(tmp_path: Path) -> None:
    path = str(make(tmp_path / "a.tif", noise("uint8", (3, 40, 50)), **UTM))
    assert megapixels_of(Work("a", (path,))) == 40 * 50 / 1e6
    assert megapixels_of(Work("a", (path,), megapixels=7.0)) == 7.0
    assert megapixels_of(Work("a", (str(tmp_path / "absent.tif"),))) is None
    assert megapixels_of(Work("a", (path, "https://host/b.tif"))) is None
    assert megapixels_of(Work("a", (path,), item="{}")) is None


def test_the_command_prints_megapixels_hours_and_cost(tmp_path: Path, weights: Path) -> None:
    make_scenes(tmp_path / "in", 2, 100)
    given = (tmp_path / "in", tmp_path / "m.parquet", "--rate", 0.0001, "--price", 2)
    done = attcr("fleet", "plan", *given)
    assert done.returncode == 0, done.stderr
    for text in ("2 scenes", "0.0 megapixels", "0.06 machine-hours", "cost 0.11"):
        assert text in done.stdout, done.stdout
    assert attcr("fleet", "plan", tmp_path / "nowhere", tmp_path / "m.parquet").returncode == 2


def test_planned_references_fill_a_fleets_scenes_as_named_ones_fill_one(tmp_path: Path, weights: Path) -> None:
    pytest.importorskip("pystac_client")
    cloud, other = (slice(8, 40), slice(8, 24)), (slice(8, 40), slice(40, 56))
    folder = tmp_path / "files"
    folder.mkdir()
    with counted(folder, tmp_path / "asked.txt") as (host, asked):
        items = [
            add_date(folder, host, "2020-06-01", scl_with(cloud, other)),
            add_date(folder, host, "2020-06-06", scl_with(other), (0.8, 0.05)),
            add_date(folder, host, "2020-06-11", scl_with()),
            add_date(folder, host, "2020-07-20", scl_with(), (0.7, 0.03)),
            add_date(folder, host, "2020-12-01", scl_with()),
        ]
        with stac_api(items, tmp_path) as api:
            given = ("--collection", "sentinel-2-l2a", "--datetime", "2020-06-01/2020-06-15", "--references", 2)
            done = attcr("fleet", "plan", api, tmp_path / "m.parquet", *given)
            assert done.returncode == 0, done.stderr
            works = {work.id: work for work in read_manifest(str(tmp_path / "m.parquet"))}
            found = {name: json.loads(work.options or "{}").get("references", []) for name, work in works.items()}
            here = {name: [one.rpartition("/")[2] for one in named] for name, named in found.items()}
            assert here == {
                "S2_20200601": ["S2_20200611", "S2_20200720"],
                "S2_20200606": ["S2_20200611", "S2_20200720"],  # from outside the dates that were asked for
                "S2_20200611": [],  # there is no cloud
            }
            assert all(len(asked.of(f"{day}/SCL.tif")) <= 4 for day in ("20200601", "20200606", "20200720"))
            assert not asked.of("20201201/SCL.tif")
            assert not asked.of("B02.tif")
            tally = run_fleet(str(tmp_path / "m.parquet"), str(tmp_path / "out"), str(weights), options=CUT)
            assert tally.complete
            options = replace(CUT, references=tuple(found["S2_20200601"]))
            one = restore_scene(item_at(api, "S2_20200601"), tmp_path / "one.tif", weights, options=options)
    (made,) = (tmp_path / "out" / "scenes").glob("S2_20200601/*/S2_20200601.tif")
    assert made.read_bytes() == one.target.read_bytes()
    dates = made.with_name("S2_20200601_dates.tif")
    assert one.dates is not None
    assert dates.read_bytes() == one.dates.read_bytes()
    told = json.loads((tmp_path / "out" / "items" / "S2_20200601.json").read_text())["properties"]["attcr:references"]
    assert [one["name"] for one in told] == found["S2_20200601"]


def test_a_fleet_does_not_search_and_a_changed_reference_is_other_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="let `attcr fleet plan` find"):
        options_of(Work("a", ("a.tif",)), RestoreOptions(references="auto"))
    with pytest.raises(ConfigError, match="let `attcr fleet plan` find"):
        options_of(Work("a", ("a.tif",), options='{"references": ["auto:2"]}'), RestoreOptions())
    path = tmp_path / "r.tif"
    path.write_bytes(b"1")
    work = Work("a", ("s3://bucket/a.tif",), "1", options=json.dumps({"references": [str(path)]}))
    first = work.keyed("")
    assert work.keyed("").key == first.key
    path.write_bytes(b"22")
    assert work.keyed("").key != first.key


def test_the_network_that_corrects_references_is_part_of_the_key_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, filled = Work("a", ("/a.tif",)), Work("a", ("/a.tif",), options='{"references": ["/b.tif"]}')
    keys = []
    for digest in ("one", "two"):
        monkeypatch.setattr(manifest, "network_sha256", lambda digest=digest: digest)
        keys.append((plain.keyed("r").key, filled.keyed("r").key))
    assert keys[0][0] == keys[1][0]
    assert keys[0][1] != keys[1][1]
