"""A network that corrects harmonised references inside gaps, and how much of its correction is used for a scene.

All numbers that the network sees are relative to the reference and the target themselves: bands to their mean and
spread in the image, errors to the mean error where both are clear. So it cannot memorise a place, its tones or its
season, and its output is relative to the error that harmonising left.

The self-check hides clear ground of the scene itself, fills it with and without the network, and takes the share of the
correction that gives the smallest error there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast, get_args

import numpy as np
from numpy.typing import NDArray

from attcr.bands.products import band_names
from attcr.bands.sensors import S2_L1C_BANDS, Sensor
from attcr.errors import ConfigError, SceneError, warn
from attcr.predict import Backend, open_predictor
from attcr.references.check import LEAST_PIXELS, MUCH_CLEAR, Evidence
from attcr.references.fill import Added, Corrected, Filled, Tuned, meet_border
from attcr.references.harmonise import METHODS, PLAUSIBLE, Cells, Float32, Harmoniser, regression
from attcr.scenes.blend import StripBlender
from attcr.scenes.tiles import Grid, Tile, grid
from attcr.weights import find_weights, published, read_header

WEIGHTS = "s2-dates"
"""The published name of the network."""
BANDS = len(S2_L1C_BANDS)
PLANES = 4 * BANDS + 3
"""Harmonised, reference, error where it is known, presence; then clear, to fill, and how good the fit is."""
LEAST_ERROR = 1e-3
CLIPPED = 4.0
"""Numbers that the network sees are clipped at so many spreads or mean errors."""
NOT_CORRECTED = (S2_L1C_BANDS.index("B10"),)
"""Bands that the network sees and does not correct: it was not trained on cirrus."""

TILE, OVERLAP = 256, 64
"""Side of a tile in pixels, as in training, and the pixels by which neighbours overlap and are blended."""
SMALLEST = 64
"""Pixels along a side below which a scene shows the network too little."""
LEAST_CLEAR = MUCH_CLEAR
"""Part of a tile, and of a scene, that must be clear in both images for the network to be used."""
LEAST_WEIGHT = 0.2
"""Weight among the references below which one is not corrected in a tile."""
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the network's correction that the self-check can choose."""
SURE = 0.98
"""The network is used where it brings the error on hidden ground below this part of the error without it."""
ROWS_CHECKED, TILES_CHECKED = 2, 4
"""Rows of tiles, and tiles in each, that are tried each time ground is hidden."""

Network = Callable[[Float32], Float32]
"""From planes (N, PLANES, h, w), as `see` gives them, to (N, 2 BANDS, h, w): corrections, then expected errors."""


@dataclass(frozen=True)
class Visible:
    """What the network sees of one gap, and the unit of each band's error."""

    planes: Float32
    """(PLANES, H, W)."""
    unit: Float32
    """(C, 1, 1): mean absolute error of the harmonised reference where both are clear, in reflectance."""

    def corrected(self, out: Float32, harmonised: Float32, bands: tuple[int, ...]) -> Float32:
        """Give the harmonised reference with what the network adds to it; `out` is (2 BANDS, H, W)."""
        return np.asarray(harmonised + out[list(bands)] * self.unit)

    def expected(self, out: Float32, bands: tuple[int, ...]) -> Float32:
        """Give the expected absolute error (C, H, W) in reflectance."""
        return np.asarray(np.exp(out[[BANDS + band for band in bands]].clip(-5, 3)) * self.unit)


def see(
    target: Float32,
    harmonised: Float32,
    reference: Float32,
    clear: NDArray[np.bool_],
    gap: NDArray[np.bool_],
    bands: tuple[int, ...],
) -> Visible:
    """Give what the network sees of images (C, H, W), clear in both or only in the reference (H, W).

    What the target shows elsewhere has no effect.
    """
    known = clear | gap
    error = np.where(clear, target - harmonised, 0)
    unit = np.maximum(np.abs(error).sum(axis=(1, 2), keepdims=True) / max(clear.sum(), 1), LEAST_ERROR)
    planes = np.zeros((PLANES, *clear.shape), np.float32)
    at = np.array(bands)
    for first, image in ((0, harmonised), (BANDS, reference)):
        mean = image[:, known].mean(axis=1)[:, None, None]
        spread = np.abs(image[:, known] - mean[:, 0]).mean(axis=1)[:, None, None] + LEAST_ERROR
        planes[first + at] = np.where(known, (image - mean) / spread, 0).clip(-CLIPPED, CLIPPED)
        if not first:
            good = float(np.log(unit / spread).mean())
    planes[2 * BANDS + at] = (error / unit).clip(-CLIPPED, CLIPPED)
    planes[3 * BANDS + at] = 1
    planes[-3:] = clear, gap, np.full(clear.shape, good)
    return Visible(planes, unit.astype(np.float32))


@dataclass(frozen=True)
class Pair:
    """A part of the scene and of a reference: images (C, h, w), and masks (h, w)."""

    row: int
    """Its first row in the scene."""
    col: int
    target: Float32
    reference: Float32
    clear: NDArray[np.bool_]
    """Clear in both."""
    gap: NDArray[np.bool_]
    """To be filled, and clear in the reference."""

    def cut(self, cols: slice) -> Pair:
        """Give some columns of it."""
        images = (self.target[:, :, cols], self.reference[:, :, cols])
        return Pair(self.row, self.col + cols.start, *images, self.clear[:, cols], self.gap[:, cols])

    def hide(self, here: NDArray[np.bool_]) -> Pair:
        """Give the same part with some of its clear ground marked as to be filled."""
        return replace(self, clear=self.clear & ~here, gap=self.gap | here)

    def harmonised(self, harmonise: Harmoniser) -> Float32:
        """Give the reference in the target's tones where it is clear, 0 elsewhere."""
        out = np.zeros_like(self.reference)
        rows, cols = np.nonzero(self.clear | self.gap)
        fitted = harmonise(self.reference[:, rows, cols], rows + self.row, cols + self.col)
        out[:, rows, cols] = np.clip(fitted, *PLAUSIBLE)
        return out

    def is_enough(self) -> bool:
        """Say whether the network sees enough clear ground to tell how the two differ."""
        return bool(self.clear.mean() >= LEAST_CLEAR)


@dataclass(frozen=True)
class Corrector:
    """A network, where the bands of the images are among its own, and everything that its results depend on."""

    network: Network
    bands: tuple[int, ...]
    """Bands of the images that it knows."""
    slots: tuple[int, ...]
    """Their places among its own."""
    identity: Mapping[str, str] = field(default_factory=dict)

    @property
    def corrected(self) -> list[int]:
        """Bands of the images that it corrects."""
        return [band for band, slot in zip(self.bands, self.slots, strict=True) if slot not in NOT_CORRECTED]

    def correct(self, pairs: Sequence[Pair], bases: Sequence[Float32]) -> list[Float32]:
        """Give, for tiles of one size and their harmonised references, the corrected bands (K, h, w) of each."""
        known = list(self.bands)
        seen = [
            see(pair.target[known], base[known], pair.reference[known], pair.clear, pair.gap, self.slots)
            for pair, base in zip(pairs, bases, strict=True)
        ]
        out = self.network(np.stack([one.planes for one in seen]))
        if not np.isfinite(out).all():
            raise SceneError("The network that corrects references gave NaN or infinite values: compute in float32.")
        kept = [at for at, slot in enumerate(self.slots) if slot not in NOT_CORRECTED]
        return [
            visible.corrected(one, base[known], self.slots)[kept]
            for visible, one, base in zip(seen, out, bases, strict=True)
        ]


def weights_file() -> Path | None:
    """Give the file of the network; None where the package has none."""
    return find_weights(WEIGHTS) if WEIGHTS in published() else None


def network_sha256() -> str:
    """Give the sha256 of the package's network, on which filled pixels depend; "" where the package has none."""
    return published()[WEIGHTS].sha256 if WEIGHTS in published() else ""


def open_corrector(
    product: Sensor,
    names: Sequence[str],
    *,
    weights: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    backend: str = "auto",
) -> Corrector | None:
    """Give the network for images of a product with these bands ("" where one has no name).

    `weights` name another network than the package's. Gives None where the package has none, or where the network does
    not know the product or any of the bands. Warns where nothing is installed that could run it.
    """
    path = find_weights(weights) if weights else weights_file()
    if path is None:
        return None
    spec = read_header(path).spec
    if not spec.corrects_references:
        raise ConfigError(f"{path.name} restores scenes and does not correct references: give weights that do.")
    places = spec.places(product, band_names(product, names)) if product.product in spec.products else []
    found = sorted((at, slot) for slot, at in enumerate(places) if at is not None)
    if not found:
        return None
    kind = cast(Backend, backend if backend in get_args(Backend) else "auto")
    try:
        predictor = open_predictor(path, device=device, dtype=dtype, backend=kind)
    except ConfigError as error:
        warn(f"References are filled without the network that corrects them: {error}")
        return None
    bands, slots = zip(*found, strict=True)
    return Corrector(predictor, bands, slots, predictor.identity)


def tiles_over(height: int, width: int) -> Grid | None:
    """Lay the network's tiles over a scene, always at the same places; None where it is too small."""
    return grid(height, width, tile=TILE, overlap=OVERLAP) if min(height, width) >= SMALLEST else None


def with_network(
    tuned: Tuned, evidence: Evidence, corrector: Corrector, tiles: Grid, read: Callable[[int, int], Pair]
) -> Tuned:
    """Give a tuned reference with the share of the network that is best on hidden ground of the scene itself.

    `read` gives whole rows [top, bottom) of the scene and the reference.
    """
    checked = tuned.checked
    if evidence.common < LEAST_CLEAR or np.isnan(checked.error) or not corrector.corrected:
        return tuned
    errors, pixels = np.zeros(len(SHARES)), 0
    for hidden in evidence.hidden_cells():
        seen = evidence.seen(hidden)
        base = regression(seen)
        usual = base if checked.method == "regression" else METHODS[checked.method](seen)
        for pair, here in _checked_tiles(tiles, read, hidden, evidence.cells):
            errors += _errors(corrector, pair, here, base, usual)
            pixels += int(here.sum())
    if pixels < LEAST_PIXELS:
        return tuned
    best = int(errors.argmin())
    if errors[best] > SURE * errors[0]:
        best = 0
    expected = checked.error * float(errors[best] / errors[0]) if errors[0] else checked.error
    base = tuned.harmonise if checked.method == "regression" else regression(evidence.seen())
    return replace(tuned, corrected=Corrected(SHARES[best], expected, base) if best else None)


def _checked_tiles(
    tiles: Grid, read: Callable[[int, int], Pair], hidden: NDArray[np.bool_], cells: Cells
) -> Iterator[tuple[Pair, NDArray[np.bool_]]]:
    """Give tiles with much hidden ground, and which of it is clear; only a few rows of tiles are read."""

    def inside(tile: Tile) -> NDArray[np.bool_]:
        down, across = (np.arange(one.start, one.stop) // cells.size for one in (tile.rows, tile.cols))
        return np.asarray(hidden[down[:, None], across])

    counts = np.array([[inside(tile).sum() for tile in tiles.row_of_tiles(row)] for row in tiles.rows])
    best = np.argsort(-counts, axis=1, kind="stable")[:, :TILES_CHECKED]
    sums = np.take_along_axis(counts, best, axis=1).sum(axis=1)
    for at in sorted(np.argsort(-sums, kind="stable")[:ROWS_CHECKED].tolist()):
        row = tiles.row_of_tiles(tiles.rows[at])
        whole = read(row[0].rows.start, row[0].rows.stop)
        for tile in (row[col] for col in sorted(best[at].tolist())):
            pair = whole.cut(tile.cols)
            here = inside(tile) & pair.clear
            if here.any() and pair.hide(here).is_enough():
                yield pair.hide(here), here


def _errors(
    corrector: Corrector, pair: Pair, here: NDArray[np.bool_], base: Harmoniser, usual: Harmoniser
) -> NDArray[np.float64]:
    """Give the sum over hidden pixels of the mean error of the bands, with each share of the network."""
    fitted = pair.harmonised(base)
    filled = fitted if usual is base else pair.harmonised(usual)
    known = Filled(filled, (pair.clear | pair.gap)[None].astype(np.float32))
    was, truth = meet_border(known, pair.target, pair.clear)[:, here], pair.target[:, here]
    (better,) = corrector.correct([pair], [fitted])
    change = np.zeros_like(was)
    change[corrector.corrected] = better[:, here] - was[corrector.corrected]
    return np.array([np.abs(was + share * change - truth).mean(axis=0, dtype=np.float64).sum() for share in SHARES])


@dataclass
class Corrections:
    """What the network adds to each reference, from the first row asked for down; a row of tiles is held."""

    corrector: Corrector
    grid: Grid
    tuned: Sequence[Tuned]
    read: Callable[[int, int], Sequence[Pair]]
    """Gives whole rows [top, bottom) of the scene with each of the references; nothing where there is no gap."""
    batch: int

    def __post_init__(self) -> None:
        self._planes = len(self.corrector.corrected) + 1
        self._blenders = {i: StripBlender(self.grid, self._planes) for i, one in enumerate(self.tuned) if one.corrected}
        self._ready: dict[int, Float32] = {}
        self._top = self._bottom = -1

    def rows(self, top: int, bottom: int, window: int) -> list[Added | None]:
        """Give what is added in rows [top, bottom) to each reference, for rows that begin at row `window`.

        Rows are asked for downwards; from elsewhere it begins anew, with the same numbers.
        """
        if top != self._top:
            self._begin(top)
        while self._bottom < bottom:
            self._run(self._bottom)
        taken: list[Added | None] = [None] * len(self.tuned)
        for i in self._blenders:
            count = bottom - self._top
            rows, self._ready[i] = self._ready[i][:, :count], self._ready[i][:, count:]
            taken[i] = Added(top - window, rows[:-1], rows[-1], self.corrector.corrected)
        self._top = bottom
        return taken

    def _begin(self, top: int) -> None:
        first = next(row for row in self.grid.rows if row + self.grid.tile_height > top)
        for i, blender in self._blenders.items():
            blender.start(first)
            self._ready[i] = np.zeros((self._planes, 0, self.grid.width), np.float32)
        self._top = self._bottom = first
        while self._bottom <= top and self._bottom < self.grid.height:
            self._run(self._bottom)
        for i, rows in self._ready.items():
            self._ready[i] = rows[:, top - first :]
        self._top = top

    def _run(self, row: int) -> None:
        """Run the row of tiles that begins at a row, and take the rows that no later tile touches."""
        below = next((other for other in self.grid.rows if other > row), self.grid.height)
        pairs = self.read(row, row + self.grid.tile_height)
        if pairs:
            weights = np.stack([pair.gap * one.preference for pair, one in zip(pairs, self.tuned, strict=True)])
            counts = weights >= LEAST_WEIGHT * weights.sum(axis=0)
            for i, blender in self._blenders.items():
                self._add(i, blender, pairs[i], pairs[i].gap & counts[i])
        for i, blender in self._blenders.items():
            self._ready[i] = np.concatenate([self._ready[i], blender.finish(below)], axis=1)
        self._bottom = below

    def _add(self, i: int, blender: StripBlender, whole: Pair, wanted: NDArray[np.bool_]) -> None:
        """Add the tiles of one row in which something of a reference is wanted."""
        tuned = self.tuned[i]
        how = tuned.corrected
        assert how is not None, "only corrected references have a blender"
        tiles = [tile for tile in self.grid.row_of_tiles(whole.row) if wanted[:, tile.cols].any()]
        chosen = [(tile, pair) for tile in tiles if (pair := whole.cut(tile.cols)).is_enough()]
        bands = self.corrector.corrected
        for start in range(0, len(chosen), self.batch):
            together = chosen[start : start + self.batch]
            bases = [pair.harmonised(how.base) for _, pair in together]
            better = self.corrector.correct([pair for _, pair in together], bases)
            for (tile, pair), base, one in zip(together, bases, better, strict=True):
                usual = base if how.base is tuned.harmonise else pair.harmonised(tuned.harmonise)
                change = np.where(pair.gap, one - usual[bands], 0)
                planes = np.concatenate([change, pair.gap[None]]).astype(np.float32)
                blender.add(tile, np.float32(how.share) * planes)
