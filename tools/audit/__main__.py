"""Find duplicates, leaks between splits, wrong pairs and bad files of a data set; ends with 1 if there are problems.

python -m tools.audit rice2 DATA/rice2 --out audit
python -m tools.audit rice2 DATA/rice2 --list train=train.txt --list test=test.txt
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .find import KINDS, PROBLEMS, Audit, audit
from .listing import LISTINGS
from .sheet import write_contact_sheets


def told(report: Audit) -> Iterator[str]:
    """Give what is printed of a report."""
    yield f"{report.dataset} at {report.root}: {report.pairs} pairs"
    for part, about in report.parts.items():
        yield f"  {part:5} {about['listed']:6} listed, {about['pairs']:6} pairs, sha256 {about['sha256']}"
    yield f"\n{'found':>7}  kind"
    for kind, meaning in KINDS.items():
        yield f"{len(report.of(kind)):7}  {kind:12} {'' if kind in PROBLEMS else '(note) '}{meaning}"
    for finding in report.of("substring"):
        yield f"\nsubstring: {finding.note}"
    for kind in ("exact", "near", "alike"):
        for part, other in (("test", "train"), ("val", "train"), ("test", "val")):
            names = report.names(kind, part, other)
            if names:
                yield f"\n{kind}: {len(names)} {part} images have one in {other}: {' '.join(names)}"
    for finding in [finding for finding in report.findings if finding.kind in PROBLEMS][:20]:
        who = ", ".join(f"{image.part} {image.name} {image.side}".strip() for image in finding.images[:4])
        yield f"\n{finding.kind}: {who}: {finding.note}"


def part_and_names(text: str) -> tuple[str, list[str]]:
    """Read PART=FILE; names lose their ending, as those of shipped lists have none."""
    part, equals, file = text.partition("=")
    if not equals or part not in ("train", "val", "test") or not Path(file).is_file():
        raise argparse.ArgumentTypeError(f"expected PART=FILE with PART train, val or test and a file of names: {text}")
    return part, [line.removesuffix(Path(line).suffix) for line in Path(file).read_text().split()]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=LISTINGS)
    parser.add_argument("root", type=Path, help="folder of the data set, in its published layout")
    parser.add_argument("--out", type=Path, help="folder for audit.json and the contact sheets")
    parser.add_argument("--list", metavar="PART=FILE", dest="lists", type=part_and_names, action="append")
    parser.add_argument("--within", action="store_true", help="look for copies inside each part too")
    given = parser.parse_args(arguments)
    report = audit(given.data, given.root, lists=dict(given.lists) if given.lists else None, within=given.within)
    print("\n".join(told(report)))
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "audit.json").write_text(json.dumps(report.to_json(), indent=1) + "\n")
        sheets = write_contact_sheets(report, given.out)
        print(f"\nwrote {given.out / 'audit.json'} and {len(sheets)} contact sheets")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
