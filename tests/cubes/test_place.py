"""Places in the ways that people write them, and the grids over them."""

import json
from pathlib import Path

import pytest

from attcr.cubes.place import Grid, Place, utm_of
from attcr.errors import ConfigError


def test_a_box_is_taken_as_it_is() -> None:
    assert Place.parse("14.0,52.0,14.1,52.1").box == (14.0, 52.0, 14.1, 52.1)


def test_a_tile_is_where_sentinel_2_has_it() -> None:
    place = Place.parse("20LMR")
    assert (place.crs, place.bounds) == ("EPSG:32720", (399960.0, 8990220.0, 509760.0, 9100020.0))
    assert Place.parse("T32TQM").bounds == (699960.0, 4590240.0, 809760.0, 4700040.0)
    grid = Grid.over(place)
    assert (grid.height, grid.width, grid.transform.c, grid.transform.f) == (10980, 10980, 399960, 9100020)


def test_a_point_with_a_size_is_a_square_around_it() -> None:
    place = Place.parse("52,14,5000")
    west, south, east, north = place.box
    assert west < 14 < east
    assert south < 52 < north
    assert Grid.over(place).height in (500, 501)


def test_a_file_is_the_box_around_all_that_it_holds(tmp_path: Path) -> None:
    ring = [[[5.0, 50.0], [5.2, 50.0], [5.1, 50.3], [5.0, 50.0]]]
    features = [
        {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": ring}},
        {"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [5.4, 50.1]}},
    ]
    path = tmp_path / "field.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert Place.parse(str(path)).box == (5.0, 50.0, 5.4, 50.3)


def test_a_geopackage_is_read_in_degrees(tmp_path: Path) -> None:
    geopandas = pytest.importorskip("geopandas")
    pytest.importorskip("pyogrio")
    from shapely.geometry import box

    path = tmp_path / "field.gpkg"
    geopandas.GeoDataFrame(geometry=[box(431350, 5761420, 438360, 5772640)], crs="EPSG:32633").to_file(path)
    assert Place.parse(str(path)).box == pytest.approx((14.0, 52.0, 14.1, 52.1), abs=0.01)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("170,-10,-170,10", "180th meridian"),
        ("5,50,6,40", "not below the north"),
        ("52,190,53,200", "swapped"),
        ("-170,0,170,10", "around the Earth"),
        ("181,0,182,1", "not on the Earth"),
        ("nan,0,1,1", "a number that is none"),
        ("1,2", "2 numbers"),
        ("52,14,-5", "lat,lon,metres"),
        ("33UAA", "no MGRS tile"),
        ("nowhere.gpkg", "no file"),
    ],
)
def test_what_is_no_place_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Place.parse(text)


def test_the_grid_lies_on_multiples_of_its_pixels_and_covers_the_place() -> None:
    grid = Grid.over(Place.parse("14.0,52.0,14.1,52.1"))
    assert grid.crs == "EPSG:32633"
    assert grid.transform.c % 10 == grid.transform.f % 10 == 0
    west, south, east, north = grid.box
    assert west <= 14.0 < 14.1 <= east
    assert south <= 52.0 < 52.1 <= north


def test_norway_svalbard_and_the_south_have_their_zones() -> None:
    assert [utm_of(*at) for at in ((5, 60), (15, 78), (20, 78), (-63, -9), (179.99, 0))] == [
        "EPSG:32632",
        "EPSG:32633",
        "EPSG:32633",
        "EPSG:32720",
        "EPSG:32660",
    ]


def test_a_country_needs_a_projection() -> None:
    with pytest.raises(ConfigError, match="UTM zone"):
        Grid.over(Place.parse("-5,42,9,51"))
    assert Grid.over(Place.parse("-5,42,9,51"), 100, "EPSG:3035").crs == "EPSG:3035"


def test_a_part_of_a_grid_lies_where_it_did() -> None:
    part = Grid.over(Place.parse("20LMR")).part(100, 200, 50, 60)
    assert (part.transform.c, part.transform.f) == (399960 + 2000, 9100020 - 1000)
    assert (part.height, part.width) == (50, 60)
