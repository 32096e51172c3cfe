"""Networks: torch alone, no geography. `NETWORKS` is the one place where each has its name."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from attcr.errors import ConfigError
from attcr.networks.attcr import ATTCR, ATTCRConfig


@dataclass(frozen=True)
class Entry:
    """A kind of network: a frozen dataclass of its settings, and the module that is built from one.

    The config says `in_channels` and `out_channels`; the module keeps it as `config`.
    """

    config: type[Any]
    module: type[nn.Module]


NETWORKS: dict[str, Entry] = {"attcr": Entry(ATTCRConfig, ATTCR)}
"""By the name that weights files and `attcr train --model.network` use."""


def make_config(network: str, settings: Mapping[str, Any]) -> Any:
    """Give the config of a network by its name and its settings as plain values."""
    if network not in NETWORKS:
        raise ConfigError(f"no network {network!r}; there are {', '.join(NETWORKS)}")
    kind = NETWORKS[network].config
    known = [field.name for field in fields(kind)]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ConfigError(f"{network} has no setting {', '.join(unknown)}; it has {', '.join(known)}")
    try:
        return kind(**settings)
    except TypeError as error:
        raise ConfigError(
            f"settings of {network}: {dict(settings)} do not have the expected types ({error})"
        ) from error


def build_network(config: Any) -> nn.Module:
    """Give the network of a config, with random weights."""
    return NETWORKS[name_of(config)].module(config)


def name_of(config: Any) -> str:
    """Give the name of the network that a config is of."""
    for name, entry in NETWORKS.items():
        if type(config) is entry.config:
            return name
    raise ConfigError(
        f"{type(config).__name__} is not the config of a network; known are "
        f"{', '.join(f'{name} ({entry.config.__name__})' for name, entry in NETWORKS.items())}"
    )
