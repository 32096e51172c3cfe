"""The errors of attcr, each also the builtin that a caller would catch, and its one way to warn."""

import sys
import warnings


class AttcrError(Exception):
    """Base of every error raised on purpose; its text says what came, what was expected, what to do."""


class ConfigError(AttcrError, ValueError):
    """A setting that is invalid, or that does not fit the others."""


class ShapeError(AttcrError, ValueError):
    """An array or tensor with the wrong shape or type."""


class WeightsError(AttcrError, ValueError):
    """A weights file that is damaged, belongs to another model, or has an unsafe format."""


class DataError(AttcrError, ValueError):
    """A data set with wrong or damaged content."""


class DataNotFoundError(AttcrError, FileNotFoundError):
    """Data that was not found; the message says how to get it."""


class SceneError(AttcrError, ValueError):
    """A scene that cannot be read, does not fit the weights, or cannot be written."""


class AllCloudError(SceneError):
    """A scene that is completely under cloud that the weights do not remove."""


class ManifestError(AttcrError, ValueError):
    """A list of scenes, or a row of one, that does not say what to restore."""


class FleetError(AttcrError, RuntimeError):
    """A run over many scenes that cannot start or continue."""


class MissingExtraError(AttcrError, ImportError):
    """An optional library that is not installed; the message is the install line."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is needed here and is not installed. Run: pip install 'attcr[{extra}]'")


class AttcrWarning(UserWarning):
    """A setting without effect, or a result to read with care."""


def warn(message: str) -> None:
    """Warn at the line that called attcr, however deep in it the warning arises."""
    level = 1
    while _is_inside(sys._getframe(level).f_globals.get("__name__", "")) and sys._getframe(level).f_back:
        level += 1
    warnings.warn(message, AttcrWarning, stacklevel=level + 1)


def _is_inside(module: str) -> bool:
    return module.partition(".")[0] in ("attcr", "contextlib")
