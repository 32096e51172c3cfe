"""Files with changed bytes and tags are restored or refused in a line; none crashes, hangs or leaves anything."""

import json
import re
import subprocess
import sys
from pathlib import Path

from counts import Record, seeds_of

from fake_fleets import environment

BELOW = re.compile(
    r"$|(Error|Warning): Key |_tiff\w+Proc: |(Warning|ERROR) 1: (Failed to decode |opj_get_decoded_tile)"
)
"""What libgeotiff and libtiff, and OpenJPEG in threads of its own, print by themselves."""
SCRIPT = Path(__file__).with_name("mutated.py")


def test_mutated_files_are_restored_or_refused_in_a_line(tmp_path: Path) -> None:
    record = Record("mutated", seeds := seeds_of("mutated"))
    at = seeds.start
    errors = tmp_path / "errors"
    while at < seeds.stop:
        command = [sys.executable, str(SCRIPT), str(tmp_path), str(at), str(seeds.stop)]
        with (
            errors.open("ab") as stderr,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment()) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                seed, outcome, wrong = json.loads(line)
                assert seed == at
                record.add(seed, outcome, wrong)
                at += 1
        if at < seeds.stop:  # the process ended at this seed: it crashed, or was too slow
            record.add(at, "died", f"exit code {process.returncode}")
            at += 1
    record.check()
    if len(seeds) > 100:
        assert min(record.counts["restored"], record.counts["refused"]) > 0.2 * len(seeds), record.counts
    lines = [line for line in errors.read_text(errors="replace").splitlines() if not BELOW.match(line)]
    assert not lines, "GDAL or Python wrote to stderr past the library"
