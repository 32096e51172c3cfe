"""Weights that say odd things of themselves are loaded or refused in a line, within three times their size."""

import json
import subprocess
import sys
from pathlib import Path

from counts import Record, seeds_of

from fake_fleets import environment

SCRIPT = Path(__file__).with_name("untrusted.py")


def test_odd_weights_whose_digest_fits_are_loaded_or_refused_within_three_times_their_size(tmp_path: Path) -> None:
    record = Record("weights", seeds := seeds_of("weights"))
    command = [sys.executable, str(SCRIPT), str(tmp_path), str(seeds.start), str(seeds.stop)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=100 + 10 * len(seeds))
    for line in done.stdout.splitlines():
        record.add(*json.loads(line))
    assert done.returncode == 0, f"it ended after {record.counts.total()} seeds: {done.stderr[-2000:]}"
    record.check()
    if len(seeds) > 100:
        assert min(record.counts["loaded"], record.counts["refused"]) > 0.1 * len(seeds), record.counts
