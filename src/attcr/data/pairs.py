"""Samples of a cloudy input and a clear target, and pairs of any two folders with matching names."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import Sensor
from attcr.bands.spec import TRUE_COLOUR, InputSpec
from attcr.errors import DataError, DataNotFoundError, ShapeError
from attcr.extras import needed

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import Dataset as Dataset
else:
    try:
        from torch.utils.data import Dataset
    except ImportError:  # `evaluate` runs without torch

        class Dataset(Generic[TypeVar("T")]):
            """A base without torch."""


Array = NDArray[Any]

PICTURES = (".png", ".jpg", ".jpeg", ".webp")
RASTERS = (".tif", ".tiff")

EIGHT_BIT = Sensor("8-bit", (), 1 / 255, 0.0, picture=True)
"""Pictures of any bands: 255 is white."""


class Sample(TypedDict):
    """One item of a data set: float32 planes in the range that the set's spec says, and the name without ending.

    Where torch is not installed, planes and masks are numpy arrays.
    """

    inputs: "Tensor"
    """(S, H, W), a plane for each of the set's slots, in their order."""
    clear: "Tensor"
    """(C, H, W), a plane for each of the set's outputs, in their order."""
    masks: "dict[str, Tensor]"
    """(H, W) by name; may be empty."""
    name: str


Transform = Callable[[Sample], Sample]


class Samples(Protocol):
    """A data set, opened: a torch `Dataset` of samples that says what their planes are."""

    @property
    def spec(self) -> InputSpec:
        """What the planes of `inputs` and `clear` are."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the samples, in order."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Sample: ...


@cache
def _eight_bit_table(spec: InputSpec) -> NDArray[np.float32]:
    return spec.fit(EIGHT_BIT).to_model(np.arange(256, dtype=np.uint8).reshape(1, 1, 256)).reshape(256)


def read_image(path: Path) -> Array:
    """Read a file as (C, H, W): pictures through Pillow as 8-bit RGB, TIFF through rasterio as stored."""
    if path.suffix.lower() in RASTERS:
        return read_raster(path)
    with needed():
        from PIL import Image, UnidentifiedImageError
    try:
        with Image.open(path) as image:
            if image.mode.startswith(("I", "F")):
                raise DataError(f"{path} holds more than 8 bits a band (mode {image.mode}): store it as TIFF")
            return np.ascontiguousarray(np.asarray(image.convert("RGB")).transpose(2, 0, 1))
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise unreadable(path, error) from error


def read_raster(path: Path) -> Array:
    """Read the bands of a raster as stored, (C, H, W). Opened and closed here: no handle crosses a fork."""
    with needed():
        import rasterio
    try:
        with rasterio.open(path) as raster:
            bands: Array = raster.read()
    except rasterio.errors.RasterioError as error:
        raise unreadable(path, error) from error
    return bands


def unreadable(path: Path, error: Exception) -> DataError | DataNotFoundError:
    """Give the error of a file that is missing or damaged."""
    if not path.exists():
        return DataNotFoundError(f"{path} is not there")
    return DataError(f"{path} cannot be read ({error}): it is damaged, copy or download it again")


def images_in(folder: Path) -> dict[str, Path]:
    """List the images of a folder by name without ending, ordered; numbers count as numbers."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataNotFoundError(f"looked for images in the folder {folder}, which is not there") from error
    images: dict[str, Path] = {}
    for name in sorted(names):
        path = folder / name
        stem = path.stem
        if path.suffix.lower() not in PICTURES + RASTERS:
            continue
        if stem in images:
            raise DataError(f"{folder} holds both {images[stem].name} and {name}: keep one of the two")
        images[stem] = path
    return dict(sorted(images.items(), key=lambda item: (len(item[0]), item[0]) if item[0].isdigit() else (0, item[0])))


def some(names: Iterable[str], at_most: int = 5) -> str:
    """Name a few of the names, and how many more there are."""
    every = list(names)
    rest = f" and {len(every) - at_most} more" if len(every) > at_most else ""
    return ", ".join(every[:at_most]) + rest


class PairFolder(Dataset[Sample]):
    """The pairs of two folders whose files have the same names (endings may differ).

    `names` picks and orders them; without it every image must have its counterpart. `spec` says what the bands of
    both files are. In files of 8 bits 255 is white; others need the `sensor` that says what their numbers mean.
    `cache=True` decodes everything once, here, and holds it in memory as stored: forked workers share it.
    """

    def __init__(
        self,
        cloudy_dir: str | os.PathLike[str],
        clear_dir: str | os.PathLike[str],
        transform: Transform | None = None,
        *,
        names: Sequence[str] | None = None,
        spec: InputSpec = TRUE_COLOUR,
        sensor: Sensor | None = None,
        cache: bool = False,
    ) -> None:
        self.cloudy_dir, self.clear_dir = Path(cloudy_dir), Path(clear_dir)
        self.transform = transform
        self.spec, self.sensor = spec, sensor
        cloudy, clear = images_in(self.cloudy_dir), images_in(self.clear_dir)
        if names is None:
            alone = sorted(cloudy.keys() ^ clear.keys())
            if alone:
                raise DataError(
                    f"{some(alone)} are only in one of {self.cloudy_dir} and {self.clear_dir}: "
                    "add the missing files, or give the names to use"
                )
            names = list(cloudy)
        missing = [name for name in names if name not in cloudy or name not in clear]
        if missing:
            raise DataNotFoundError(
                f"{len(missing)} of {len(names)} pairs are not in both {self.cloudy_dir} and "
                f"{self.clear_dir}: {some(missing)}"
            )
        if not names:
            raise DataNotFoundError(f"no {', '.join(PICTURES + RASTERS)} files in {self.cloudy_dir}")
        self.names = list(names)
        self.files = [(cloudy[name], clear[name]) for name in names]
        self._cached: list[tuple[Array, Array]] | None = None
        if cache:
            with ThreadPoolExecutor(os.cpu_count()) as pool:  # the decoders let go of Python's lock
                self._cached = list(pool.map(self._read, range(len(self.names))))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        """Pair `index`, read, scaled and transformed."""
        cloudy, clear = self._cached[index] if self._cached is not None else self._read(index)
        name = self.names[index]
        for file, image, bands in zip(
            self.files[index], (cloudy, clear), (len(self.spec.slots), len(self.spec.outputs)), strict=True
        ):
            if len(image) != bands:
                wanted = " ".join(slot.name for slot in self.spec.slots)
                raise ShapeError(
                    f"{file} has {len(image)} bands and {bands} are expected ({wanted}): say what they are, as in "
                    "slots=swir16,nir08,red"
                )
        if cloudy.shape[1:] != clear.shape[1:]:
            raise ShapeError(
                f"the two images of {name} differ in size: cloudy {cloudy.shape[1:]}, "
                f"clear {clear.shape[1:]} ({self.files[index][0]})"
            )
        return make_sample(self._scale(cloudy), self._scale(clear), name, self.transform)

    def _read(self, index: int) -> tuple[Array, Array]:
        cloudy, clear = self.files[index]
        image = read_image(cloudy)
        return image, image if clear == cloudy else read_image(clear)

    def _scale(self, image: Array) -> NDArray[np.float32]:
        if self.sensor is not None:
            return self.spec.fit(self.sensor).to_model(image)
        if image.dtype != np.uint8:
            raise DataError(
                f"{self.cloudy_dir} or {self.clear_dir} holds {image.dtype}, which may mean anything: "
                "say what, e.g. PairFolder(..., sensor=attcr.bands.sensors.SENTINEL2_L1C)"
            )
        return np.asarray(_eight_bit_table(self.spec)[image])  # ten times as quick as scaling pixel by pixel


def make_sample(
    inputs: Array, clear: Array, name: str, transform: Transform | None, masks: Mapping[str, Array] | None = None
) -> Sample:
    """Bring two arrays, their name and their masks into an item, transformed; as they are where there is no torch."""
    keep: Callable[[Array], Any]
    try:
        from torch import from_numpy as keep
    except ImportError:
        keep = np.asarray
    sample: Sample = {
        "inputs": keep(inputs),
        "clear": keep(clear),
        "masks": {key: keep(mask) for key, mask in (masks or {}).items()},
        "name": name,
    }
    return sample if transform is None else transform(sample)
