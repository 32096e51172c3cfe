"""Options that several commands share, and how values are read from them."""

import json
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from attcr.errors import ConfigError

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="SCENE... TARGET",
        help="A raster, band files, a SAFE-like folder or a STAC item (local, http or s3), then the file to write.",
    ),
]
Weights = Annotated[str, typer.Option(help="A published name (see attcr weights), a path, hf://OWNER/NAME or URL.")]
WeightsThatFit = Annotated[
    str | None,
    typer.Option(
        help="A published name (see attcr weights), a path, hf://OWNER/NAME or URL; none: clouds are only filled from "
        "references.",
        show_default="those that fit",
    ),
]
Mask = Annotated[
    str | None,
    typer.Option(
        help="Where clouds are: scl[=FILE], qa_pixel[=FILE], s2cloudless, csmask, auto, a raster (0 is clear), or "
        "none: every pixel is restored.",
        show_default="the product's own, else an installed detector that fits, else auto",
    ),
]
Unseen = Annotated[
    str,
    typer.Option(
        help="What becomes of cloud that the weights do not remove: keep it, fill it by the network (low confidence), "
        "or nodata."
    ),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        help="Another date of the same place, anything that a scene may be: what is under cloud is filled from it; may "
        "be given again.",
    ),
]
ReferenceMask = Annotated[
    str | None,
    typer.Option(
        help="Where the clouds of the references are, as for --mask; none: they are clear.",
        show_default="chosen for each",
    ),
]
Sensor = Annotated[
    str | None, typer.Option(help="The product, where the metadata does not tell: rgb8, s2-l2a, s2-l2a-n0400, ...")
]
Bands = Annotated[str | None, typer.Option(help="Bands for the network, by name or number from 1, as B04,B03,B02.")]
Radar = Annotated[str | None, typer.Option(help="Radar raster (VV, VH in dB) for weights that take it.")]
Nodata = Annotated[float | None, typer.Option(help="The value that means no data, where the file does not say.")]
Dilate = Annotated[int, typer.Option(min=0, help="Pixels around a cloud that are restored too.")]
Feather = Annotated[int, typer.Option(min=0, help="Pixels over which restored fades into original.")]
Confidence = Annotated[
    bool, typer.Option("--confidence", help="Write how much eight flips and turns differ (8 times the work).")
]
Backend = Annotated[
    str, typer.Option(help="What computes: torch, onnxruntime or openvino; auto: as the weights' file says.")
]
Manifest = Annotated[
    str, typer.Argument(help="Scenes: Parquet, STAC (.json, .ndjson), a list (.txt), or a quoted glob.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="An option of `attcr restore`, as mask=scl or tile=512; may be given again."),
]


class Naming(TyperCommand):
    """A command whose help names the data sets and networks; they are looked up only when help is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the names in the place of {datasets} and {networks}."""
        from attcr.data import DATASETS
        from attcr.networks import NETWORKS

        names = {"{datasets}": ", ".join(DATASETS), "{networks}": ", ".join(NETWORKS)}
        for param in self.params:
            for place, text in names.items():
                if getattr(param, "help", None):
                    param.help = param.help.replace(place, text)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


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
