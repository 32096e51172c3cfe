from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rasterio.warp import transform_geom

from attcr.references.choose import (
    Candidate,
    Wanted,
    box_around,
    candidate_of,
    choose_candidates,
    choose_references,
    coarse_shape,
    nearness,
    rank,
    read_mask,
)
from attcr.scenes.clouds.masks import CLEAR, THICK
from attcr.scenes.open import open_scene
from attcr.scenes.scene import Profile
from fake_catalogs import counted, stac_api
from fake_scenes import UTM, make

TAKEN = datetime(2020, 6, 1, 10, tzinfo=timezone.utc)
CLOUD = np.zeros((10, 10), bool)
CLOUD[:, :8] = True

ALL = np.ones((10, 10), np.float32)


def candidate(days: float, name: str = "", **more: Any) -> Candidate:
    given = {"tile": "a", "cloudy": 0.0, "mask": None, **more}
    taken = TAKEN + timedelta(days=days)
    return Candidate(name or f"d{days:g}", f"https://host/{name or days}", taken, **given)


def wanted(profile: Profile, cloud: np.ndarray = CLOUD) -> Wanted:
    return Wanted("scene", TAKEN, "a", profile, cloud)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    with open_scene(make(tmp_path / "a.tif", np.ones((1, 10, 10), np.uint8), **UTM)) as scene:
        return scene.profile


def test_what_cannot_be_read_is_passed_over_and_a_few_times_as_many_as_wanted_are_looked_at(profile: Profile) -> None:
    looked: list[str] = []

    def look_at(one: Candidate, _: Profile) -> np.ndarray | None:
        looked.append(one.id)
        return None if one.id == "d1" else np.ones((10, 10), np.float32)

    ranked = [candidate(days) for days in range(1, 20)]
    assert [one.id for one in choose_candidates(wanted(profile), ranked, 1, look_at)] == ["d2"]
    assert looked == ["d1", "d2", "d3", "d4", "d5"]


def test_dates_of_another_tile_pass_or_season_are_not_looked_at(profile: Profile) -> None:
    near, far = candidate(10), candidate(-40)
    others = [
        candidate(2, "other-tile", tile="b"),
        candidate(0.01, "same-pass"),
        candidate(61, "late"),
        candidate(-3, "scene"),
    ]
    cloudy, untold = candidate(1, "cloudy", cloudy=0.9), candidate(20, "untold", tile="")
    ranked = rank(wanted(profile), [*others, far, cloudy, near, near, untold], 60)
    assert ranked == [near, untold, far, cloudy]


def an_item(**more: Any) -> dict[str, Any]:
    asset = {"href": "https://host/SCL.tif"}
    given = {"id": "a", "collection": "c", "properties": {"datetime": "2020-06-01T10:00:00Z"}, "assets": {"SCL": asset}}
    return {**given, **more}


def test_an_item_is_a_candidate_with_what_it_tells() -> None:
    told = {"datetime": "2020-06-01T10:00:00Z", "eo:cloud_cover": 25, "landsat:wrs_path": "1", "landsat:wrs_row": "2"}
    links = [{"rel": "self", "href": "https://host/a.json"}]
    one = candidate_of(an_item(properties=told, links=links), "https://api/")
    assert one == Candidate(
        "a",
        "https://host/a.json",
        TAKEN,
        "landsat:wrs_path 1 2",
        0.25,
        ("scl", "https://host/SCL.tif"),
    )
    plain = candidate_of(an_item(), "https://api/")
    assert plain is not None
    assert (plain.href, plain.cloudy, plain.tile) == ("https://api/collections/c/items/a", 0.5, "")
    assert candidate_of(an_item(properties={"datetime": None}), "https://api") is None


@pytest.mark.parametrize("href", ["/etc/a.tif", "file:///etc/a.tif", "a.tif"])
def test_an_item_of_an_api_names_no_file_of_this_machine(href: str) -> None:
    assert candidate_of(an_item(assets={"B02": {"href": href}}), "https://api") is None
    assert candidate_of(an_item(links=[{"rel": "self", "href": href}]), "https://api") is None


def test_of_a_large_mask_only_an_overview_is_asked_for(tmp_path: Path) -> None:
    classes = np.random.default_rng(0).integers(4, 8, (1, 2048, 2048)).astype(np.uint8)
    classes[:, :1024, 512:] = 9
    classes[:, 1536:] = 0
    tiled = {"tiled": True, "blockxsize": 256, "blockysize": 256}
    (tmp_path / "files").mkdir()
    path = make(
        tmp_path / "files" / "SCL.tif", classes, lambda file: file.build_overviews([2, 4, 8, 16]), **UTM, **tiled
    )
    with open_scene(path) as scene:
        profile = scene.profile
    with counted(tmp_path / "files", tmp_path / "asked.txt") as (host, asked):
        data, found = read_mask("scl", f"{host}/SCL.tif", profile)
    assert coarse_shape(profile) == data.shape == (256, 256)
    assert (found[:128, 64:] == THICK).all()
    assert (found[128:] == CLEAR).all()
    assert data[:192].all()
    assert not data[192:].any()
    parts = [part.removeprefix("bytes=").split("-") for _, part in asked.of("SCL.tif") if part]
    assert len(asked.of("")) <= 6, asked.of("")
    assert sum(int(last) - int(first) + 1 for first, last in parts) < path.stat().st_size / 8


def test_a_mask_on_another_grid_is_laid_on_the_scenes(tmp_path: Path, profile: Profile) -> None:
    t = UTM["transform"]
    qa = np.full((1, 4, 10), 1 << 6, np.uint16)
    qa[:, :, 5:] = 1 << 3
    path = make(tmp_path / "qa.tif", qa, crs=UTM["crs"], transform=t)
    data, found = read_mask("qa_pixel", str(path), profile)
    assert data[:4].all()
    assert not data[4:].any()  # it ends there
    assert (found[:4] == np.where(np.arange(10) < 5, CLEAR, THICK)).all()


def test_the_box_lies_about_the_middle_of_the_cloud() -> None:
    cloud = np.zeros((10, 20), bool)
    cloud[0:2, 15:19] = True
    west, south, east, north = box_around(cloud, (10.0, 40.0, 20.0, 50.0))
    assert (west + east) / 2 == pytest.approx(10 + 10 * 17 / 20, abs=1e-4)
    assert (south + north) / 2 == pytest.approx(50 - 10 * 1 / 10, abs=1e-4)
    assert east - west == pytest.approx(0.4, abs=1e-4)


def test_a_search_goes_page_by_page_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pystac_client")
    from attcr.errors import SceneError
    from attcr.scenes.pystac_client import interval_of, search_items

    point = transform_geom("EPSG:4326", "EPSG:4326", {"type": "Point", "coordinates": [16.0, 49.0]})
    plain = {"type": "Feature", "stac_version": "1.1.0", "stac_extensions": [], "geometry": point, "links": []}
    items = [
        {**plain, **an_item(id=f"s{i}", properties={"datetime": f"2020-06-{i + 1:02d}T10:00:00Z"}), "collection": "c"}
        for i in range(5)
    ]
    for item in items:
        item["bbox"] = [16.0, 49.0, 16.0, 49.0]
    monkeypatch.setattr("attcr.scenes.pystac_client.PAGE", 2)
    with stac_api(items, tmp_path) as api:
        assert sorted(item["id"] for item in search_items(api, ["c"])) == [f"s{i}" for i in range(5)]
        some = search_items(api, ["c"], datetime="2020-06-02/2020-06-03", bbox=[15, 48, 17, 50])
        assert sorted(item["id"] for item in some) == ["s1", "s2"]
        assert len(list(search_items(api, ["c"], most=3))) == 3
        with pytest.raises(SceneError, match="are not dates"):
            list(search_items(api, ["c"], datetime="yesterday"))
    assert interval_of("2024-06-01/..") == "2024-06-01T00:00:00Z/.."


def columns(*seen: int) -> np.ndarray:
    share = np.zeros((10, 10), np.float32)
    share[:, list(seen)] = 1
    return share


def test_first_comes_the_one_that_sees_most_then_the_one_that_adds_most() -> None:
    shares = [
        columns(1, 2, 3, 4, 8, 9),  # what is not under cloud counts for nothing
        columns(5, 6, 7),
        columns(0, 1, 2, 3, 4),
        columns(5, 6),
    ]
    assert choose_references(CLOUD, shares, [6, 10, 5, 12], 2) == [2, 1]
    assert choose_references(CLOUD, shares, [6, 10, 5, 12], 1) == [2]


def test_of_dates_that_see_as_much_the_nearer_one_and_then_the_other_side_come_first() -> None:
    assert choose_references(CLOUD, [ALL] * 4, [-30, 5, -20, 3], 2) == [3, 2]
    assert choose_references(CLOUD, [ALL] * 4, [-30, 5, -20, 3], 4) == [3, 2, 1, 0]


def test_of_equal_references_the_first_is_taken() -> None:
    assert choose_references(CLOUD, [ALL, ALL, ALL], [5, 5, 5], 1) == [0]


def test_what_is_new_counts_more_than_what_is_seen_from_the_other_side() -> None:
    assert choose_references(CLOUD, [columns(0, 1, 2, 3, 4), columns(0, 1, 2, 3), columns(5, 6, 7)], [5, -4, 8], 2) == [
        0,
        2,
    ]


def test_a_date_that_adds_nothing_is_not_taken() -> None:
    assert choose_references(CLOUD, [columns(0, 1), columns(8, 9)], [3, 4], 3) == [0]
    assert choose_references(np.zeros((10, 10), bool), [ALL], [3], 3) == []


def test_a_date_counts_half_after_sixty_days() -> None:
    assert nearness(0) == 1
    assert nearness(-60) == nearness(60) == 0.5
