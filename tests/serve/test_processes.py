from starlette.testclient import TestClient

from attcr.serve.processes import status_of
from attcr.serve.store import JobState, JobStore


def test_notes_name_files_without_their_places_on_the_server(server: TestClient) -> None:
    store: JobStore = server.app.state.supervisor.store  # type: ignore[attr-defined]
    place = store.root / "inputs" / "0" / "1" / "june.tif"
    job = JobState("0", "anonymous", 0.0, notes=[f"The reference {place} lies under thin cloud."])
    assert status_of(store, job, "").notes == ["The reference june.tif lies under thin cloud."]
