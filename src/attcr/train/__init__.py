"""Training with PyTorch Lightning."""

from attcr.errors import MissingExtraError

try:
    import lightning as _lightning  # noqa: F401
except ImportError as error:
    raise MissingExtraError("lightning", "train") from error
