"""Where the data beside the repository lies."""

from pathlib import Path

import pytest


def pytest_configure() -> None:
    import torch

    torch.set_num_threads(2)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the repository: parity tensors, golden values, real data."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs the data in {folder}")
    return folder
