"""What operators see, and what the service costs those who do not use it."""

import json
import logging
import subprocess
import sys
from pathlib import Path

from starlette.testclient import TestClient

from attcr.serve.metrics import JsonLines
from fake_services import quick_server


def test_figures_tell_jobs_and_requests(server: TestClient, done: str) -> None:
    text = server.get("/metrics").text
    assert 'attcr_jobs{status="successful"}' in text
    assert 'attcr_requests_total{method="POST",route="/uploads",status="201"}' in text
    assert "attcr_ready 1.0" in text
    assert done not in text


def test_health_and_readiness(server: TestClient) -> None:
    assert server.get("/health").json() == {"status": "ok"}
    assert server.get("/ready").json() == {"status": "ready"}


def test_a_server_that_stops_is_not_ready(tmp_path: Path) -> None:
    with quick_server(tmp_path / "store") as client:
        client.app.state.supervisor.stopping.set()  # type: ignore[attr-defined]
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200


def test_a_line_of_the_log_is_json_without_secrets() -> None:
    record = logging.makeLogRecord({"name": "x", "msg": "at https://a.org/x?sig=abc", "levelname": "INFO", "job": "j"})
    told = json.loads(JsonLines().format(record))
    assert told["message"] == "at https://a.org/x"
    assert (told["level"], told["job"]) == ("info", "j")


def test_who_does_not_serve_loads_nothing_of_it() -> None:
    code = "import sys, attcr, attcr.cli; print([m for m in ('fastapi', 'uvicorn', 'starlette', 'titiler', "
    code += "'prometheus_client', 'attcr.serve') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_server_itself_loads_neither_torch_nor_titiler() -> None:
    """Files of strangers are opened by other processes."""
    code = "import sys, attcr.serve.app; print([m for m in ('torch', 'titiler', 'rio_tiler') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
