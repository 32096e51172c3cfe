"""Writes the shipped split lists from the published ones: python -m tools.audit.splits SHARED_DATA OUT.

RICE2's alikes are what `python -m tools.audit` finds on the published lists; the images of the others are not at hand.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

from attcr.data.splits import names_sha256

from .find import audit

EVERY = 10  # one group in ten of train is validation
RULE = f"the first of every {EVERY} of train's groups, ordered by the smallest sha256 of their names"


def lines(path: Path) -> list[str]:
    return [Path(line).stem for line in path.read_text().split()]


def write(out: Path, dataset: str, notes: dict[str, Any], parts: dict[str, Sequence[str]]) -> None:
    content = {
        "dataset": dataset,
        **notes,
        "parts": {part: {"sha256": names_sha256(names), "names": list(names)} for part, names in parts.items()},
    }
    (out / f"{dataset}.json").write_text(json.dumps(content, indent=0) + "\n")


def hold_out(groups: Sequence[Sequence[str]], every: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part names in two, (kept, held out): the first of each `every` groups is held out, whole.

    Groups stand in the order of the smallest sha256 of their names, so the outcome depends on nothing else.
    Images too alike to stand on both sides share a group; every other name is a group of one.
    """
    ordered = sorted(groups, key=lambda group: min(sha256(name.encode()).digest() for name in group))
    held = {name for group in ordered[::every] for name in group}
    everything = [name for group in groups for name in group]
    kept = tuple(name for name in everything if name not in held)
    return kept, tuple(name for name in everything if name in held)


def groups_of(names: Sequence[str], alike: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Names joined wherever a chain of alikes leads from one to the other."""
    group = {name: [name] for name in names}
    for one, other in alike:
        if one in group and other in group and group[one] is not group[other]:
            group[one] += group[other]
            for name in group[other]:
                group[name] = group[one]
    return list({id(members): members for members in group.values()}.values())


def published(shared: Path, out: Path, dataset: str, source: str, lists: str) -> None:
    train, test = (lines(shared / "splits" / f"{lists}_{part}.txt") for part in ("train", "test"))
    kept, held = hold_out([[name] for name in train], EVERY)
    notes = {"source": source, "val": f"{RULE}; each name is a group, since alikes in train are not known"}
    write(out, dataset, notes, {"train": kept, "val": held, "test": test})


def rice2(shared: Path, out: Path) -> None:
    root = shared / "rice2"
    train, test = lines(root / "train_list.txt"), lines(root / "test_list.txt")
    report = audit("rice2", root, lists={"train": train, "test": test}, within=True, alikes=len(train))
    found = [finding for kind in ("exact", "near", "alike") for finding in report.of(kind)]
    alike = sorted({pair for f in found for pair in combinations(sorted(i.name for i in f.images), 2)})
    tested = set(test)
    taken = {name for pair in alike if tested & set(pair) for name in pair} - tested
    _, held = hold_out(groups_of([name for name in train if name not in taken], alike), EVERY)
    val = [name for name in train if name in held]  # in the order of the published list, as train below
    notes = {
        "source": "the random 588/148 lists in use with SpA-GAN; none was published with the data",
        "taken_out": f"{len(taken)} train images whose label attcr audit finds alike to a test label: "
        "at most 1 grey level apart, root mean square, in any of the 8 flips and turns",
        "taken_out_names": sorted(taken, key=int),
        "val": f"{RULE}; alikes share a group",
    }
    kept = [name for name in train if name not in taken and name not in held]
    write(out, "rice2", notes, {"train": kept, "val": val, "test": test})


def main(shared: Path, out: Path) -> None:
    published(shared, out, "rice1", "SpA-GAN's lists, 400/100", "rice1_spagan")
    published(shared, out, "tcloud", "the lists of T-CLOUD's authors, 2351/588", "tcloud")
    rice2(shared, out)
    regions = json.loads((shared / "splits" / "sen12mscr_rois.json").read_text())["splits"]
    notes = {"source": "SEN12MS-CR's regions by part, season/region; match them exactly", "val": "published"}
    write(out, "sen12mscr", notes, regions)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
