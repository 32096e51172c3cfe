"""Pairs of dates to train on: real ones, and clear images with a simulated other date. README.md tells of the files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from attcr.bands.sensors import S2_L1C_BANDS, S2_WAVELENGTHS
from attcr.references.harmonise import Float32

from ..s2_thin.samples import L2A, LKP, TEN, patches_held_out, places_held_out  # type: ignore[import-not-found]
from .change import another_date

WINDOW = 256
NANOMETRES = np.array(S2_WAVELENGTHS, np.float64)
BAND_SETS: Mapping[tuple[int, ...], float] = {
    tuple(range(len(S2_L1C_BANDS))): 0.35, TEN: 0.3, L2A: 0.05, (1, 2, 3, 8, 11, 12): 0.1, (0, 1, 2, 3, 7, 11, 12): 0.1,
    (1, 2, 3, 7): 0.1,
}  # fmt: skip
"""Bands by their place among the 13, and how often they are shown."""
LKP_DATES = ("2018-08-12", "2018-08-22", "2018-09-01", "2018-09-11", "2018-09-21", "2018-10-01", "2018-10-11",
    "2018-10-21", "2018-10-31", "2018-11-10", "2019-04-09", "2019-05-09", "2019-06-18", "2019-06-28", "2019-07-08",
    "2019-07-28")  # fmt: skip
"""Dates of lkp.npz that are clear for the most part; in the others gaps were interpolated."""
LKP_EAST = 744
"""Its columns from here on are held out."""
WIDENED = {1, 3, 8, 11, 12}
"""Bands that the others can be told from, roughly."""
SIMULATED = ("l1c", "l2a")
RICE_BANDS = (11, 8, 3)
RICE_WHITE = 0.5
"""Reflectance that a picture's white is taken for."""


@dataclass(frozen=True)
class Pair:
    """Two dates of a place on one grid."""

    source: str
    target: Float32
    """(C, H, W) reflectance."""
    reference: Float32
    valid: NDArray[np.bool_]
    """Where both are clear."""
    bands: tuple[int, ...]
    """Their places among the 13."""


class Pairs:
    """Pairs of all sources; `held` gives those of the places that are not trained on."""

    def __init__(self, data: Path, rice2: Path, draw: np.random.Generator, *, held: bool = False) -> None:
        self.draw, self.held, self.rice2 = draw, held, rice2
        df = np.load(data / "df.npz")
        ok = (df["cloud"] < 0.01) & (df["qa"] < 0.02) & (df["native"] > 0.9) & (df["nodata"] == 0)
        self.l1c = df["a"][ok & (places_held_out(df["lon"], df["lat"]) == held)]
        eu = np.load(data / "eu.npz")
        patches = eu["a"][patches_held_out(eu["ids"]) == held]
        self.l2a = patches[patches[:, 7].mean(axis=(1, 2)) > 600]  # without open water
        lkp = np.load(data / "lkp.npz")
        rows = [list(lkp["dates"]).index(date) for date in LKP_DATES]
        self.lkp = lkp["a"][rows][..., LKP_EAST:] if held else lkp["a"][rows][..., :LKP_EAST]
        self.series = {name: _series(data / f"{name}.npz") for name in ("20LLQ_20m", "20LKP_20m")}
        self.hls = _alike(np.load(data / "hls.npz")["a"][:, :7])
        names = (rice2 / ("test_list.txt" if held else "train_list.txt")).read_text().split()
        self.rice = [name for name in names if (rice2 / "label" / f"{name}.webp").exists()]
        self.sources: dict[str, tuple[float, Callable[[], Pair | None]]] = {
            "l1c": (0.34, self._l1c), "l2a": (0.05, self._l2a), "lkp": (0.25, self._lkp), "rice2": (0.05, self._rice2),
        }  # fmt: skip
        if not held:
            self.sources |= {
                "20LLQ_20m": (0.3, lambda: self._of_series("20LLQ_20m")),
                "20LKP_20m": (0.08, lambda: self._of_series("20LKP_20m")),
                "hls": (0.07, self._hls),
            }

    def __str__(self) -> str:
        return (
            f"{len(self.l1c)} L1C places, {len(self.l2a)} L2A patches, {len(self.rice)} of RICE2, {len(self.hls)} HLS"
        )

    def next(self, source: str | None = None) -> Pair:
        """Draw a pair of at least 60 % clear ground."""
        while True:
            shares = np.array([share for share, _ in self.sources.values()])
            name = source or str(self.draw.choice(list(self.sources), p=shares / shares.sum()))
            pair = self.sources[name][1]()
            if pair is not None and pair.valid.mean() > 0.6:
                return self._turn(pair)

    def _turn(self, pair: Pair) -> Pair:
        target, reference = pair.target, pair.reference
        if self.draw.random() < (0.35 if pair.source in SIMULATED else 0.5):
            target, reference = reference, target
        turned = Pair(
            pair.source, np.ascontiguousarray(target), np.ascontiguousarray(reference), pair.valid, pair.bands
        )
        return self._widened(turned) if set(pair.bands) >= WIDENED and self.draw.random() < 0.6 else turned

    def _widened(self, pair: Pair) -> Pair:
        """Give a real pair bands that it does not have, from those beside them in wavelength.

        Otherwise simulated change would be all that the network ever sees of ten bands and more.
        """
        bands = TEN if self.draw.random() < 0.5 else tuple(range(len(S2_L1C_BANDS)))
        noise = 10 ** self.draw.uniform(-3.3, -2.6)

        def widened(image: Float32) -> Float32:
            order = np.argsort(NANOMETRES[list(pair.bands)])
            have = NANOMETRES[list(pair.bands)][order]
            planes = []
            for band in bands:
                if band in pair.bands:
                    planes.append(image[pair.bands.index(band)])
                    continue
                at = float(np.interp(NANOMETRES[band], have, np.arange(len(have))))
                low = min(int(at), len(have) - 2)
                one, two = image[order[low]], image[order[low + 1]]
                mixed = one + (at - low) * (two - one)
                if S2_L1C_BANDS[band] == "B10":
                    mixed = 0.001 + 0.01 * mixed
                planes.append(np.maximum(mixed + self.draw.normal(0, noise * mixed.mean() / 0.2, mixed.shape), 1e-4))
            return np.stack(planes).astype(np.float32)

        return Pair(pair.source, widened(pair.target), widened(pair.reference), pair.valid, bands)

    def _simulated(self, source: str, pixels: NDArray[Any], have: tuple[int, ...]) -> Pair | None:
        sets = [tuple(band for band in bands if band in have) for bands in BAND_SETS]
        bands = sets[int(self.draw.choice(len(sets), p=list(BAND_SETS.values())))]
        clear = (pixels[[have.index(band) for band in bands]] / 1e4).astype(np.float32)
        other = another_date(clear, NANOMETRES[list(bands)], self.draw)
        return Pair(source, clear, other, np.asarray((clear > 0).all(axis=0)), bands)

    def _l1c(self) -> Pair | None:
        return self._simulated("l1c", self.l1c[self.draw.integers(len(self.l1c))], tuple(range(len(S2_L1C_BANDS))))

    def _l2a(self) -> Pair | None:
        """Sixteen patches beside one another: kinds of ground that are seldom together."""
        some = self.l2a[self.draw.choice(len(self.l2a), 16, replace=False)]
        size = some.shape[-1]
        sheet = some.reshape(4, 4, -1, size, size).transpose(2, 0, 3, 1, 4).reshape(-1, 4 * size, 4 * size)
        return self._simulated("l2a", sheet, L2A)

    def _lkp(self) -> Pair | None:
        first, second = self.draw.choice(len(self.lkp), 2, replace=False)
        return self._cut("lkp", self.lkp[first], self.lkp[second], LKP)

    def _of_series(self, name: str) -> Pair | None:
        images, bands = self.series[name]
        first = int(self.draw.integers(len(images)))
        second = int(np.clip(first + self.draw.choice([-4, -3, -2, -1, 1, 2, 3, 4]), 0, len(images) - 1))
        return None if first == second else self._cut(name, images[first], images[second], bands)

    def _cut(self, source: str, one: NDArray[Any], two: NDArray[Any], bands: tuple[int, ...]) -> Pair | None:
        """Cut a window out of both."""
        row, col = (int(self.draw.integers(max(size - WINDOW, 0) + 1)) for size in one.shape[1:])
        here = (slice(None), slice(row, row + WINDOW), slice(col, col + WINDOW))
        target, reference = ((image[here] / 1e4).astype(np.float32) for image in (one, two))
        cloudy = np.logical_or(*(_bright(image[bands.index(1)]) for image in (target, reference)))
        return Pair(source, target, reference, ((target > 0) & (reference > 0)).all(axis=0) & ~cloudy, bands)

    def _hls(self) -> Pair | None:
        one, two = self.hls[self.draw.integers(len(self.hls))]
        return self._cut("hls", one, two, (0, 1, 2, 3, 8, 11, 12))

    def _rice2(self) -> Pair | None:
        from PIL import Image

        name = self.rice[self.draw.integers(len(self.rice))]
        with (
            Image.open(self.rice2 / "cloud" / f"{name}.webp") as one,
            Image.open(self.rice2 / "label" / f"{name}.webp") as two,
        ):
            cloudy, label = (np.asarray(image, np.float32).transpose(2, 0, 1) for image in (one, two))
        row, col = (int(self.draw.integers(size - WINDOW + 1)) for size in label.shape[1:])
        here = (slice(None), slice(row, row + WINDOW), slice(col, col + WINDOW))
        cloudy, label = cloudy[here], label[here]
        clear = _clear(cloudy, label)
        if clear.mean() < 0.6:
            return None
        target, reference = (np.maximum(image / 255 * RICE_WHITE, 1e-4) for image in (cloudy, label))
        return Pair("rice2", target, reference, clear, RICE_BANDS)


def _clear(cloudy: Float32, label: Float32) -> NDArray[np.bool_]:
    """Say where a picture of RICE2 (swir16, nir08, red; 0 to 255) shows neither cloud nor shadow, roughly."""
    soft, other = (np.stack([ndimage.gaussian_filter(band, 2) for band in image]) for image in (cloudy, label))
    change = soft - np.median(soft - other, axis=(1, 2), keepdims=True) - other
    cloud = (change[2] > 25) | (soft[2] > 200) | (change.min(axis=0) > 15)
    shadow = (change[1] < -40) & (change[2] < 5)
    near: NDArray[np.bool_] = ndimage.binary_dilation(cloud | shadow, iterations=6)
    return ~near


def _bright(blue: Float32) -> NDArray[np.bool_]:
    """Say where there may be cloud, with what is near."""
    near: NDArray[np.bool_] = ndimage.binary_dilation(blue > np.median(blue) + 0.06, iterations=5)
    return near


def _series(path: Path) -> tuple[list[NDArray[Any]], tuple[int, ...]]:
    stored = np.load(path)
    images = [image for image in stored["a"] if (image <= 0).any(axis=0).mean() < 0.1]
    return images, tuple(S2_L1C_BANDS.index(str(name)) for name in stored["bands"])


def _alike(patches: NDArray[Any]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Give the pairs of patches that show one place, as their near infrared says."""
    flat = patches[:, 4, ::2, ::2].reshape(len(patches), -1).astype(np.float32)
    flat = (flat - flat.mean(axis=1, keepdims=True)) / (flat.std(axis=1, keepdims=True) + 1e-6)
    alike = np.triu(flat @ flat.T / flat.shape[1], 1)
    return [(patches[i], patches[j]) for i, j in zip(*np.nonzero((alike > 0.8) & (alike < 0.995)), strict=True)]
