"""Weights whose header is changed by chance and whose digest fits it, loaded one after the other under a limit.

python untrusted.py FOLDER FIRST LAST    one line of JSON a seed on stdout
"""

import hashlib
import json
import mmap
import os
import random
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import safetensors.torch  # noqa: F401  # loaded before memory is counted
import torch

import attcr
from attcr.bands.spec import TRUE_COLOUR
from attcr.errors import AttcrError

MEMORY = 1 << 30
"""Bytes of address space that loading may take beyond what the libraries have."""
BOUND, SLACK = 3, 16 << 20
"""Times the file that memory may grow, and what Python and its allocator take beside it."""
ODD = (None, True, -1, 0, 2, 3, 40, 10**6, 2**31, 2**63, "x", [], {}, [[]], 1.5, float("inf"), float("nan"))


def parts_of(path: Path) -> tuple[dict[str, Any], int]:
    """Give the header of a file, and where its tensors begin."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(length)), 8 + length


def changed(value: Any, chance: random.Random, rate: float) -> Any:
    """Give a JSON value in which here and there something else stands, is missing or is there twice."""
    if chance.random() < rate:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {key: changed(one, chance, rate) for key, one in value.items() if chance.random() > rate / 4}
    if isinstance(value, list):
        many = [changed(one, chance, rate) for one in value if chance.random() > rate / 4]
        return many * 2 if chance.random() < rate / 4 else many
    return value


def mutate(header: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Change the config, the spec, or what is said about tensors."""
    metadata = dict(header["__metadata__"])
    for name in ("config", "spec", "provenance"):
        if chance.random() < (0.7 if name == "config" else 0.2):
            metadata[name] = json.dumps(changed(json.loads(metadata[name]), chance, 0.03))
    tensors = {name: at for name, at in header.items() if name != "__metadata__"}
    if chance.random() < 0.4:
        tensors = {name: changed(at, chance, 0.01) for name, at in tensors.items() if chance.random() > 0.002}
    return {**tensors, "__metadata__": metadata}


def write(path: Path, header: dict[str, Any], whole: Path, start: int) -> None:
    """Write a file of this header and another file's tensors, with a digest that fits."""
    metadata = {key: value for key, value in header["__metadata__"].items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps({**header, "__metadata__": metadata}, sort_keys=True).encode())
    with whole.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        digest.update(memoryview(content)[start:])
    text = json.dumps({**header, "__metadata__": {**metadata, "sha256": digest.hexdigest()}}).encode()
    with path.open("wb") as file, whole.open("rb") as body:
        file.write(len(text).to_bytes(8, "little") + text)
        file.flush()
        os.sendfile(file.fileno(), body.fileno(), start, whole.stat().st_size - start)


def memory(key: str) -> int:
    """Give VmRSS or VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024


def load(path: Path) -> tuple[str, str]:
    """Give what became of it (loaded, refused, raised), and what was wrong with it."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, began = memory("VmRSS"), time.process_time()
    try:
        attcr.load_model(path)
        outcome, wrong = "loaded", ""
    except AttcrError as error:
        outcome, wrong = "refused", "" if "\n" not in str(error)[:200] else f"several lines: {error}"
    except BaseException as error:
        outcome, wrong = "raised", repr(error)
    grown, seconds = memory("VmHWM") - before, time.process_time() - began
    if not wrong and grown > BOUND * path.stat().st_size + SLACK:
        wrong = f"{grown / 2**20:.0f} MiB were taken for a file of {path.stat().st_size / 2**20:.1f} MiB"
    return outcome, wrong or (f"it took {seconds:.0f} s" if seconds > 5 else "")


def main() -> None:
    folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    few = {"blocks": (1,) * 5, "heads": (2,) * 5, "scales": ((1,),) * 5}
    wholes = []
    for name, dim in (("small", 4), ("large", 64)):  # 0.1 and 12 MiB
        wholes.append(folder / f"{name}.safetensors")
        attcr.save_model(attcr.ATTCR(attcr.ATTCRConfig(dim=dim, **few)), wholes[-1], spec=TRUE_COLOUR)  # type: ignore[arg-type]
    for whole in wholes:
        outcome, wrong = load(whole)
        assert (outcome, wrong) == ("loaded", ""), f"{whole}: {outcome} {wrong}"
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    for seed in range(first, last):
        chance = random.Random(seed)
        whole = wholes[seed % 20 == 0]
        header, start = parts_of(whole)
        path = folder / "changed.safetensors"
        write(path, mutate(header, chance), whole, start)
        sys.stdout.write(json.dumps([seed, *load(path)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
