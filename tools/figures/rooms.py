"""The rooms of the package and which imports which, read from the sources."""

import ast
from pathlib import Path

import attcr

from .style import BLUE, GREEN, GREY, ORANGE, VIOLET, arrow, box, canvas, save

COLOURS = {
    **dict.fromkeys(("ops", "networks", "weights", "predict", "train", "paper"), VIOLET),
    **dict.fromkeys(("scenes", "references", "restore", "bands"), BLUE),
    **dict.fromkeys(("data", "evaluate", "bench"), ORANGE),
    **dict.fromkeys(("fleet", "serve", "cli", "xarray", "notebook", "demo"), GREEN),
}
LEFT_OUT = {"__init__", "__main__", "addresses", "downloads", "errors", "extras", "files", "version"}
"""Rooms that nearly all others use, or that only hand names on."""


def imports() -> dict[str, set[str]]:
    """Each room, and those that its files import, those for type checkers and those inside functions too."""
    source = Path(attcr.__file__).parent
    found: dict[str, set[str]] = {}
    for path in source.rglob("*.py"):
        room = path.relative_to(source).with_suffix("").parts[0]
        names = found.setdefault(room, set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("attcr."):
                names.add(node.module.split(".")[1])
            elif isinstance(node, ast.ImportFrom) and node.module == "attcr":
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("attcr.")}
    return {room: (names & set(found)) - {room} - LEFT_OUT for room, names in found.items() if room not in LEFT_OUT}


def floors(uses: dict[str, set[str]]) -> dict[str, int]:
    """The floor of each room: one above the highest that it imports."""
    heights: dict[str, int] = {}

    def height(room: str) -> int:
        if room not in heights:
            heights[room] = 1 + max((height(other) for other in uses[room]), default=-1)
        return heights[room]

    for room in uses:
        height(room)
    return heights


def direct(uses: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The imports that no way through other rooms stands for."""

    def reached(room: str) -> set[str]:
        return uses[room].union(*(reached(other) for other in uses[room]))

    return {
        (room, other)
        for room, names in uses.items()
        for other in names
        if not any(other in reached(third) for third in names - {other})
    }


def rooms(folder: Path) -> None:
    """Draw the rooms floor by floor, the lowest at the bottom; an arrow runs to what is imported."""
    uses = imports()
    at = floors(uses)
    levels = [sorted(room for room in uses if at[room] == level) for level in range(max(at.values()) + 1)]
    figure, axes = canvas(9.4, 0.85 * len(levels) + 0.2)
    places: dict[str, tuple[float, float]] = {}
    for level, names in enumerate(levels):
        for i, room in enumerate(names):
            places[room] = (9.4 * (i + 1) / (len(names) + 1), 0.85 * level + 0.4)
    for room, other in sorted(direct(uses)):
        (x, y), (across, down) = places[room], places[other]
        bend = 0.0 if at[room] - at[other] == 1 else 0.18 * (1 if x >= across else -1)
        arrow(axes, (x, y - 0.2), (across, down + 0.2), connectionstyle=f"arc3,rad={bend}", linewidth=0.9)
    for room, (x, y) in places.items():
        box(axes, (x - 0.55, y - 0.2), (1.1, 0.4), room, COLOURS.get(room, GREY))
    save(figure, folder / "rooms.svg")


DRAWN = (rooms,)
