"""Restoring that is interrupted, as by Ctrl-C."""

from collections.abc import Callable
from typing import Any

import pytest

import attcr.restore.scene as module


def interrupted(restore: Callable[[], object], strips: int) -> None:
    """Restore, and interrupt it after so many strips were kept."""
    keep, count = module._keep, 0

    def counted(*args: Any) -> None:
        nonlocal count
        keep(*args)
        count += 1
        if count == strips:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_keep", counted)
        with pytest.raises(KeyboardInterrupt):
            restore()
