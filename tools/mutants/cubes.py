"""Mistakes in cubes."""

from .mutant import of

PLACE, SEARCH = "tests/cubes/test_place.py", "tests/cubes/test_cube_search.py"
COMPOSITE, HOSTILE = "tests/cubes/test_composite.py", "tests/cubes/test_cube_hostile.py"

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
    *of(
        "cubes/season.py",
        (COMPOSITE,),
        ("medoid-of-hidden-dates", "shown.seen[one] & shown.seen[other]", "shown.seen[one] | shown.seen[other]"),
        ("medoid-farthest", "_one(shown.seen, -far - ", "_one(shown.seen, far - "),
        ("medoid-of-squares", 'np.sqrt(np.einsum("cn,cn->n", off, off))', 'np.einsum("cn,cn->n", off, off)'),
        ("worse-of-two", "- np.float32(PREFER) * whole", "+ np.float32(PREFER) * whole"),
        ("geomedian-of-squares", "apart = np.sqrt(((values - middle)", "apart = (((values - middle)"),
        ("best-near-cloud", "shown.inside / np.max", "(1 - shown.inside) / np.max"),
        ("own-date-in-the-error", "shown.seen & (weights < 1)", "shown.seen"),
        ("error-after-levelling", "np.abs(shown.came - values)", "np.abs(shown.values - values)"),
        ("levelled-by-nothing", 'else "local"', 'else "copied"'),
    ),
    *of(
        "cubes/composite.py",
        (COMPOSITE,),
        ("cloud-is-ground", "(seen.classes[:, rows, cols] == CLEAR) &", "(seen.classes[:, rows, cols] >= CLEAR) &"),
        ("blocks-levelled-elsewhere", "down[here] + seen.tile.row", "down[here]"),
        ("day-rounded-up", "np.floor(made.days)", "np.ceil(made.days)"),
        ("unseen-has-values", "np.where(known, numbers, dtype.type(nodata))", "numbers"),
        ("months-of-30-days", 'if not str(self.every).endswith("mo"):', 'if str(self.every).endswith("mo"):'),
        ("block-written-twice", "done += 1", "done += 0"),
    ),
    *of(
        "cubes/seams.py",
        ("tests/cubes/test_seams.py",),
        ("no-corner", "= ((1, 1), (1, 0), (0, 1))", "= ((1, 0), (0, 1))"),
        ("seen-pixels-go-over-too", "np.where(filled, np.rint(total), out[name])", "np.rint(total)"),
        ("class-of-before-the-ramp", "np.where(unsure, LOW_CONFIDENCE, FROM_DATE)", "FROM_DATE"),
        ("ramp-that-begins-late", "+ 0.5) / RAMP, 0, 1)", "- 7.5) / RAMP, 0, 1)"),
        ("shares-that-swap", "np.outer(down if below else 1 - down", "np.outer(1 - down if below else down"),
        ("columns-that-share-ends", " and other.col // column == tile.col // column", ""),
        ("ends-for-what-is-made", "numbers[other] >= numbers[tile]", "numbers[other] >= 0"),
        ("lines-without-columns", "(one.col // (ACROSS * width), one.row, one.col)", "(one.row, one.col)"),
        ("error-stays", 'for name in (*bands, "error"):', "for name in bands:"),
    ),
    *of(
        "cubes/fill.py",
        ("tests/cubes/test_cube_fill.py",),
        ("what-shows-a-strip-counts-whole", "noise = NOISE + 1 - share", "noise = NOISE + 0 * share"),
        ("days-count-alike", "self.dates.days) / LASTS)", "self.dates.days) / (LASTS / 1000))"),
        ("error-without-steps", "np.sqrt(step * (", "np.sqrt(1e-3 * step * ("),
        ("error-of-another-date", "missed * (off / least)", "missed * 3"),
        ("nothing-goes-on", "np.abs(made + _goes_on(off, told) - here)", "np.abs(made - here)"),
        ("source-that-saw-nothing", "parts = np.where(self.seen, self.parts", "parts = np.where(True, self.parts"),
    ),
    *of(
        "cubes/odc_stac.py",
        (HOSTILE,),
        ("only-the-first-host-is-looked-at", "at = urljoin(at, onward)", "return"),
        ("redirections-are-not-looked-at", 'if public and href.startswith("http"):', "if False:"),
        ("a-raster-of-nowhere", "if file.crs is None:", "if False:"),
    ),
]
