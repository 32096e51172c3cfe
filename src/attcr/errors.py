"""The errors of attcr. Each is also the builtin that a caller would catch."""


class AttcrError(Exception):
    """Base of every error raised on purpose; its text says what came, what was expected, what to do."""


class ConfigError(AttcrError, ValueError):
    """A setting that cannot be, or that does not fit the others."""


class ShapeError(AttcrError, ValueError):
    """An array or tensor of a shape or kind that the callee does not take."""


class WeightsError(AttcrError, ValueError):
    """A weights file that is damaged, of another model, or not of a safe format."""


class DataError(AttcrError, ValueError):
    """A data set whose content is not what its name promises."""


class DataNotFoundError(AttcrError, FileNotFoundError):
    """Data that is not where it was looked for; the text says how to obtain it."""


class SceneError(AttcrError, ValueError):
    """A scene that cannot be read, does not fit the weights, or cannot be written."""


class AllCloudError(SceneError):
    """A scene of which nothing is seen: all of it is under cloud that the weights do not remove."""


class ManifestError(AttcrError, ValueError):
    """A list of scenes, or a row of one, that does not say what to restore."""


class FleetError(AttcrError, RuntimeError):
    """A run over many scenes that cannot begin or go on."""


class MissingExtraError(AttcrError, ImportError):
    """An optional library that is not installed; the text is the install line."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is needed here and is not installed. Run: pip install 'attcr[{extra}]'")


class AttcrWarning(UserWarning):
    """A setting without effect, or a result to be read with care."""
