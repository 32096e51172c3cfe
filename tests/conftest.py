"""Fixtures of all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real data beside the repository; the test is skipped where it is absent."""
    shared = Path(os.environ.get("ATTCR_SHARED") or Path(__file__).parents[2] / "shared")
    if not (shared / "data").is_dir():
        pytest.skip(f"the real data is not at {shared / 'data'}")
    return shared / "data"
