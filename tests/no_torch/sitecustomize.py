"""With this folder on PYTHONPATH, Python and all that it starts behave as if torch were not installed."""

import sys
from collections.abc import Sequence
from types import ModuleType


class NoTorch:
    """Finds no torch, and nothing that needs it."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        library = name.partition(".")[0]
        if library in ("torch", "lightning", "torchmetrics"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=library)


sys.meta_path.insert(0, NoTorch())
