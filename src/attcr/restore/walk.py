"""The walk of the pixels: rows in, tiles through the network, blended rows out.

The network is asked for its *change*: prediction minus input, in the network's range. Changes are blended, not
pixels, so that where the network changes nothing the number that came is the one that leaves, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import RGB, Sensor, into_dtype
from attcr.bands.spec import InputSpec
from attcr.errors import SceneError, ShapeError
from attcr.evidence.ground import STEP, Expected, Ground, Grounds, Seen
from attcr.predict import Float32, Predictor, eight_views
from attcr.references.harmonise import plausible
from attcr.restore.options import RestoreOptions
from attcr.restore.radar import Decibels, UnderCloud
from attcr.scenes.blend import StripBlender
from attcr.scenes.clouds.masks import THICK
from attcr.scenes.clouds.rim import CloudMap, CloudRows
from attcr.scenes.image import Image
from attcr.scenes.tiles import Grid, Tile

Array = NDArray[Any]

NODATA, ORIGINAL, UNDER_THIN, UNDER_THICK, LOW_CONFIDENCE, CLOUD_LEFT, FROM_DATE, FROM_RADAR = range(8)
"""The classes of a quality raster."""
QUALITY_NAMES = (
    "no data",
    "original",
    "reconstructed under thin cloud",
    "reconstructed under thick cloud",
    "reconstructed with low confidence",
    "cloud left as it came",
    "from another date",
    "from radar",
)
QUALITY_COLOURS: dict[int, tuple[int, ...]] = {
    NODATA: (0, 0, 0, 0),
    ORIGINAL: (190, 190, 190, 255),
    UNDER_THIN: (115, 178, 255, 255),
    UNDER_THICK: (0, 92, 230, 255),
    LOW_CONFIDENCE: (230, 76, 0, 255),
    CLOUD_LEFT: (255, 211, 127, 255),
    FROM_DATE: (76, 160, 90, 255),
    FROM_RADAR: (152, 102, 204, 255),
}
LOW_SPREAD = 0.05
"""Spread of the eight views, as a part of the model's range, above which a pixel counts as low confidence."""
LARGE_ERROR = 0.02
"""Expected absolute error, in reflectance, above which a pixel counts as low confidence."""
LARGE_CHANGE = 0.06
"""Change, in reflectance and mean over the bands, above which weights that predict their error are not believed: on
SEN12MS-CR's pairs they are then wrong by more than `LARGE_ERROR`, and the core of dense cirrus comes out too dark."""
HELD_BACK = 1.25
"""Where only the network says what is there, a change of this many times `LARGE_CHANGE` is not made, and less and less
of one that is larger than `LARGE_CHANGE`."""
DOUBTED = 1.25
"""A change that the network expects to be this many times as wrong as it is large is not made either, and nothing where
it expects to be as wrong: a bright desert under no cloud is such a place. In real haze it expects a third to a half."""
BLUISH = 0.05
"""How much bluer than red an image is where all that the network takes away is believed to be cloud: dense cloud over
dark ground is white or bluish, a bright desert is red, and comes out black."""
THICK_CHANGE = 0.2
"""Without a mask, a change above this part of the model's range counts as thick cloud; by weights that do not remove
any, as low confidence."""
NEAR_OPAQUE = 2
"""Pixels around opaque cloud that are left with it where clear ground says what is under the thin cloud around; the
network alone is wrong about more of them."""
SMALLEST_INPUT = 8
"""Pixels along a side that networks take at least."""


@dataclass(frozen=True)
class Strip:
    """Finished rows of a walk: the original, the result, and what is known about them."""

    top: int
    came: Array
    values: Array
    quality: NDArray[np.uint8]
    spread: Float32 | None
    left: NDArray[np.bool_] | None = None
    """Where cloud is that the weights do not remove."""
    cloudy: NDArray[np.bool_] | None = None
    """Where bands that the network does not give are still under cloud: all that it changed, or left."""
    dates: NDArray[np.int16] | None = None
    """(3 + N, rows, W): mean day of the references that a pixel is from, the main one, how many, the weight of each."""

    def cut(self, window: Tile) -> Strip:
        """Give what of it lies in a window, counted from there; no rows where nothing does."""
        rows = self.values.shape[1]
        first, last = (min(max(row - self.top, 0), rows) for row in (window.rows.start, window.rows.stop))

        def of(rows: Array) -> Array:
            return np.ascontiguousarray(rows[..., first:last, window.cols])

        spread, left, cloudy, dates = (
            None if one is None else of(one) for one in (self.spread, self.left, self.cloudy, self.dates)
        )
        top = self.top + first - window.row
        return Strip(top, of(self.came), of(self.values), of(self.quality), spread, left, cloudy, dates)


Others = Callable[[int, int], tuple[Float32, Float32]]
"""Gives rows [top, bottom) of what other images show (E, h, W), finite, and how far they show it (h, W), 0..1."""


@dataclass
class Walk:
    """The walk of the pixels: rows in, tiles through the network, blended rows out."""

    rows: Image
    """The image's bands, those that the network takes."""
    spec: InputSpec
    predictor: Predictor | None
    """What restores; None: nothing does, and no tile is run."""
    sensor: Sensor
    """Fitted to the network (`InputSpec.fit`)."""
    grid: Grid
    clouds: CloudMap | None
    nodata: Sequence[float | None]
    options: RestoreOptions
    slots: Sequence[str]
    """The slots that the bands go into, one for each."""
    radar: Decibels | None = None
    """For a network that takes it."""
    ground: Ground | Grounds | None = None
    """What is expected under thin cloud and shadow by the scene's own clear ground; the network restores the rest."""
    under_thick: UnderCloud | None = None
    """What radar says of the ground under cloud that the network leaves."""
    on_tiles: Callable[[int], None] | None = None
    fill: Callable[[Strip], Strip] | None = None
    """What fills finished rows from other dates."""

    def __post_init__(self) -> None:
        spec = self.spec
        self._removes_thick = "thick" in spec.removes
        if self.clouds is not None and not self._removes_thick:
            self.clouds = replace(self.clouds, leaves_thick=self.options.unseen != "fill")
            if self.options.unseen == "nodata":
                self._blank = [blank_of(nodata, self.sensor, self.rows.dtype) for nodata in self.nodata]
        self._planes = spec.positions(self.slots)
        self._radar_planes = spec.positions(slot.name for slot in spec.of_kind("sar"))
        self._radar_sensor = spec.radar() if self.radar else None
        outputs = [(i, name) for i, name in enumerate(spec.outputs) if name in self.slots]
        self._outputs = [i for i, _ in outputs]
        self._inputs = spec.positions(name for _, name in outputs)
        self._bands = [list(self.slots).index(name) for _, name in outputs]
        told = {f"present:{name}" for name in self.slots} | ({"level:surface"} if self.sensor.surface else set())
        self._told_planes = spec.positions(slot.name for slot in spec.slots if slot.name in told)
        steps = [(slot.high - slot.low) / slot.span for slot in spec.slots]
        self._units = np.array([steps[i] for i in self._inputs], np.float32).reshape(-1, 1, 1)

    @property
    def has_spread(self) -> bool:
        """Whether a spread comes out: predicted by the network, or of eight views."""
        return self.spec.spread or self.options.confidence

    def tiles_to_run(self, row: int) -> list[Tile]:
        """Give the tiles at this row that have something to restore."""
        if self.predictor is None:
            return []
        if self.clouds is None:
            return self.grid.row_of_tiles(row)
        return [tile for tile in self.clouds.cloudy_tiles(self.grid, row) if not self._is_supported(tile)]

    def _is_supported(self, tile: Tile) -> bool:
        """Say whether clear ground around says all about a tile, so that the network is not asked."""
        if self.ground is None or self.options.unseen == "fill":
            return False
        rows, columns = (
            slice(max(begin // STEP - 1, 0), (begin + size) // STEP + 2)
            for begin, size in ((tile.row, tile.height), (tile.col, tile.width))
        )
        return bool(self.ground.support[rows, columns].min() >= 1)

    def strips(self, first_row: int = 0) -> Iterator[Strip]:
        """Give finished rows, top to bottom; no more than a row of tiles is held.

        `first_row` is where an earlier walk's last strip ended; the tiles that reach beyond it are run again.
        """
        tiles = self.grid
        blender = StripBlender(tiles, len(self._outputs))
        spreads = StripBlender(tiles, 1) if self.has_spread else None
        span = 1.0 if self.spec.spread else self.sensor.range.span
        begin = next(row for row in tiles.rows if row + tiles.tile_height > first_row)
        for one in (blender, spreads):
            if one is not None:
                one.start(begin)
        values = self.rows.read(begin, begin)
        for row, below in zip(tiles.rows, [*tiles.rows[1:], tiles.height], strict=True):
            if row < begin:
                continue
            bottom = row + tiles.tile_height
            kept = values.shape[1]
            values = np.concatenate([values, self.rows.read(row + kept, bottom)], axis=1)
            valid = self.rows.valid(values, row, blank=self.sensor.nodata)
            radar = self.radar.read(row, bottom) if self.radar else None
            self._run(row, values, valid, radar, blender, spreads)
            done = below - row
            change = blender.finish(below)
            spread = spreads.finish(below)[0] / span if spreads else None
            if row >= first_row:
                strip = self._finish(row, values[:, :done], valid[:, :done], change, spread)
                yield self.fill(strip) if self.fill else strip
            values = values[:, done:]

    def _run(
        self,
        row: int,
        values: Array,
        valid: NDArray[np.bool_],
        radar: Array | None,
        blender: StripBlender,
        spreads: StripBlender | None,
    ) -> None:
        tiles = [tile for tile in self.tiles_to_run(row) if valid[:, :, tile.cols].any()]
        for start in range(0, len(tiles), self.options.batch):
            together = tiles[start : start + self.options.batch]
            x = np.stack([self._to_model(values, valid, radar, tile) for tile in together])
            changes, spread = self.changes(x)
            for i, tile in enumerate(together):
                blender.add(tile, changes[i])
                if spreads is not None and spread is not None:
                    spreads.add(tile, spread[i][None])
            if self.on_tiles:
                self.on_tiles(len(together))

    def veil(self, values: Array, valid: NDArray[np.bool_]) -> Float32:
        """Give what the network takes away from the visible bands of an image (C, h, w), in reflectance (h, w)."""
        _, height, width = values.shape
        x = self._to_model(values, valid, None, Tile(0, 0, height, width))
        change, _ = self._change(x[None])
        names = [self.slots[band] for band in self._bands]
        visible = [i for i, name in enumerate(names) if name in RGB] or list(range(len(names)))
        taken: Float32 = -(change[0][visible] * self._units[visible]).mean(axis=0)
        return taken

    def ask_the_ground(self, others: Others | None = None) -> None:
        """Let the scene's clear ground say what is under thin cloud and in shadow, and what `others` show of it."""
        if self.clouds is not None:
            self.clouds = replace(self.clouds, near_thick=min(NEAR_OPAQUE, self.clouds.rim.dilate))
            size = self.rows.height, self.rows.width, len(self.rows.bands)
            if others is None:
                self.ground = Ground(self._seen(self.clouds), *size, (True, True))
            else:
                self.ground = Grounds(self._seen(self.clouds, others), *size, (True, True), len(others(0, 1)[0]))

    def ask_the_radar(self, radar: Decibels) -> None:
        """Let radar say what is under thick cloud, where it says more of the scene's ground than the surroundings."""
        assert self.clouds is not None, "without clouds nothing is under them"
        clouds, seen = self.clouds, self._seen(self.clouds)

        def read(top: int, bottom: int) -> Seen:
            rows = seen(top, bottom)
            thick = clouds.rows(top, bottom).thick
            return Seen(rows.values, rows.clear, thick[None].astype(np.float32))

        under = UnderCloud(read, radar, self.rows.height, self.rows.width, len(self.rows.bands))
        self.under_thick = under if under.earned() else None

    def _seen(self, clouds: CloudMap, others: Others | None = None) -> Callable[[int, int], Seen]:
        """Give what reads rows as evidence: reflectance, what is surely clear, and what is under cloud or in shadow."""

        def read(top: int, bottom: int) -> Seen:
            values = self.rows.read(top, bottom)
            shown = self.sensor.to_reflectance(values)
            valid = self.rows.valid(values, top, blank=self.sensor.nodata).all(axis=0) & plausible(shown)
            values = np.where(valid, shown, np.float32(0))
            found = clouds.rows(top, bottom)
            cover = np.where(valid & ~found.thick, found.weights, np.float32(0))
            clear = (valid & found.sure).astype(np.float32)
            covers = np.stack([cover * (1 - found.dark), cover * found.dark])
            if others is None:
                return Seen(values, clear, covers)
            shown, known = others(top, bottom)
            return Seen(np.concatenate([values, shown]), clear, covers, known)

        return read

    def _to_model(self, values: Array, valid: NDArray[np.bool_], radar: Array | None, tile: Tile) -> Float32:
        """Give one tile's input; what is no data gets the mean of its band, in this tile only.

        A slot that nothing goes into stays 0.
        """
        x = np.zeros((len(self.spec.slots), tile.height, tile.width), np.float32)
        x[self._told_planes] = 1
        x[self._planes] = _filled(self.sensor.to_model(values[:, :, tile.cols]), valid[:, :, tile.cols])
        if radar is not None and self._radar_sensor is not None:
            seen = self._radar_sensor.to_model(radar[:, :, tile.cols])
            x[self._radar_planes] = _filled(seen, np.isfinite(seen))
        return x

    def changes(self, x: Float32) -> tuple[Float32, Float32 | None]:
        """Give what the network adds to the bands of (B, slots, h, w), and the spread (B, h, w) if there is one.

        The spread is the expected absolute error in reflectance, the mean over the bands, where the network predicts
        it; else the deviation of eight flips and turns, in the network's range, where that was asked for.
        """
        if self.spec.spread or not self.options.confidence:
            return self._change(x)
        views = eight_views(lambda seen: self._change(seen)[0], x)
        return views[0], views.std(axis=0).mean(axis=1)

    def _change(self, x: Float32) -> tuple[Float32, Float32 | None]:
        height, width = x.shape[2:]
        missing = (max(SMALLEST_INPUT - height, 0), max(SMALLEST_INPUT - width, 0))
        if any(missing):
            x = np.pad(x, ((0, 0), (0, 0), (0, missing[0]), (0, missing[1])), mode="edge")
        assert self.predictor is not None, "no tile is run without one"
        y, spec = self.predictor(x), self.spec
        planes = len(spec.outputs) * (2 if spec.spread else 1)
        if y.shape != (x.shape[0], planes, *x.shape[2:]):
            raise ShapeError(f"The network gave {y.shape} for {x.shape}; expected {planes} planes of the same size.")
        change = y[:, self._outputs] - x[:, self._inputs]
        if not np.isfinite(change).all():
            kind = self.predictor.identity.get("dtype", "its type")
            raise SceneError(
                f"The network gave values that are not numbers in {kind}: compute in float32, and check the weights "
                "if it does already."
            )
        trimmed: Float32 = change[:, :, :height, :width]
        if not spec.spread:
            return trimmed, None
        logs = y[:, [len(spec.outputs) + i for i in self._outputs], :height, :width]
        expected = np.exp(np.clip(logs, -20, 5)) * (self._units * np.float32(spec.spread_factor))
        expected = np.hypot(expected, np.float32(spec.spread_floor))
        return trimmed, expected.mean(axis=1)

    def _finish(
        self,
        top: int,
        values: Array,
        valid: NDArray[np.bool_],
        change: Float32,
        spread: Float32 | None,
    ) -> Strip:
        """Give the restored rows and their quality."""
        _, height, width = values.shape
        if self.clouds is None:
            weights, clouds = np.ones((height, width), np.float32), None
        else:
            clouds = self.clouds.rows(top, top + height)
            weights = clouds.weights
        out = values.copy()
        touched = np.zeros((height, width), bool)
        expected = self.ground.rows(top, top + height) if self.ground and (weights > 0).any() else None
        if expected is not None and clouds is not None:
            expected = expected._replace(support=np.where(clouds.thick, np.float32(0), expected.support))
        asked, held = change, np.zeros((height, width), bool)
        if expected is not None and self.spec.spread and spread is not None:
            change, held = self._held_back(change, values, spread)
            held &= (expected.support < 0.5) & (weights > 0)
        for added, band in zip(change, self._bands, strict=True):
            trust = np.zeros((height, width), np.float32) if expected is None else expected.support
            here = ((added != 0) | (trust > 0)) & (weights > 0) & valid[band]
            touched |= here
            if here.any():
                came = values[band][here]
                restored = self._restored(band, came, added[here])
                if expected is not None:
                    known = self.sensor.from_reflectance(expected.values[band][here])
                    restored += trust[here] * (known - restored)
                weight = weights[here]
                mixed = np.where(weight == 1, restored, came + weight * (restored - came))
                out[band][here] = avoid(into_dtype(mixed, values.dtype), self.nodata[band])
        if expected is not None:
            asked = asked * (1 - expected.support)
            spread = None if spread is None else _mixed_error(expected, spread)
        quality = np.where(valid.any(axis=0), ORIGINAL, NODATA).astype(np.uint8)
        quality[touched] = self._class_of_restored(asked, clouds, spread, valid)[touched]
        held &= quality != NODATA
        quality[held] = CLOUD_LEFT
        if clouds is not None and not self._removes_thick:
            thick = clouds.thick & (quality != NODATA)
            told, off = self._from_radar(top, thick, valid, out)
            quality[told] = FROM_RADAR
            touched |= told
            spread = spread if spread is None or off is None else np.where(told, off, spread)
            self._leave(thick & ~told, out, quality)
            held |= thick & ~told
        if spread is not None:
            unknown = np.isin(quality, (NODATA, CLOUD_LEFT))
            spread = np.where(touched, spread, np.where(unknown, np.nan, 0)).astype(np.float32)
        return Strip(top, values, out, quality, spread, held, touched | held)

    def _from_radar(
        self, top: int, thick: NDArray[np.bool_], valid: NDArray[np.bool_], out: Array
    ) -> tuple[NDArray[np.bool_], Float32 | None]:
        """Lay in what radar says is under thick cloud; say where it does, and how far it may be off."""
        if self.under_thick is None or not thick.any():
            return np.zeros_like(thick), None
        expected, known = self.under_thick.rows(top, top + len(thick))
        told = thick & known & valid.all(axis=0)
        for band, values in enumerate(self.sensor.from_reflectance(expected.values)):
            out[band][told] = avoid(into_dtype(values[told], out.dtype), self.nodata[band])
        return told, expected.error

    def _held_back(self, change: Float32, values: Array, spread: Float32) -> tuple[Float32, NDArray[np.bool_]]:
        """Make less of a change that is not believed, and none where less than a half would be left; say where."""
        size = (np.abs(change) * self._units).mean(axis=0)
        times = size / LARGE_CHANGE
        kept = np.clip((HELD_BACK - times) / (HELD_BACK - 1), 0, 1).astype(np.float32)
        if (kept < 1).any() and {"red", "blue"} <= set(self.slots):
            red, blue = self.sensor.to_reflectance(values)[[list(self.slots).index(name) for name in ("red", "blue")]]
            bluer = np.clip((blue / np.maximum(red, np.float32(1e-3)) - 1) / BLUISH, 0, 1)
            kept = np.where(change.mean(axis=0) < 0, np.maximum(kept, bluer), kept)
        kept = kept * np.clip((DOUBTED - spread / np.maximum(size, np.float32(1e-6))) / (2 * DOUBTED - 2), 0, 1)
        held = kept < 0.5
        return np.where(held, np.float32(0), change * kept).astype(np.float32), held

    def _restored(self, band: int, came: Array, added: Float32) -> NDArray[np.float64]:
        """Give what the network makes of numbers (n,) of a band."""
        sensor = self.sensor.band(band)
        x = sensor.to_model(came.reshape(1, 1, -1)).astype(np.float64) + added
        return sensor.from_model(x, np.float64).ravel()

    def _class_of_restored(
        self, change: Float32, clouds: CloudRows | None, spread: Float32 | None, valid: NDArray[np.bool_]
    ) -> NDArray[np.uint8]:
        """Give the class that each pixel has if the network changed it."""
        unsure = ~valid.all(axis=0)
        if clouds is None:
            thick = np.abs(change).mean(axis=0) > THICK_CHANGE * self.sensor.range.span
            if not self._removes_thick:
                unsure |= thick
        else:
            thick = clouds.classes == THICK
        if self.spec.spread:
            unsure |= (np.abs(change) * self._units).mean(axis=0) > LARGE_CHANGE
        if spread is not None:
            unsure |= spread > (LARGE_ERROR if self.spec.spread else LOW_SPREAD)
        return np.where(unsure, LOW_CONFIDENCE, np.where(thick, UNDER_THICK, UNDER_THIN)).astype(np.uint8)

    def _leave(self, left: NDArray[np.bool_], out: Array, quality: NDArray[np.uint8]) -> None:
        """Do with cloud that the weights do not remove what the options say."""
        if self.options.unseen == "fill":
            quality[left] = LOW_CONFIDENCE
        elif self.options.unseen == "keep":
            quality[left] = CLOUD_LEFT
        else:
            quality[left] = NODATA
            for plane, nodata in zip(out, self._blank, strict=True):
                plane[left] = nodata


def blank_of(nodata: float | None, sensor: Sensor, dtype: np.dtype[Any]) -> float:
    """Give what a band's pixels are where there is nothing: the value it declares, else its product's, else NaN."""
    known = [value for value in (nodata, sensor.nodata) if value is not None]
    if not known and dtype.kind != "f":
        raise SceneError(
            f"Cloud that the weights do not remove is to become no data, and the scene ({dtype}) declares no value for "
            "that: give one with `nodata`, or leave the cloud as it is (`unseen=keep`)."
        )
    return float(known[0]) if known else float("nan")


def _mixed_error(expected: Expected, spread: Float32) -> Float32:
    """Give the expected error where clear ground says a part and the network the rest."""
    mixed: Float32 = spread + expected.support * (expected.error - spread)
    return mixed


def _filled(x: Float32, valid: NDArray[np.bool_]) -> Float32:
    """Give x (C, h, w) with the mean of what is valid in its band wherever it is not."""
    if valid.all():
        return x
    count = valid.sum(axis=(1, 2), keepdims=True)
    total = np.where(valid, x, 0).sum(axis=(1, 2), keepdims=True, dtype=np.float64)
    mean = (total / np.maximum(count, 1)).astype(np.float32)
    return np.where(valid, x, mean)


def avoid(values: Array, nodata: float | None) -> Array:
    """Keep restored values from becoming nodata by chance: one step aside is closer than a hole."""
    if nodata is None or np.isnan(nodata):
        return values
    hit = values == nodata
    if hit.any():
        if values.dtype.kind == "f":
            values[hit] = np.nextafter(values[hit], np.inf)
        else:
            values[hit] = nodata - 1 if nodata == np.iinfo(values.dtype).max else nodata + 1
    return values
