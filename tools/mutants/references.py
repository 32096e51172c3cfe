"""Mistakes in references/."""

from .mutant import of

MUTANTS = [
    *of(
        "references/fill.py",
        (
            "tests/references/test_fill.py",
            "tests/restore/test_references.py::test_thin_cloud_that_gaps_surround_is_filled_too",
        ),
        ("beside-more-clear-ground", "thin & (gaps >= clear)", "thin & (2 * gaps >= clear)"),
        ("a-whole-veil", "(4 * gaps >= known)", "(8 * gaps >= known)"),
        (
            "blank-counts",
            "known = _count_around(gap & valid), _count_around(valid)",
            "known = _count_around(gap), _count_around(gap | True)",
        ),
        ("thin-counts-as-clear", "_count_around(valid & ~gap & ~thin)", "_count_around(valid & ~gap)"),
        ("square-is-cut", "np.minimum(at + half + 1, size)", "np.minimum(at + half, size)"),
        ("grows-farther", "LARGEST_GROWTH = 48", "LARGEST_GROWTH = 47"),
    ),
    *of(
        "references/harmonise.py",
        ("tests/references/test_harmonise.py",),
        ("cells-do-not-grow", "            size *= 2", "            size *= 4"),
        ("between-corners", "(at + 0.5) / size - 0.5", "at / size"),
        ("far-as-near", "FADE / 4 * _doubled", "4 * _doubled"),
    ),
    *of(
        "references/check.py",
        ("tests/references/test_check.py",),
        ("cloud-counts", "meant = np.where(clear, target, 0)", "meant = target"),
        ("rows-of-strips", "first = -top % step", "first = 0"),
    ),
    *of(
        "references/harmonise.py",
        ("tests/references/test_harmonise.py",),
        ("line-without-offset", "(values * slope + offset)", "(values * slope)"),
        ("ends-of-histograms", "+ (values[band] - inside)", "+ 9 * (values[band] - inside)"),
    ),
    *of(
        "references/check.py",
        ("tests/references/test_check.py", "tests/references/test_harmonise.py"),
        ("hidden-is-seen", "np.where(hidden, 0, self.sums)", "self.sums"),
        ("hidden-sample-is-seen", "sample.where(~hidden[rows, cols])", "sample"),
        ("worst-method", "best = min(expected", "best = max(expected"),
        ("little-sets-tones", "    if evidence.common < SOME_CLEAR:", "    if evidence.common < 0:"),
        ("little-is-much", "    if evidence.common < MUCH_CLEAR:", "    if evidence.common < 0:"),
    ),
    *of(
        "references/fill.py",
        ("tests/references/test_fill.py",),
        ("worse-reference-first", "** -PREFERENCE", "** PREFERENCE"),
        ("edges-count-fully", "_inwards(seen.clear)[rows, cols] * np", "1.0 * np"),
        ("step-without-bound", "np.clip(seen - new, -LARGEST_STEP, LARGEST_STEP)", "(seen - new)"),
        ("step-outwards", "new + step, new)", "new - step, new)"),
    ),
    *of(
        "references/choose.py",
        ("tests/references/test_choose.py",),
        ("clear-ground-counts", "np.where(cloud, share, 0)", "np.where(cloud | True, share, 0)"),
        ("far-dates-alike", "return 1 / (1 + abs(days) / HALF_LIFE)", "return 1 / (1 + 0 * abs(days) / HALF_LIFE)"),
        ("one-side-in-time", 'return "after" if days > 0 else "before"', 'return "after"'),
        ("again-as-new", "OTHER_SIDE, AGAIN = 0.25, 0.05", "OTHER_SIDE, AGAIN = 1.0, 1.0"),
        ("takes-what-adds-nothing", "if worth[best] < LEAST_ADDED:", "if worth[best] < -LEAST_ADDED:"),
    ),
    *of(
        "references/choose.py",
        ("tests/references/test_choose.py",),
        ("same-pass", "SAME_PASS < apart <=", "apart <="),
        ("any-tile", "not one.tile or one.tile == wanted.tile", "not one.tile or one.tile != ''"),
        ("beyond-its-end", 'blank = 1 if kind == "qa_pixel" else 0', "blank = 0"),
        ("no-data-is-clear", "return values > 1, classes_of_scl(values)", "return values >= 0, classes_of_scl(values)"),
        ("files-of-this-machine", "not hrefs or any(local_file(href)", "not hrefs or any(None and local_file(href)"),
    ),
    *of(
        "references/open.py",
        ("tests/restore/test_references.py",),
        ("days-backwards", "(later.date() - taken.date()).days", "(taken.date() - later.date()).days"),
    ),
]
