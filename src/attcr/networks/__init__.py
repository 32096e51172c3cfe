"""Networks: torch alone, no geography. `NETWORKS` is the one place where each has its name."""

from typing import Any, NamedTuple

from torch import nn

from attcr.errors import ConfigError
from attcr.networks.ablations import Ablation, AblationConfig
from attcr.networks.attcr import ATTCR, ATTCRConfig


class Entry(NamedTuple):
    """A kind of network: a frozen dataclass of its settings, and the module that is built from one."""

    config: type[Any]
    module: type[nn.Module]


NETWORKS: dict[str, Entry] = {
    "attcr": Entry(ATTCRConfig, ATTCR),
    "ablation": Entry(AblationConfig, Ablation),
}
"""By the name that weights files, `attcr train --model.network` and `attcr info --network` use."""


def build_network(config: Any) -> nn.Module:
    """Give the network of a config, with random weights."""
    return NETWORKS[name_of(config)].module(config)


def name_of(config: Any) -> str:
    """Give the name of the network that a config is of."""
    for name, entry in NETWORKS.items():
        if type(config) is entry.config:
            return name
    raise ConfigError(
        f"{type(config).__name__} is the config of no network; known are "
        f"{', '.join(f'{name} ({entry.config.__name__})' for name, entry in NETWORKS.items())}"
    )
