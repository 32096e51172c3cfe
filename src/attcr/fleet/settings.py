"""The options of one scene: those of the run, with the settings of its row over them."""

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal, get_args, get_origin

from attcr.errors import ConfigError
from attcr.extras import needed
from attcr.fleet.manifest import Work
from attcr.restore.options import Option, RestoreOptions, restore_options

with needed():
    from pydantic import ConfigDict, TypeAdapter, ValidationError


def options_of(work: Work, common: RestoreOptions) -> RestoreOptions:
    """Give the options of one scene: those of the run, with the row's own over them.

    All machines compute alike, and what a scene is made from is known before it is run.
    """
    try:
        own = json.loads(work.options or "{}")
    except ValueError:
        own = None
    if not isinstance(own, dict):
        raise ConfigError('The row\'s options are not a JSON object such as {"mask": "scl"}.')
    options = with_settings(common, own)
    if options.searched:
        raise ConfigError("A fleet does not search for references: let `attcr fleet plan` find those of each scene.")
    return options.on_any_machine()


def with_settings(options: RestoreOptions, settings: Mapping[str, Any]) -> RestoreOptions:
    """Give options with some of them replaced, refusing names and types that they do not have.

    Values are those of JSON. Several names may come as a list, or as text with commas between them.
    """
    known = restore_options()
    changed: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in known:
            raise ConfigError(f"There is no option {name!r}; expected one of {', '.join(known)}.")
        changed[name] = _checked(name, value)
    if changed.get("dtype") == "auto":
        raise ConfigError("The option dtype is 'auto', which differs between machines: name float32 or bfloat16.")
    return replace(options, **changed)


@cache
def adapter(name: str) -> TypeAdapter[Any]:
    """Give what checks the values of an option, and tells their JSON schema."""
    return TypeAdapter(restore_options()[name].kind, config=ConfigDict(strict=True))


def _checked(name: str, value: Any) -> Any:
    """Give a value of JSON as one of an option; it keeps its own type, as a digest tells 0 from 0.0."""
    option = restore_options()[name]
    given = _listed(value) if tuple[str, ...] in get_args(option.kind) else value
    given = tuple(given) if isinstance(given, list) else given
    try:
        adapter(name).validate_python(given)
    except ValidationError:
        raise ConfigError(f"The option {name} is {value!r}; expected {_words(option)}.") from None
    return given


def _listed(value: Any) -> Any:
    """Give names as a tuple: they may come as a list, as text with commas between them, or as one number."""
    if value is None:
        return None
    several = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    return tuple(str(one) if type(one) is int else one for one in several)


def _words(option: Option) -> str:
    """Give the type of an option as a user would write it: int, str or None, a list of str."""
    if get_origin(option.kind) is Literal:
        return " or ".join(option.choices)
    kinds = inspect.formatannotation(option.kind).replace("tuple[", "a list of ").replace(", ...]", "").split(" | ")
    return " or ".join(kind.rpartition(".")[2] for kind in kinds)
