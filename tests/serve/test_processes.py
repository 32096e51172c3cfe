from starlette.testclient import TestClient

from attcr.serve.processes import lasting, status_of
from attcr.serve.store import JobState, JobStore


def test_notes_name_files_without_their_places_on_the_server(server: TestClient) -> None:
    store: JobStore = server.app.state.supervisor.store  # type: ignore[attr-defined]
    place = store.root / "inputs" / "0" / "1" / "june.tif"
    job = JobState("0", "anonymous", 0.0, notes=[f"The reference {place} lies under thin cloud."])
    assert status_of(store, job, "").notes == ["The reference june.tif lies under thin cloud."]


def test_a_duration_is_within_all_the_bounds_that_are_given() -> None:
    jobs = [JobState(str(took), "a", 0.0, started=100.0, finished=100.0 + took) for took in (5, 10, 20)]
    waiting = JobState("waiting", "a", 0.0)

    def found(least: list[float], most: list[float]) -> list[str]:
        return [job.id for job in lasting([*jobs, waiting], least, most)]

    assert found([5.0, 10.0], []) == ["10", "20"]
    assert found([], [10.0, 20.0]) == ["5", "10"]
    assert found([10.0], [10.0]) == ["10"]
    assert found([], [1000.0]) == ["5", "10", "20"], "one that was not begun has no duration"
