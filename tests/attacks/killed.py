"""Restores and fleets that are killed at random moments and started again, until they come to their end.

    python killed.py KIND FOLDER FIRST LAST    KIND is one of KINDS; a line of JSON a seed on stdout

This process starts no thread and does no work: it loads the libraries once, and every run is a child that it forks.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
import pystac  # noqa: F401  # loaded here, not in every child
import rasterio
import torch

from attcr.errors import SceneError
from attcr.fleet.run import FleetOptions, run_fleet
from attcr.restore import RestoreOptions, restore_scene
from fake_fleets import bucket_contents, completed, contents, make_scenes, make_weights
from fake_scenes import UTM, Counting, make, noise

SCENES = 4
OPTIONS = RestoreOptions(tile=32, overlap=8, mask="none")
PATIENCE = 600
"""Seconds that a run which is not killed may take."""


def fork(work: Callable[[], object], log: Path) -> int:
    """Do it in a child; what it raises goes to the log, and it ends with 9."""
    child = os.fork()
    if child:
        return child
    try:
        with log.open("ab", buffering=0) as file:
            os.dup2(file.fileno(), 2)
            os.dup2(file.fileno(), 1)
        work()
        os._exit(0)
    except KeyboardInterrupt:
        os._exit(130)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(9)


def wait(child: int, seconds: float = PATIENCE) -> int | None:
    """Give the exit code of a child, negative for a signal; None where it does not end in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


class Restore:
    """One scene with a mask, confidence and clouds, taken up with `resume`."""

    signals = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)

        def mask(file: Any) -> None:
            file.write_mask((rng.random((150, 110)) > 0.1).astype(np.uint8) * 255)

        self.source = make(folder / "in_20200101.tif", noise("uint8", (3, 150, 110)), mask, photometric="RGB", **UTM)
        clouds = (rng.random((1, 150, 110)) < 0.02).astype(np.uint8)
        given = {"mask": str(make(folder / "clouds.tif", clouds, **UTM)), "dilate": 2, "feather": 2}
        self.options = RestoreOptions(tile=32, overlap=8, confidence=True, **given)  # type: ignore[arg-type]

    def run(self, out: Path) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        out.mkdir(exist_ok=True)
        ended = (out / "o.json").exists() and not (out / ".o.tif.attcr" / "state.json").exists()
        with suppress(SceneError) if ended else nullcontext():  # it says that the files exist
            restore_scene(self.source, out / "o.tif", self.model(), options=self.options, resume=True)

    def model(self) -> Any:
        return Counting()

    def contents(self, out: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} if out.exists() else {}

    def wrong_midway(self, out: Path, right: dict[str, bytes]) -> str:
        """Every file that has its name is right, and where the item is, all are."""
        made = self.contents(out)
        other = sorted(name for name, content in made.items() if content != right.get(name))
        missing = sorted(right.keys() - made.keys()) if "o.json" in made else []
        return f"midway other {other}, missing {missing}" if other or missing else ""

    def wrong(self, out: Path, right: dict[str, bytes]) -> str:
        left = {path.name for path in out.iterdir()} - right.keys()
        return self.wrong_midway(out, right) or (f"left {sorted(left)}" if left else "")

    def place(self, name: str) -> Any:
        return self.folder / name


class Dates(Restore):
    """The same scene filled from two other dates, one of which has a cloud of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        before = make(folder / "r_20191222.tif", noise("uint8", (3, 150, 110), 1), photometric="RGB", **UTM)
        after = make(folder / "r_20200111.tif", noise("uint8", (3, 150, 110), 2), photometric="RGB", **UTM)
        own = np.zeros((1, 150, 110), np.uint8)
        own[:, 40:80, 30:60] = 1
        given = {"references": (str(before), str(after)), "reference_mask": str(make(folder / "own.tif", own, **UTM))}
        self.options = replace(self.options, confidence=False, **given)  # type: ignore[arg-type]

    def model(self) -> Any:
        return "none"


class RealDates(Restore):
    """A real date of the folder ATTACKED_DATES with a drawn cloud, filled from another by the package's network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = Path(os.environ["ATTACKED_DATES"], "2018-06-10.tif")
        row, col = np.indices((256, 256))
        cloud = (row - 128) ** 2 + (col - 128) ** 2 < 77**2
        with rasterio.open(self.source) as file:
            mask = make(folder / "clouds.tif", cloud[None].astype(np.uint8), crs=file.crs, transform=file.transform)
        reference = str(self.source.with_name("2018-06-25.tif"))
        self.options = RestoreOptions(
            tile=96, overlap=16, sensor="s2-l1c", mask=str(mask), references=(reference,), reference_mask="none"
        )

    def model(self) -> Any:
        return "none"

    def run(self, out: Path) -> None:
        super().run(out)
        told = json.loads((out / "o.json").read_text())["properties"]["attcr:references"]
        assert [entry["method"] for entry in told] == ["network"], told


class LocalFleet:
    """A fleet in its driver's own process, into a folder."""

    signals: tuple[signal.Signals, ...] = (signal.SIGKILL,)
    fleet: FleetOptions = FleetOptions(threads=1, attempts=20)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.weights = make_weights(folder / "tiny.safetensors")
        self.scenes = make_scenes(folder / "in", SCENES, 48)
        self.split = False

    def place(self, name: str) -> Any:
        return self.folder / name

    def run(self, out: Any) -> None:
        more = {"split_over": 0.001} if self.split else {}
        fleet = FleetOptions(**{**vars(self.fleet), **more})
        tally = run_fleet(str(self.scenes), str(out), str(self.weights), options=OPTIONS, fleet=fleet)
        assert tally.complete, tally

    def contents(self, out: Any) -> dict[str, bytes]:
        return contents(out)

    def wrong_midway(self, out: Any, right: dict[str, bytes]) -> str:
        """Where an item is, all that it names is there and right."""
        made = self.contents(out)
        done = {name.removeprefix("items/").removesuffix(".json") for name in made if name.startswith("items/")}
        due = [name for name in right if name.startswith("scenes/") and name.split("/")[1] in done]
        other = [name for name in due if made.get(name) != right[name]]
        return f"midway missing or other {other[:3]}" if other else ""

    def wrong(self, out: Any, right: dict[str, bytes]) -> str:
        made = self.contents(out)
        other = sorted(name for name in made.keys() | right.keys() if made.get(name) != right.get(name))
        counts = completed(out)
        if other or set(counts.values()) != {1} or len(counts) != SCENES:
            return f"other {other[:5]}, completed {counts}"
        return ""


class S3Fleet(LocalFleet):
    """The same into a bucket."""

    def place(self, name: str) -> Any:
        return f"s3://fleet/{self.folder.name}-{name}"

    def contents(self, out: Any) -> dict[str, bytes]:
        return bucket_contents(out)


class RayFleet(LocalFleet):
    """A driver whose workers are on a cluster that outlives it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import ray  # noqa: F401  # loaded here, not in every driver

        self.fleet = FleetOptions(engine="ray", workers=2, attempts=20, address=os.environ["ATTACKED_RAY"])


KINDS: dict[str, type[Restore | LocalFleet]] = {
    "restore": Restore,
    "dates": Dates,
    "real dates": RealDates,
    "local": LocalFleet,
    "s3": S3Fleet,
    "ray": RayFleet,
}


def told_by(child: Callable[[], str], folder: Path) -> str:
    """Give what a function in a child finds wrong."""
    answer = folder / "answer"
    answer.unlink(missing_ok=True)
    code = wait(fork(lambda: answer.write_text(child()), folder / "log"))
    return answer.read_text() if code == 0 else f"the comparison ended with {code}"


class Pace:
    """Seconds within which a run is killed: fewer after one that ended before, for machines are quick and slow."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def learn(self, *, ended: bool) -> None:
        """Take in whether a run came to its end before it was killed."""
        self.seconds *= 0.7 if ended else 1.1


def try_one(kind: Restore | LocalFleet, seed: int, right: dict[str, bytes], pace: Pace) -> dict[str, Any]:
    """Kill a run up to three times, let it end, and compare."""
    chance = random.Random(f"{type(kind).__name__} {seed}")
    out, log = kind.place(f"out-{seed}"), kind.folder / "log"
    if isinstance(kind, LocalFleet):
        kind.split = chance.random() < 0.3
    kills, wrong, slow = 0, "", 0.0
    for _ in range(chance.randint(1, 3)):
        child = fork(lambda: kind.run(out), log)
        time.sleep(chance.uniform(0, pace.seconds))
        ended, status = os.waitpid(child, os.WNOHANG)
        pace.learn(ended=bool(ended))
        if ended:
            wrong = wrong or ("" if status == 0 else f"exit code {os.waitstatus_to_exitcode(status)}")
            break
        os.kill(child, chance.choice(kind.signals))
        began = time.monotonic()
        code = wait(child, 60)
        slow = max(slow, time.monotonic() - began)
        kills += 1
        if code not in (0, 130, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT):
            wrong = wrong or f"killed, it ended with {code}"
        wrong = wrong or told_by(lambda: kind.wrong_midway(out, right), kind.folder)
    code = wait(fork(lambda: kind.run(out), log))
    wrong = wrong or ("" if code == 0 else f"the last run ended with {code}")
    wrong = wrong or told_by(lambda: kind.wrong(out, right), kind.folder)
    if isinstance(out, Path) and not wrong:  # what went wrong is kept to be looked at
        shutil.rmtree(out, ignore_errors=True)
    return {"kills": kills, "seconds": round(slow, 2), "wrong": wrong}


def main() -> None:
    name, folder, first, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kind = KINDS[name](folder)
    whole = kind.place("whole")
    began = time.monotonic()
    code = wait(fork(lambda: kind.run(whole), folder / "log"), 3 * PATIENCE)
    pace = Pace(0.7 * (time.monotonic() - began))  # the first run is the slowest
    if code != 0:
        raise SystemExit(f"The undisturbed run ended with {code}: {(folder / 'log').read_text()}")
    kept = folder / "right"
    wait(fork(lambda: _keep(kind.contents(whole), kept), folder / "log"))
    right = {key: (kept / str(at)).read_bytes() for at, key in enumerate(json.loads((kept / "names").read_text()))}
    for seed in range(first, last):
        sys.stdout.write(json.dumps([seed, try_one(kind, seed, right, pace)]) + "\n")
        sys.stdout.flush()


def _keep(made: dict[str, bytes], folder: Path) -> None:
    folder.mkdir()
    (folder / "names").write_text(json.dumps(list(made)))
    for at, content in enumerate(made.values()):
        (folder / str(at)).write_bytes(content)


if __name__ == "__main__":
    main()
