"""An audit of a data set: copies and look-alikes across parts, sides that do not belong together, bad files.

Every image is decoded once. A perceptual hash, known for all 8 flips and turns, proposes copies; correlation
of the detail confirms them, first on thumbnails, then block by block. Plain images such as open sea have
nothing to correlate: two of them that differ by no more than 1 grey level are reported as alike, which is not
the same as a copy. What stays in memory is about 1 kB a pair; thumbnails lie in a temporary file.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.data.pairs import read_image
from attcr.data.sets import find_set
from attcr.data.splits import PARTS, names_sha256
from attcr.errors import DataError, DataNotFoundError

from .listing import CLEAR_SIDE, CLOUDY_SIDE, SIDES, Listing, Lists, list_files, shared_names, substring_leaks
from .looks import (
    CELLS,
    SYMMETRIES,
    THUMB,
    WAVES,
    Floats,
    aligned_correlation,
    blocks,
    cells,
    correlate,
    detail,
    hash_distances,
    hash_signs,
    levels,
    shows_through,
    shrink,
    thumbnail,
    turn,
    turn_hash,
)  # fmt: skip

Indices = NDArray[np.int64]

# Measured on 356 real images, each against its own planted copies and against all others (docs/reference/data.md).
HASH_NEAR = 16  # bits of 63: copies differ by 12 at most, and 1 in 1000 pairs of different images by so few
THUMB_NEAR = 0.4  # correlation of thumbnails that is worth the closer look
DETAIL_NEAR = 0.45  # correlation of the closer look: copies have 0.54 and more, different images 0.35 and less
ALIKE = 1.0  # grey levels, root mean square
DOUBTFUL = 0.3  # correlation of a pair's best blocks: sides of different pairs have 0.35 and less
FITS, THUMB_FITS = 0.4, 0.6  # of another pair's clear side, in the closer look and in the thumbnails
NEIGHBOURS = 2048  # pairs before and after, among which the true partner of a side is sought

KINDS = {
    "exact": "the same pixels",
    "near": "a copy: re-encoded, flipped, turned or cropped",
    "same": "cloudy and clear side are the same image",
    "mismatched": "the cloudy side fits another pair's clear side",
    "unreadable": "cannot be decoded",
    "odd": "another size, band count or number type than the rest, or than the other side",
    "missing": "listed or paired, and not there",
    "shared": "one name in two lists",
    "alike": "plain images at most 1 grey level apart; not shown to be copies",
    "unconfirmed": "nothing of the clear side shows through: thick cloud, plain ground, or mismatch",
    "unlisted": "there, and in no list",
    "substring": "a list that would load names of another if matched by substring",
}
PROBLEMS = ("exact", "near", "same", "mismatched", "unreadable", "odd", "missing", "shared")
"""What should not be in a data set; the other kinds are for the reader to judge."""


@dataclass(frozen=True)
class Picture:
    """One image of the set."""

    name: str
    side: str
    part: str
    path: str


@dataclass(frozen=True)
class Finding:
    """One thing found: its kind (see KINDS), the images it is about, and a measure."""

    kind: str
    images: tuple[Picture, ...]
    note: str
    value: float | None = None
    symmetry: int = 0
    """How the first image is turned to lie on the second, a place in SYMMETRIES."""


@dataclass(frozen=True)
class Audit:
    """All that an audit found, and of what."""

    dataset: str
    root: str
    pairs: int
    parts: Mapping[str, Mapping[str, Any]]
    """By part: how many names its list has, how many pairs are there, the sha256 of the list."""
    colours: tuple[int, ...]
    """The bands of its images that are shown as red, green and blue."""
    findings: tuple[Finding, ...] = field(repr=False)

    def of(self, kind: str, *parts: str) -> list[Finding]:
        """Give the findings of a kind that have an image in each of the parts."""
        return [f for f in self.findings if f.kind == kind and set(parts) <= {image.part for image in f.images}]

    def names(self, kind: str, part: str, other: str) -> list[str]:
        """Name the images of `part` that a finding of this kind ties to one of `other`."""
        found = self.of(kind, part, other)
        return sorted({image.name for finding in found for image in finding.images if image.part == part})

    @property
    def problems(self) -> int:
        """How many findings should not be in a data set."""
        return sum(finding.kind in PROBLEMS for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Give everything as plain values."""
        counts = Counter(finding.kind for finding in self.findings)
        return {
            "dataset": self.dataset,
            "root": self.root,
            "pairs": self.pairs,
            "parts": {part: dict(about) for part, about in self.parts.items()},
            "counts": {kind: counts[kind] for kind in KINDS},
            "findings": [asdict(f) | {"symmetry": SYMMETRIES[f.symmetry]} for f in self.findings],
        }


class Looks:
    """What is remembered of every image, by pair and side."""

    def __init__(self, pairs: int, sides: int, colours: tuple[int, ...], scratch: Path) -> None:
        self.colours = colours
        self.seen = np.zeros((pairs, sides), bool)
        self.digest = np.zeros((pairs, sides, 2), np.uint64)
        self.shape = np.zeros((pairs, sides, 3), np.int32)
        self.type = np.zeros((pairs, sides), "S2")
        self.hash = np.zeros((pairs, 2, WAVES, WAVES), np.int8)
        self.colour = np.zeros((pairs, 3, CELLS, CELLS), np.float16)  # of the clear side, grey levels
        self.shows = np.full(pairs, np.nan, np.float32)  # how far the clear side shows through the cloudy one
        shape = (max(pairs, 1), 2, THUMB, THUMB)
        self.thumb: NDArray[np.int8] = np.memmap(scratch, np.int8, "w+", shape=shape)

    def equal(self, one: int, other: int, side: int) -> bool:
        """Tell whether two images have the same pixels."""
        return bool((self.digest[one, side] == self.digest[other, side]).all())


def audit(
    dataset: str,
    root: str | os.PathLike[str],
    *,
    lists: Lists | None = None,
    within: bool = False,
    alikes: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Audit:
    """Audit a data set under `root`, with its shipped lists or those given by part.

    Copies and alikes are sought across parts, and inside them too with `within` or where there is but one.
    `alikes` is how many of them to name for each image, the nearest first; `progress` hears (done, total).
    """
    root, data = Path(root), find_set(dataset)
    lists = data.lists() if lists is None else lists
    listing, colours = list_files(dataset, root, lists), tuple(data.spec.colours)
    with tempfile.TemporaryDirectory() as scratch:
        looks = Looks(len(listing.names), listing.sides, colours, Path(scratch, "thumbnails"))
        findings = [
            *_scan(listing, looks, progress),
            *_odd(listing, looks),
            *_lists(listing, looks, lists),
        ]
        findings += _exact(listing, looks)
        groups = _compared(listing, within)
        copies = [copy for side in (CLOUDY_SIDE, CLEAR_SIDE) for copy in _copies(listing, looks, side, groups)]
        findings += copies
        known = {frozenset(image.name for image in copy.images) for copy in copies}
        findings += _alikes(listing, looks, groups, alikes, known)
        findings += _mismatched(listing, looks)
        del looks  # lets go of the temporary file
    order = list(KINDS)
    findings.sort(key=lambda f: (order.index(f.kind), [(image.name, image.side) for image in f.images]))
    parts = {
        part: {
            "listed": len(names),
            "pairs": int((listing.part_of == PARTS.index(part)).sum()),
            "sha256": names_sha256(names),
        }
        for part, names in lists.items()
    }
    return Audit(dataset, str(root), len(listing.names), parts, colours, tuple(findings))


def _compared(listing: Listing, within: bool) -> list[tuple[Indices, Indices]]:
    """Give the groups to compare, each with each; the later part first, since test is asked about train."""
    parts = sorted(set(listing.part_of.tolist()) - {-1}) or [-1]
    members = {part: np.flatnonzero(listing.part_of == part) for part in parts}
    inside = within or len(parts) == 1
    return [(members[a], members[b]) for a in parts for b in parts if a > b or (inside and a == b)]


def _picture(listing: Listing, index: int, side: int) -> Picture:
    part = PARTS[listing.part_of[index]] if listing.part_of[index] >= 0 else "none"
    return Picture(listing.names[index], SIDES[side], part, str(listing.path(index, side) or ""))


@dataclass(frozen=True)
class _Look:
    digest: NDArray[np.uint64]
    shape: tuple[int, ...]
    type: str
    small: Floats


def _look(path: Path | None, colours: Sequence[int]) -> _Look | str | None:
    """Decode an image and shrink it; the text of the error where that fails."""
    if path is None:
        return None
    try:
        image = read_image(path)
    except (DataError, DataNotFoundError) as error:
        return str(error)
    digest = blake2b(repr((image.shape, image.dtype.str)).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(image).data)
    return _Look(np.frombuffer(digest.digest(), np.uint64), image.shape, image.dtype.str[1:], shrink(image, colours))


def _scan(listing: Listing, looks: Looks, progress: Callable[[int, int], None], block: int = 128) -> Iterator[Finding]:
    """Look at every file once, a block of pairs at a time."""
    for region, count in listing.incomplete.items():
        yield Finding("missing", (Picture(region, "", "", ""),), f"{count} patches lack a file", count)
    total = len(listing.names)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the decoders let go of Python's lock
        for some in _blocks(np.arange(total), block):
            places = [(int(index), side) for index in some for side in range(listing.sides)]
            paths = [listing.path(*place) for place in places]
            found = dict(zip(places, pool.map(lambda path: _look(path, looks.colours), paths), strict=True))
            for (index, side), look in found.items():
                if look is None:
                    yield Finding("missing", (_picture(listing, index, side),), "no file of this name")
                elif isinstance(look, str):
                    yield Finding("unreadable", (_picture(listing, index, side),), look)
                else:
                    _remember(looks, index, side, look)
            for index in some:
                cloudy, clear = found[index, CLOUDY_SIDE], found[index, CLEAR_SIDE]
                if isinstance(cloudy, _Look) and isinstance(clear, _Look):
                    looks.shows[index] = shows_through(cloudy.small, clear.small)
            progress(int(some[-1]) + 1, total)


def _remember(looks: Looks, index: int, side: int, look: _Look) -> None:
    looks.seen[index, side] = True
    looks.digest[index, side] = look.digest
    looks.shape[index, side] = look.shape
    looks.type[index, side] = look.type.encode()
    if side in (CLOUDY_SIDE, CLEAR_SIDE):
        looks.hash[index, side] = hash_signs(look.small)
        looks.thumb[index, side] = thumbnail(look.small)
    if side == CLEAR_SIDE:
        looks.colour[index] = cells(look.small, CELLS)


def _odd(listing: Listing, looks: Looks) -> Iterator[Finding]:
    """Find images unlike most of their side, and sides of different size."""
    for side in range(listing.sides):
        seen = np.flatnonzero(looks.seen[:, side])
        kinds = Counter(_kind(looks, index, side) for index in seen)
        if len(kinds) < 2:
            continue
        usual = kinds.most_common(1)[0][0]
        for index in seen:
            if (kind := _kind(looks, index, side)) != usual:
                yield Finding("odd", (_picture(listing, int(index), side),), f"{kind}; most are {usual}")
    sizes = looks.shape[:, :2, 1:]
    for index in np.flatnonzero(looks.seen[:, :2].all(1) & (sizes[:, 0] != sizes[:, 1]).any(1)):
        sides = tuple(_picture(listing, int(index), side) for side in (CLOUDY_SIDE, CLEAR_SIDE))
        yield Finding("odd", sides, "the two sides differ in size")


def _kind(looks: Looks, index: np.int64, side: int) -> str:
    bands, height, width = looks.shape[index, side]
    return f"{bands} bands {height}x{width} {np.dtype(looks.type[index, side].decode()).name}"


def _lists(listing: Listing, looks: Looks, lists: Lists) -> Iterator[Finding]:
    """Find names in two lists or in none, and lists that overlap when matched by substring."""
    for (one, other), names in shared_names(lists).items():
        for name in names:
            twice = (Picture(name, "", one, ""), Picture(name, "", other, ""))
            yield Finding("shared", twice, "in both lists")
    for (part, other), names in substring_leaks(lists).items():
        images = tuple(Picture(name, "", part, "") for name in names)
        note = f"{len(names)} of {len(lists[part])} entries of {part} contain an entry of {other}"
        yield Finding("substring", images, note, len(names))
    if lists:
        for index in np.flatnonzero((listing.part_of < 0) & looks.seen.any(1)):
            yield Finding("unlisted", (_picture(listing, int(index), CLEAR_SIDE),), "in no list")


def _exact(listing: Listing, looks: Looks, at_most: int = 20) -> Iterator[Finding]:
    """Group images of equal pixels; of a group larger than `at_most` the first are named."""
    places, digests = np.argwhere(looks.seen), looks.digest[looks.seen]
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    starts = np.flatnonzero(np.any(np.diff(digests[order], axis=0) != 0, axis=1)) + 1
    for group in np.split(order, starts):
        if len(group) < 2:
            continue
        members = places[np.sort(group)]
        images = tuple(_picture(listing, int(index), int(side)) for index, side in members[:at_most])
        if len({image.name for image in images}) == 1:
            yield Finding("same", images, "equal pixels")
        else:
            yield Finding("exact", images, f"{len(group)} images of equal pixels", len(group))


def _blocks(indices: NDArray[Any], size: int) -> Iterator[NDArray[Any]]:
    for start in range(0, len(indices), size):
        yield indices[start : start + size]


def _runs(indices: Indices, size: int, span: int) -> Iterator[Indices]:
    """Give ascending indices in runs of at most `size`, the last less than `span` above the first."""
    while len(indices):
        count = min(size, int(np.searchsorted(indices, indices[0] + span)))
        yield indices[:count]
        indices = indices[count:]


def _copies(listing: Listing, looks: Looks, side: int, groups: Sequence[tuple[Indices, Indices]]) -> Iterator[Finding]:
    """Find copies: hash, thumbnails, closer look. Images of equal pixels are reported as exact alone."""

    @lru_cache(maxsize=256)
    def view(index: int) -> Floats:
        return detail(shrink(listing.read(index, side), looks.colours).mean(0))

    for rows, cols in groups:
        inside = rows is cols  # each pair comes twice, and every image meets itself
        rows, cols = (indices[looks.seen[indices, side]] for indices in (rows, cols))
        for some in _blocks(rows, 256):
            for (one, other), symmetry in sorted(_candidates(looks, side, some, cols).items()):
                if looks.equal(one, other, side) or (inside and one > other):
                    continue
                correlation = aligned_correlation(turn(view(one), symmetry), view(other))
                if correlation >= DETAIL_NEAR:
                    images = (_picture(listing, one, side), _picture(listing, other, side))
                    note = f"correlation {correlation:.2f}, {SYMMETRIES[symmetry]}"
                    yield Finding("near", images, note, round(correlation, 4), symmetry)


def _candidates(looks: Looks, side: int, rows: Indices, cols: Indices) -> dict[tuple[int, int], int]:
    """Find pairs of images whose hash and thumbnail agree, and the symmetry in which they agree best."""
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for others in _blocks(cols, 8192):
        for symmetry in range(len(SYMMETRIES)):
            turned = turn_hash(looks.hash[rows, side], symmetry)
            near = np.argwhere(hash_distances(turned, looks.hash[others, side]) <= HASH_NEAR)
            for few in _blocks(near, 4096):
                one, other = rows[few[:, 0]], others[few[:, 1]]
                fit = correlate(turn(looks.thumb[one, side], symmetry), looks.thumb[other, side])
                for at in np.flatnonzero(fit >= THUMB_NEAR):
                    place = int(one[at]), int(other[at])
                    best[place] = max(best.get(place, (-1.0, 0)), (float(fit[at]), symmetry))
    return {place: symmetry for place, (_, symmetry) in best.items()}


def _alikes(
    listing: Listing,
    looks: Looks,
    groups: Sequence[tuple[Indices, Indices]],
    at_most: int,
    copies: set[frozenset[str]],
) -> Iterator[Finding]:
    """Find clear images no more than ALIKE grey levels apart that were not shown to be copies.

    Means over a grid differ by no more than the pixels do: what is farther apart there is not looked at.
    """

    @lru_cache(maxsize=64)
    def pixels(index: int) -> Floats:
        return levels(listing.read(index, CLEAR_SIDE), looks.colours)

    done: set[frozenset[int]] = set()
    for rows, cols in groups:
        rows, cols = (indices[looks.seen[indices, CLEAR_SIDE]] for indices in (rows, cols))
        for some in _blocks(rows, 256):
            for one, nearest in _nearest(looks, some, cols, 2 * at_most + 6).items():
                found = 0
                for other, symmetry in nearest:
                    pair = frozenset((one, other))
                    known = frozenset((listing.names[one], listing.names[other])) in copies
                    if one == other or known or pair in done or looks.equal(one, other, CLEAR_SIDE):
                        continue
                    turned, target = turn(pixels(one), symmetry), pixels(other)
                    apart = float(np.sqrt(np.mean((turned - target) ** 2))) if turned.shape == target.shape else np.inf
                    if apart <= ALIKE:
                        done.add(pair)
                        images = (_picture(listing, one, CLEAR_SIDE), _picture(listing, other, CLEAR_SIDE))
                        yield Finding("alike", images, f"{apart:.2f} grey levels apart", round(apart, 4), symmetry)
                        found += 1
                        if found == at_most:
                            break


def _nearest(looks: Looks, rows: Indices, cols: Indices, count: int) -> dict[int, list[tuple[int, int]]]:
    """Find for each image the nearest others by their colours, with the symmetry; none that is too far."""
    best: Floats = np.zeros((len(rows), 0), np.float32)
    which: Indices = np.zeros((len(rows), 0), np.int64)
    how: NDArray[np.int8] = np.zeros((len(rows), 0), np.int8)
    for others in _blocks(cols, 8192):
        grid = looks.colour[others].reshape(len(others), -1).astype(np.float32)
        square = np.full((len(rows), len(others)), np.inf, np.float32)
        symmetries = np.zeros(square.shape, np.int8)
        for symmetry in range(len(SYMMETRIES)):
            turned = turn(looks.colour[rows], symmetry).reshape(len(rows), -1).astype(np.float32)
            apart = (turned**2).sum(1)[:, None] + (grid**2).sum(1) - 2 * turned @ grid.T
            symmetries[apart < square] = symmetry
            np.minimum(square, apart, out=square)
        best = np.concatenate([best, square / grid.shape[1]], 1)
        which = np.concatenate([which, np.broadcast_to(others, square.shape)], 1)
        how = np.concatenate([how, symmetries], 1)
        order = np.argsort(best, axis=1, kind="stable")[:, :count]
        best = np.take_along_axis(best, order, 1)
        which, how = np.take_along_axis(which, order, 1), np.take_along_axis(how, order, 1)
    near = best <= (ALIKE + 0.2) ** 2  # 0.2 for the half precision of the grid
    return {
        int(row): list(zip(which[at, near[at]].tolist(), how[at, near[at]].tolist(), strict=True))
        for at, row in enumerate(rows)
        if near[at].any()
    }


def _mismatched(listing: Listing, looks: Looks, tries: int = 3) -> Iterator[Finding]:
    """Find doubtful pairs, and among them those whose cloudy side fits another pair's clear side."""
    doubtful = np.flatnonzero(looks.shows < DOUBTFUL)
    for some in _runs(doubtful, 256, NEIGHBOURS):
        low, high = some[0] - NEIGHBOURS, some[-1] + NEIGHBOURS + 1
        others = np.flatnonzero(looks.seen[max(low, 0) : high, CLEAR_SIDE]) + max(low, 0)
        fit = _fit_of_blocks(looks.thumb[some, CLOUDY_SIDE], looks.thumb[others, CLEAR_SIDE])
        fit[some[:, None] == others] = -1
        for row, index in enumerate(some):
            own, cloudy = float(looks.shows[index]), _picture(listing, int(index), CLOUDY_SIDE)
            best, partner = own, -1
            for at in np.argsort(-fit[row])[:tries]:
                if fit[row, at] >= THUMB_FITS:
                    own_side = shrink(listing.read(int(index), CLOUDY_SIDE), looks.colours)
                    other_side = shrink(listing.read(int(others[at]), CLEAR_SIDE), looks.colours)
                    best, partner = max((best, partner), (shows_through(own_side, other_side), int(others[at])))
            if best >= FITS:
                note = f"fits clear {listing.names[partner]} ({best:.2f}), not its own ({own:.2f})"
                yield Finding("mismatched", (cloudy, _picture(listing, partner, CLEAR_SIDE)), note, round(best, 4))
            else:
                yield Finding("unconfirmed", (cloudy,), f"best blocks correlate {own:.2f}", round(own, 4))


def _fit_of_blocks(cloudy: NDArray[np.int8], clear: NDArray[np.int8]) -> Floats:
    """Correlate thumbnails (N, ...) with thumbnails (M, ...) in 16 blocks; the mean of the best 4, (N, M)."""
    rows, cols = (blocks(thumbs.astype(np.float32), THUMB // 4) for thumbs in (cloudy, clear))
    rows, cols = (cut - cut.mean(2, keepdims=True) for cut in (rows, cols))
    rows, cols = (cut / np.maximum(np.linalg.norm(cut, axis=2, keepdims=True), 1e-6) for cut in (rows, cols))
    fits = np.stack([rows[:, at] @ cols[:, at].T for at in range(rows.shape[1])])
    return np.asarray(np.partition(fits, -4, axis=0)[-4:].mean(0))
