"""The options of one scene: those of the run, with the settings of its row over them."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from attcr.errors import ConfigError
from attcr.fleet.manifest import Work
from attcr.restore.options import RestoreOptions


def options_of(work: Work, common: RestoreOptions) -> RestoreOptions:
    """Give the options of one scene: those of the run, with the row's own over them."""
    if not work.options:
        return _settled(common)
    try:
        own = json.loads(work.options)
    except ValueError:
        own = None
    if not isinstance(own, dict):
        raise ConfigError('The row\'s options are not a JSON object such as {"mask": "scl"}.')
    return _settled(with_settings(common, own))


def _settled(options: RestoreOptions) -> RestoreOptions:
    """Let all machines compute alike, and refuse references that are still to be found.

    What a scene is made from is known before it is run.
    """
    if options.searched:
        raise ConfigError("A fleet does not search for references: let `attcr fleet plan` find those of each scene.")
    return options.on_any_machine()


def with_settings(options: RestoreOptions, settings: Mapping[str, Any]) -> RestoreOptions:
    """Give options with some of them replaced, refusing names and types that they do not have.

    Values are those of JSON. Several names may come as a list, or as text with commas between them.
    """
    kinds = get_type_hints(type(options))
    changed: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in kinds:
            raise ConfigError(f"There is no option {name!r}; expected one of {', '.join(kinds)}.")
        try:
            changed[name] = _as(kinds[name], value)
        except TypeError:
            raise ConfigError(f"The option {name} is {value!r}; expected {_words(kinds[name])}.") from None
    if changed.get("dtype") == "auto":
        raise ConfigError("The option dtype is 'auto', which differs between machines: name float32 or bfloat16.")
    return replace(options, **changed)


def _as(kind: Any, value: Any) -> Any:
    """Give a value of JSON as one of a type; TypeError where it is none."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        for one in inner:
            with suppress(TypeError):
                return _as(one, value)
    elif origin is Literal:
        if value in inner:
            return value
    elif origin is tuple:
        assert inner == (str, ...), f"options hold no {kind}"
        listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
        if all(isinstance(one, str | int) and not isinstance(one, bool) for one in listed):
            return tuple(str(one) for one in listed)
    elif isinstance(value, bool):
        if kind is bool:
            return value
    elif isinstance(value, int | float if kind is float else kind):
        return value
    raise TypeError


def _words(kind: Any) -> str:
    """Give a type as a user would write it: int, str or None, a list of str."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(one) for one in inner)
    if origin is Literal:
        return " or ".join(str(one) for one in inner)
    if origin is tuple:
        return f"a list of {_words(inner[0])}"
    return "None" if kind is types.NoneType else str(kind.__name__)
