"""Mistakes in cubes."""

from .mutant import of

PLACE, SEARCH = "tests/cubes/test_place.py", "tests/cubes/test_cube_search.py"

MUTANTS = [
    *of(
        "cubes/place.py",
        (PLACE,),
        ("tile-rows-of-even-zones", "- 5 * (zone % 2 == 0)", "- 5 * (zone % 2 == 1)"),
        ("northing-below-its-band", "while north < _BANDS[band]:", "while north < _BANDS[band] - 20:"),
        ("grid-that-ends-early", "math.ceil(right - 1e-6)", "math.floor(right - 1e-6)"),
        ("swapped-south-and-north", "if south >= north:", "if south > north + 90:"),
        ("norway-has-no-zone", "if 56 <= lat < 64 and 3 <= lon < 12:", "if 56 <= lat < 64 and 3 <= lon < 3:"),
    ),
    *of(
        "cubes/search.py",
        (SEARCH,),
        ("older-processing-counts", "key=lambda one: (one.processed, one.id)", "key=lambda one: (one.id,)"),
        ("axis-one-step-short", "int((last - first) / every) + 1", "int((last - first) / every)"),
        ("last-day-left-out", "_day(last) + timedelta(days=1) - timedelta(seconds=1)", "_day(last)"),
        ("items-of-anywhere", "overlaps(one.box, box)", "overlaps(one.box, one.box)"),
        ("heights-in-a-box", "[box[0], box[1], box[3], box[4]]", "[box[0], box[1], box[2], box[3]]"),
    ),
]
