"""The service: scenes restored over HTTP (OGC API - Processes), with tiles of what came and what was made."""

from importlib.util import find_spec

import attcr.fleet  # noqa: F401  # says which extra is missing
from attcr.errors import MissingExtraError

for _library in ("fastapi", "uvicorn", "titiler", "prometheus_client"):
    if find_spec(_library) is None:
        raise MissingExtraError(_library, "serve")
