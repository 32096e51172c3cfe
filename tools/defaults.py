"""Write the tables of docs/results/defaults.md: `attcr evaluate` on real pairs, sets of one protocol together.

    python -m tools.defaults --pairs NAME[:PROTOCOL]=FOLDER ... --work NEW --page PAGE --block development

NAME is a data set of `attcr evaluate` (cloudsen12, sen12mscr-pairs, sen12mscrts-146, haze-20lmr) and FOLDER where it
lies; fresh scenes are added as folders in the layout of such a set. Each set is scored under its own protocol, and the
veils of sen12mscr-pairs are moved too, unless PROTOCOL is said. NEW gets a report folder for each; an interrupted run
continues there. What is between `<!-- BLOCK -->` and `<!-- /BLOCK -->` in the page becomes the tables.
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attcr.data import find_set
from attcr.evaluate.by_class import MOVED_VEIL
from attcr.evaluate.run import PROTOCOLS, VEILS, Entrants, evaluate_entrants, open_benchmark

Rows = list[dict[str, Any]]
LEFT_TO_REPORTS = ("thick", "clear", "all")
"""Classes that the page does not show: thick cloud stays as it came and decides the means of all pixels; a line says
how clear ground changes."""


def score(pairs: list[str], weights: str, work: Path) -> dict[str, dict[str, Rows]]:
    """Evaluate each set; give the rows of its images, by protocol and set."""
    found: dict[str, dict[str, Rows]] = {}
    for number, pair in enumerate(pairs):
        given, _, folder = pair.partition("=")
        name, _, only = given.partition(":")
        own = (find_set(name).protocol, *((MOVED_VEIL.name,) if name == VEILS else ()))
        for protocol in (only,) if only else own:
            out = work / f"{number}-{name}-{protocol}"
            evaluate_entrants(open_benchmark(name, folder), Entrants([weights]), [protocol], out)
            _, *rows = map(json.loads, (out / "rows.jsonl").read_text().splitlines())
            found.setdefault(protocol, {}).setdefault(name, []).extend(rows)
            print(out, flush=True)
    return found


def tables(found: dict[str, dict[str, Rows]]) -> str:
    """Give a table for each protocol, of all its sets together."""
    lines: list[str] = []
    for protocol in sorted(found, key=list(PROTOCOLS).index):
        sets = found[protocol]
        told = ", ".join(f"{len(rows)} of {name}" for name, rows in sets.items())
        every = [row for rows in sets.values() for row in rows]
        rule = PROTOCOLS[protocol]
        result = rule.summarise(every, find_set(next(iter(sets))), "test")
        result["classes"] = {name: n for name, n in result["classes"].items() if name not in LEFT_TO_REPORTS}
        lines += [f"**`{protocol}`**, {told}.", "", *shortened(rule.table(result)), ""]
    return "\n".join(lines)


def shortened(table: list[str]) -> Iterator[str]:
    """Leave out what the page says once, and the names of the pairs that are left out."""
    for line in table:
        if not line.startswith(("- Harmed: ", "- thick: ", "Reflectance, ")):
            yield re.sub(r"^(- Left out, .* within [\d.]+ and [\d.]+):.*", r"\1.", line)


def replace_block(page: str, block: str, text: str) -> str:
    """Give a page with other text between the two marks of a block."""
    marks = f"<!-- {block} -->", f"<!-- /{block} -->"
    if any(page.count(mark) != 1 for mark in marks):
        raise SystemExit(f"the page needs {marks[0]} and {marks[1]} once each")
    parted = re.compile(f"({re.escape(marks[0])}).*({re.escape(marks[1])})", re.DOTALL)
    return parted.sub(lambda found: f"{found[1]}\n\n{text}\n{found[2]}", page)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", action="append", required=True, metavar="NAME[:PROTOCOL]=FOLDER")
    parser.add_argument("--weights", default="s2-thin")
    parser.add_argument("--work", type=Path, required=True, help="a new folder, for the reports")
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--block", required=True)
    args = parser.parse_args()
    page = args.page.read_text()
    replace_block(page, args.block, "")
    text = tables(score(args.pairs, args.weights, args.work))
    print(text)
    args.page.write_text(replace_block(page, args.block, text))


if __name__ == "__main__":
    main()
