from starlette.testclient import TestClient

from attcr.serve.jobs import Jobs, JobState
from attcr.serve.processes import status_of


def test_notes_name_files_without_their_places_on_the_server(server: TestClient) -> None:
    jobs: Jobs = server.app.state.jobs  # type: ignore[attr-defined]
    place = jobs.root / "inputs" / "0" / "1" / "june.tif"
    job = JobState("0", "anonymous", 0.0, notes=[f"The reference {place} lies under thin cloud."])
    assert status_of(jobs, job, "")["notes"] == ["The reference june.tif lies under thin cloud."]
