"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the repository: golden values and real data, never committed."""
    folder = Path(os.environ.get("ATTCR_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent: real data and golden values are not part of the repository")
    return folder


@pytest.fixture(scope="session")
def shared_data(shared: Path) -> Path:
    """The real data beside the repository."""
    return shared / "data"
