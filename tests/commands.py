"""The command line in the process of the tests: what main() prints and ends with, without the start of a Python."""

import contextlib
import io
import os
import subprocess
import sys
import warnings
from unittest.mock import patch

from attcr.cli import main


def attcr(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Give what `attcr ARGUMENTS` ends with and prints; the environment stays as it was."""
    line = ["attcr", *map(str, arguments)]
    code: object = 0
    with (
        patch.dict(os.environ),
        patch.object(sys, "argv", line),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        warnings.resetwarnings()  # as a user meets them, not as errors
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    assert code is None or isinstance(code, int), code
    return subprocess.CompletedProcess(line, code or 0, out.getvalue(), err.getvalue())
