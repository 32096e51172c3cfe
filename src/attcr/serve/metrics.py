"""What operators see: logs as lines of JSON, figures for Prometheus."""

import json
import logging
import sys
import time
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

from attcr.addresses import hide_secrets
from attcr.serve.store import JobState
from attcr.serve.supervisor import Supervisor

_PLAIN = frozenset(vars(logging.makeLogRecord({})))
_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_JOB_BUCKETS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)


class JsonLines(logging.Formatter):
    """A record as one line of JSON, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        told: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": hide_secrets(record.getMessage()),
            **{name: value for name, value in vars(record).items() if name not in _PLAIN},
        }
        if record.exc_info:
            told["error"] = hide_secrets(self.formatException(record.exc_info))
        return json.dumps(told, default=str)


def log_as_json(level: int = logging.INFO) -> None:
    """Let this process write its log to stderr as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # the app itself logs requests, without their queries


class Metrics:
    """The figures of one server."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._registry = registry = CollectorRegistry()
        jobs = Gauge("attcr_jobs", "Jobs in each status", ["status"], registry=registry)
        for status in supervisor.queue.counts():
            jobs.labels(status).set_function(partial(lambda one: supervisor.queue.counts()[one], status))
        ProcessCollector(registry=registry)
        labels = ["method", "route", "status"]
        self._requests = Counter("attcr_requests", "Requests", labels, registry=registry)
        self._seconds = Histogram(
            "attcr_request_seconds", "Seconds of a request", ["route"], buckets=_BUCKETS, registry=registry
        )
        self._jobs_ended = Counter("attcr_jobs_ended", "Jobs that ended", ["status", "error"], registry=registry)
        self._job_seconds = Histogram(
            "attcr_job_seconds", "Seconds from begin to end of a job", buckets=_JOB_BUCKETS, registry=registry
        )
        self._uploaded = Counter("attcr_uploaded_bytes", "Bytes of files that were sent", registry=registry)
        ready = Gauge("attcr_ready", "Whether a process is there to compute", registry=registry)
        ready.set_function(lambda: float(supervisor.ready))

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; the route is its pattern, so that nobody can make up names."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def job(self, job: JobState) -> None:
        """Count a job that ended."""
        self._jobs_ended.labels(job.status, job.error).inc()
        if job.started and job.finished:
            self._job_seconds.observe(max(job.finished - job.started, 0.0))

    def upload(self, size: int) -> None:
        """Count a file that was sent."""
        self._uploaded.inc(size)

    def text(self) -> bytes:
        """Give all of them as Prometheus reads them."""
        return generate_latest(self._registry)
