"""Options that several commands share, and how values are read from them."""

import json
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from attcr.errors import ConfigError


def complete(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Give what completes the beginning of a word for the shell."""

    def complete_word(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete_word


def _weights() -> Iterable[str]:
    from attcr.weights import restoring

    return restoring()


def _sensors() -> Iterable[str]:
    from attcr.bands.sensors import SENSORS

    return SENSORS


_MASKS = ("none", "auto", "csmask", "s2cloudless", "scl", "qa_pixel")
_WEIGHTS = "A published name (see attcr weights), a path, hf://OWNER/NAME or URL."

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="SCENE... TARGET",
        help="The scene: a raster, band files, a product folder (SAFE, Landsat) or a STAC item, local or remote. Then "
        "the file to write. Or several pictures, then a folder.",
    ),
]
Weights = Annotated[str, typer.Option(metavar="WEIGHTS", help=_WEIGHTS, autocompletion=complete(_weights))]
WeightsThatFit = Annotated[
    str | None,
    typer.Option(
        metavar="WEIGHTS",
        help=f"{_WEIGHTS} none: fill clouds from references only.",
        show_default="those that fit",
        autocompletion=complete(_weights),
    ),
]
Mask = Annotated[
    str | None,
    typer.Option(
        metavar="MASK",
        help="Where the clouds are: scl[=FILE], qa_pixel[=FILE], s2cloudless, csmask, auto, a raster (0 is clear), or "
        "none: restore every pixel.",
        show_default="the product's own mask, or an installed detector, or auto",
        autocompletion=complete(lambda: _MASKS),
    ),
]
Unseen = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help="What to do with cloud that the weights do not remove: keep it, fill it with the network (low "
        "confidence), or nodata.",
        autocompletion=complete(lambda: ("keep", "fill", "nodata")),
    ),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        "--references",
        metavar="SCENE",
        help="Another date of the same place, in any form that a scene may have: it fills what is under cloud; may be "
        "repeated. auto or auto:5: find up to 3 (5) dates in the catalog of a STAC item that see the ground under "
        "its clouds.",
    ),
]
ReferenceDays = Annotated[
    int, typer.Option(metavar="DAYS", min=1, help="How many days before and after a scene to search for references.")
]
ReferenceMask = Annotated[
    str | None,
    typer.Option(
        metavar="MASK",
        help="Where the clouds of the references are, as for --mask; none: they are clear.",
        show_default="chosen for each",
    ),
]
ReferenceFill = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help="network: a network corrects what is filled from references, as far as that helps on the scene itself; "
        "classical: none does.",
        autocompletion=complete(lambda: ("network", "classical")),
    ),
]
Sensor = Annotated[
    str | None,
    typer.Option(
        metavar="PRODUCT",
        help="The product, if the metadata does not say it: {sensors}.",
        autocompletion=complete(_sensors),
    ),
]
Bands = Annotated[
    str | None,
    typer.Option(metavar="BANDS", help="Bands for the network, by name or number from 1, such as B04,B03,B02."),
]
Radar = Annotated[
    str | None, typer.Option(metavar="FILE", help="Radar raster (VV, VH in dB) for weights that take it.")
]
Nodata = Annotated[
    float | None, typer.Option(metavar="VALUE", help="The value that means no data, if the file does not declare it.")
]
Dilate = Annotated[int, typer.Option(metavar="PIXELS", min=0, help="Pixels around a cloud that are restored too.")]
Feather = Annotated[
    int, typer.Option(metavar="PIXELS", min=0, help="Pixels over which the result fades into the original.")
]
Confidence = Annotated[
    bool,
    typer.Option("--confidence", help="Write how much eight flips and turns of each tile differ (8 times the work)."),
]
Backend = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What runs the network: torch, onnxruntime or openvino; auto: chosen by the weights file.",
        autocompletion=complete(lambda: ("auto", "torch", "onnxruntime", "openvino")),
    ),
]
Manifest = Annotated[
    str, typer.Argument(help="Scenes: Parquet, STAC (.json, .ndjson), a list (.txt), or a quoted glob.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An option of `attcr restore`, such as mask=scl or tile=512; may be repeated.",
    ),
]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="Where networks run: cpu, cuda, cuda:1, mps.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Print what is done, and the traceback of an error; -vv also what libraries log.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ProgressAs = Annotated[
    str,
    typer.Option(
        "--progress",
        metavar="HOW",
        help="auto, json (events on stderr, one JSON object per line) or none.",
        autocompletion=complete(lambda: ("auto", "json", "none")),
    ),
]


class Naming(TyperCommand):
    """A command whose help names the data sets, networks and products; they are looked up when help is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the names in the place of {datasets}, {networks} and {sensors}."""
        for param in self.params:
            for place, names in _NAMES.items():
                if place in (getattr(param, "help", None) or ""):
                    param.help = param.help.replace(place, ", ".join(names()))  # type: ignore[attr-defined]
        _hide_types(self.get_params(ctx))
        super().format_help(ctx, formatter)


class NamingGroup(TyperGroup):
    """A group of commands whose help shows no types of Python either."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        _hide_types(self.get_params(ctx))
        super().format_help(ctx, formatter)


def _datasets() -> Iterable[str]:
    from attcr.data import DATASETS

    return DATASETS


def _networks() -> Iterable[str]:
    from attcr.networks import NETWORKS

    return NETWORKS


_NAMES = {"{datasets}": _datasets, "{networks}": _networks, "{sensors}": _sensors}


def _hide_types(params: Iterable[Any]) -> None:
    """Show no types where they say nothing: Typer would write <bool> and <list[str]>."""
    for param in params:
        if param.param_type_name == "argument":
            param.display_type_rich = lambda ctx: None  # its name says what it is
        elif getattr(param, "is_flag", False) or getattr(param, "count", False):
            param.metavar = ""


def read_settings(given: list[str]) -> dict[str, Any]:
    """Read NAME=VALUE options; a value is JSON where it can be, else text."""
    settings: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set takes NAME=VALUE, such as mask=scl, got {text!r}")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings
