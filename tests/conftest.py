"""Where the data beside the repository lies."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the repository: parity tensors, golden values, real data."""
    folder = Path(os.environ.get("ATTCR_SHARED") or Path(__file__).parents[2] / "shared")
    if not folder.is_dir():
        pytest.skip(f"needs the data in {folder}")
    return folder


@pytest.fixture(scope="session")
def shared_data(shared: Path) -> Path:
    """The real data beside the repository."""
    return shared / "data"
