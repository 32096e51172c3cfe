"""The computing process of a server: `python -m attcr.serve.compute SETTINGS`, started by the server."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from attcr.serve.worker import Bench, WorkerSettings, listen, run_local


def main() -> None:
    """Compute until the server ends."""
    settings = WorkerSettings(**json.loads(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is for the log

    def tell(line: dict[str, Any]) -> None:
        answers.write(json.dumps(line) + "\n")

    names = listen(sys.stdin)
    if settings.engine == "ray":
        from attcr.serve.on_ray import run_ray

        run_ray(settings, names, tell)
    else:
        run_local(Bench(settings), names, tell)


if __name__ == "__main__":
    main()
