"""Run `attcr restore` on many inputs in one process and write what each did: python run_cases.py JOB.json"""

import contextlib
import io
import json
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from fake_scenes import peak_bytes


def main() -> None:
    from attcr import cli

    job = json.loads(Path(sys.argv[1]).read_text())
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    told = []
    for name, arguments in job["cases"]:
        folder = Path(job["folder"]) / "written"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        errors, code, kind = io.StringIO(), 0, ""
        began = time.perf_counter()
        signal.alarm(30)
        sys.argv = ["attcr", "restore", *arguments, str(folder / "out.tif"), "--weights", job["weights"]]
        try:
            with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
                cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException as error:
            kind = repr(error)
        signal.alarm(0)
        told.append(
            {
                "name": name,
                "code": code,
                "raised": kind,
                "stderr": errors.getvalue(),
                "seconds": time.perf_counter() - began,
                "left": sorted(path.name for path in folder.iterdir()),
                "peak": peak_bytes(),
            }
        )
        Path(job["out"]).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
