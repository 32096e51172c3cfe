"""The process that computes: `python -m attcr.serve.compute SETTINGS`, started by the server, never by hand.

It ends when the server does, however that ends: the next one starts an unfinished job again, and the item of a scene is
published once.
"""

import os
import sys
from dataclasses import asdict

from attcr.serve.pool import hold_memory, read_requests, take_stdout
from attcr.serve.worker import JobRunner, WorkerSettings


def main() -> None:
    """Compute until the server ends: one job after the other in this process, or on the actors of Ray."""
    settings = WorkerSettings.of(sys.argv[1])
    tell, requests = take_stdout(), read_requests()
    if settings.engine == "ray":
        from attcr.serve.on_ray import run_ray

        return run_ray(settings, requests, tell)
    os.nice(settings.nice)
    runner = JobRunner(settings)
    if runner.memory:
        hold_memory(runner.memory)
    runner.warm()
    tell({"ready": True})
    while True:
        name = requests.get()["id"]
        tell({"at": name})
        outcome, told = runner.run(name)
        tell({"id": name, "outcome": asdict(outcome), "told": told})
        if outcome.error == "MemoryError":
            return  # another process takes its place: what is left in this one may be in pieces


if __name__ == "__main__":
    main()
