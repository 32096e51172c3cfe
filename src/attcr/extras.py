"""Imports that wait: optional libraries, with the error that says what to install, and names imported on first use."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from attcr.errors import ConfigError, MissingExtraError

EXTRAS: dict[str, tuple[str, ...]] = {
    "data": ("PIL",),
    "scenes": ("rasterio", "rio_cogeo", "pystac", "pystac_client", "scipy", "ukis_csmask"),
    "eval": ("torchmetrics", "skimage", "matplotlib"),
    "train": ("lightning", "jsonargparse", "tensorboard"),
    "hub": ("huggingface_hub", "fsspec"),
    "fleet": ("obstore", "pyarrow", "stac_geoparquet", "pydantic"),
    "ray": ("ray",),
    "serve": ("fastapi", "uvicorn", "titiler", "prometheus_client"),
    "onnx": ("onnx", "onnxruntime"),
    "openvino": ("openvino",),
    "s2cloudless": ("s2cloudless",),
    "xarray": ("xarray", "dask"),
    "cube": ("odc", "zarr", "icechunk", "planetary_computer", "pyogrio"),
    "notebook": ("anywidget", "traitlets"),
}
"""By the extra that is installed for a library: the names it is imported by."""
WITHIN = {
    "scenes": ("data",),
    "fleet": ("scenes",),
    "ray": ("fleet",),
    "serve": ("fleet",),
    "cube": ("fleet", "xarray"),
}
"""Extras that bring others, of those that `need_extra` is asked for."""
DISTRIBUTIONS = {
    "PIL": "Pillow",
    "odc": "odc-stac",
    "planetary_computer": "planetary-computer",
    "rio_cogeo": "rio-cogeo",
    "pystac_client": "pystac-client",
    "skimage": "scikit-image",
    "ukis_csmask": "ukis-csmask",
}
"""What a library is called where it is installed from, where that is not its import name."""

_EXTRA_OF = {library: extra for extra, libraries in EXTRAS.items() for library in libraries}


def missing(module: str, extra: str | None = None) -> MissingExtraError | None:
    """Give the error for a module (`scipy.ndimage`) that is not installed; None for one of no extra."""
    library = module.partition(".")[0]
    extra = extra or _EXTRA_OF.get(library)
    return MissingExtraError(DISTRIBUTIONS.get(library, library), extra) if extra else None


def has(module: str) -> bool:
    """Say whether a library is installed."""
    return find_spec(module) is not None


def need(module: str) -> Any:
    """Import an optional module, or say what to install."""
    with needed():
        return import_module(module)


@contextmanager
def needed() -> Iterator[None]:
    """Around imports of optional libraries: one that is not installed becomes the error that says what to install."""
    try:
        yield
    except ImportError as error:
        told = missing(error.name or "")
        if told is None or isinstance(error, MissingExtraError):
            raise
        raise told from error


def locks() -> Any:
    """Give the module of locks that end with their process, which fleets and the service cannot do without."""
    try:
        return import_module("fcntl")
    except ImportError as error:
        raise ConfigError(
            "Fleets and the service need Linux or macOS: on Windows run them in WSL or in a container."
        ) from error


def need_extra(extra: str) -> None:
    """Refuse, unless all that an extra brings is installed."""
    absent = next((name for name in _brought_by(extra) if not has(name)), None)
    if absent:
        raise MissingExtraError(DISTRIBUTIONS.get(absent, absent), extra)


def _brought_by(extra: str) -> Iterator[str]:
    for other in WITHIN.get(extra, ()):
        yield from _brought_by(other)
    yield from EXTRAS[extra]


def on_first_use(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Give the `__getattr__` of a package: its names, by the module in it where each lives."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return find
