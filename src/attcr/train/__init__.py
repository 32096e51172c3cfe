"""Training with PyTorch Lightning."""

from attcr.extras import need_extra

need_extra("train")
