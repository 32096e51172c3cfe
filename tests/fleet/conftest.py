"""Fixtures of the fleet: weights, a real S3 server."""

from pathlib import Path

import pytest

from fake_fleets import make_weights


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_weights(tmp_path_factory.mktemp("weights") / "tiny.safetensors")
