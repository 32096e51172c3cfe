"""Protocols, one definition of each metric, and reports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attcr.evaluate.protocols import average as average
    from attcr.evaluate.run import PROTOCOLS as PROTOCOLS
    from attcr.evaluate.run import evaluate as evaluate
    from attcr.evaluate.run import method_from_predictions as method_from_predictions
    from attcr.evaluate.run import method_from_weights as method_from_weights
    from attcr.evaluate.run import open_benchmark as open_benchmark

__all__ = ["PROTOCOLS", "average", "evaluate", "method_from_predictions", "method_from_weights", "open_benchmark"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: the figures of reports need matplotlib."""
    if name in __all__:
        return getattr(import_module(f"attcr.evaluate.{'protocols' if name == 'average' else 'run'}"), name)
    raise AttributeError(f"module 'attcr.evaluate' has no attribute {name!r}")
