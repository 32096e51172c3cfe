"""Options that several commands share, and how values are read from them."""

import json
import re
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import MISSING
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from attcr.cli.voice import as_flags
from attcr.errors import ConfigError

if TYPE_CHECKING:
    from attcr.restore.options import Option


def complete(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Give what completes the beginning of a word for the shell."""

    def complete_word(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete_word


def _weights() -> Iterable[str]:
    from attcr.weights import restoring

    return restoring()


def _choices(option: str) -> Iterable[str]:
    from attcr.restore.options import restore_options

    return restore_options()[option].choices


def option(metavar: str, about: str, *flags: str, **more: Any) -> Any:
    """Say of an option what stands in the place of its value, what it is, and how it is spelt where not by its name."""
    return typer.Option(*flags, metavar=metavar or None, help=about, **more)


_WEIGHTS = "A published name (see attcr weights), a path, hf://OWNER/NAME or URL."

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="SCENE... TARGET",
        help="The scene: a raster, band files, a product folder (SAFE, Landsat) or a STAC item, local or remote. Then "
        "the file to write. Or several pictures, then a folder.",
    ),
]
Weights = Annotated[str, option("WEIGHTS", _WEIGHTS, autocompletion=complete(_weights))]
WeightsThatFit = Annotated[
    str | None,
    option(
        "WEIGHTS",
        f"{_WEIGHTS} none: fill clouds from references only.",
        show_default="those that fit",
        autocompletion=complete(_weights),
    ),
]
Sensor = Annotated[str | None, option("PRODUCT", "{sensor}", autocompletion=complete(lambda: _choices("sensor")))]
Bands = Annotated[str | None, option("BANDS", "{bands}")]
Backend = Annotated[str, option("NAME", "{backend}", autocompletion=complete(lambda: _choices("backend")))]
ReferenceDays = Annotated[int, option("DAYS", "{reference_days}", min=1)]
Manifest = Annotated[
    str, typer.Argument(help="Scenes: Parquet, STAC (.json, .ndjson), a list (.txt), or a quoted glob.")
]
Settings = Annotated[
    list[str] | None,
    option("NAME=VALUE", "An option of `attcr restore`, such as mask=scl or tile=512; may be repeated.", "--set"),
]
Device = Annotated[str, option("DEVICE", "{device}")]
Quiet = Annotated[bool, option("", "Print only warnings and errors.", "--quiet", "-q")]
_VERBOSE = "Print what is done, and the traceback of an error; -vv also what libraries log."
Verbose = Annotated[int, option("", _VERBOSE, "--verbose", "-v", count=True, show_default=False)]
AsJson = Annotated[bool, option("", "Print the result as JSON.", "--json")]
OnlyJson = Annotated[bool, option("", "Print JSON.", "--json")]
ProgressAs = Annotated[
    str,
    option(
        "HOW",
        "auto, json (events on stderr, one JSON object per line) or none.",
        autocompletion=complete(lambda: ("auto", "json", "none")),
    ),
]


class Naming(TyperCommand):
    """A command whose help names data sets and networks, and says of a scene's options what stands at their fields.

    They are looked up when help is asked for; so are the options of a command that takes all of them.
    """

    def get_params(self, ctx: Any) -> Any:
        """Give the parameters; where they come from RestoreOptions, the command is made whole first."""
        make_whole = getattr(self.callback, "make_whole", None)
        if make_whole is not None:
            alone = typer.Typer(add_completion=False)
            alone.command()(make_whole())
            whole = typer.main.get_command(alone)
            self.params, self.callback = whole.params, whole.callback
        return super().get_params(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the words in the place of {datasets}, {networks} and {device}."""
        params = self.get_params(ctx)
        for param in params:
            if getattr(param, "help", None):
                param.help = re.sub(r"\{(\w+)\}", lambda found: _words_for(found[1]), param.help)
        _hide_types(params)
        super().format_help(ctx, formatter)


class NamingGroup(TyperGroup):
    """A group of commands whose help shows no types of Python either."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        _hide_types(self.get_params(ctx))
        super().format_help(ctx, formatter)


def _words_for(place: str) -> str:
    if place == "datasets":
        from attcr.data import DATASETS

        return ", ".join(DATASETS)
    if place == "networks":
        from attcr.networks import NETWORKS

        return ", ".join(NETWORKS)
    from attcr.restore.options import restore_options

    return restore_options()[place].help


def takes_options(command: Callable[..., None], owner: str = "restore.options.RestoreOptions") -> Callable[..., None]:
    """Let a command take every option of RestoreOptions, or of another class of this package, as keywords.

    They are added when the command is run or asked for its help, because their module loads numpy. The command's own
    keywords are shown after them, among those of the output.
    """

    def make_whole() -> Callable[..., None]:
        from attcr.restore.options import GROUPS, options_of

        module, _, name = owner.rpartition(".")
        told = options_of(getattr(import_module(f"attcr.{module}"), name)).values()
        options = sorted(told, key=lambda option: GROUPS.index(option.group))
        own = signature(command, eval_str=True).parameters.values()
        first = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in own if one.kind is one.POSITIONAL_OR_KEYWORD]
        last = [_of_output(one) for one in own if one.kind is one.KEYWORD_ONLY]

        def whole(**given: Any) -> None:
            command(**given | {option.name: _value(option, given[option.name]) for option in options})

        vars(whole)["__signature__"] = Signature([*first, *map(_parameter, options), *last])
        return whole

    def bare() -> None:
        """Stand for the command until it is whole."""

    vars(wraps(command)(bare)).update(__signature__=Signature(), make_whole=make_whole)
    return bare


def _parameter(option: "Option") -> Parameter:
    """Give an option as a parameter that Typer reads."""
    several, kinds = isinstance(option.default, tuple), get_args(option.kind) or (option.kind,)
    kind = bool if option.switch else next((one for one in (bool, int, float) if one in kinds), str)
    about = typer.Option(
        *option.flags,
        metavar=option.metavar or None,
        help=as_flags(option.switch_help or option.help) + (" May be repeated." if several else ""),
        min=option.least,
        show_default=option.shown or True,
        autocompletion=complete(lambda: option.choices) if option.choices else None,
        rich_help_panel=option.group.capitalize() or None,
    )
    typed: Any = list[str] | None if several else kind | None if option.default is None else kind
    default = Parameter.empty if option.default is MISSING else option.default
    default = False if option.switch else None if several else default
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[typed, about])


def _value(option: "Option", given: Any) -> Any:
    """Give what the command line gave as a value of the option."""
    if option.switch:
        return option.switch if given else option.default
    return tuple(given or ()) if isinstance(option.default, tuple) else given


def _of_output(parameter: Parameter) -> Parameter:
    kind, about = get_args(parameter.annotation)
    about = copy(about)
    about.rich_help_panel = "Output"
    return parameter.replace(annotation=Annotated[kind, about])


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
