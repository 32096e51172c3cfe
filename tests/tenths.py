"""Which tenth of the nightly tests the gate runs: the commit decides, so ten commits run about all of them.

ATTCR_TENTH=COMMIT   this commit's tenth, as .ci/run asks for; unset, all of them run
"""

import os
import zlib


def tenth() -> int | None:
    """Give the number of the tenth that is asked for, 0 to 9; None for all."""
    commit = os.environ.get("ATTCR_TENTH", "")
    return int(commit[:8], 16) % 10 if commit else None


def is_due(name: str) -> bool:
    """Say whether a nightly test runs, by its name."""
    return tenth() in (None, zlib.crc32(name.encode()) % 10)
