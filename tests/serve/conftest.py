"""One quick server for the tests that only ask."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from fake_services import begin, ended, quick_server, tiff


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with quick_server(tmp_path_factory.mktemp("serve") / "store") as client:
        yield client


@pytest.fixture(scope="session")
def done(server: TestClient) -> str:
    """A job that is successful."""
    job = begin(server, tiff(), "done.tif")
    assert ended(server, job)["status"] == "successful"
    return job
