"""Imports run one way, down the table of the house."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "attcr"

# Each line imports only from lines above it, or from its own room (`scenes.blend` from `scenes.tiles`).
LAYERS = [
    {"errors"},
    {"files", "addresses", "downloads", "sensors"},
    {"ops", "products", "protocols", "hub"},
    {"networks", "spec"},
    {"scenes", "weights", "complexity", "data", "viz"},
    {"official", "predict", "gates"},
    {"restore", "evaluate", "export"},
    {"fleet", "train", "serve", "xarray", "demo"},
    {"cli"},
    {"__main__"},
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
MODULES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room_of(module: Path) -> str:
    return module.parts[0].removesuffix(".py")


def imported_names(module: Path) -> set[str]:
    """Give the full names of all that a module imports, inside functions too."""
    tree = ast.parse((SOURCE / module).read_text())
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def attcr_imports(module: Path) -> set[str]:
    return {name.split(".")[1] for name in imported_names(module) if name.startswith("attcr.")} & set(LEVEL)


def dotted(module: Path) -> str:
    return ".".join(("attcr", *module.with_suffix("").parts)).removesuffix(".__init__")


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_imports_only_from_the_rooms_above_it(module: Path) -> None:
    room = room_of(module)
    assert room in LEVEL, f"{module} is in no line of the table: add its room to LAYERS"
    below = {name for name in attcr_imports(module) if name != room and LEVEL[name] >= LEVEL[room]}
    assert not below, f"{module} imports {sorted(below)}, which stand beside or below it"


def test_scenes_know_no_torch_and_the_model_no_geography() -> None:
    for module in MODULES:
        text = (SOURCE / module).read_text()
        if room_of(module) in {"scenes", "sensors"}:
            assert "import torch" not in text, f"{module} imports torch"
        if room_of(module) in {"ops", "networks"}:
            assert "rasterio" not in text, f"{module} knows rasterio"


def test_no_module_imports_itself_by_way_of_others_not_even_inside_a_function() -> None:
    names = {dotted(module): module for module in MODULES}
    waiting = {
        name: {imported if imported in names else imported.rpartition(".")[0] for imported in imported_names(module)}
        for name, module in names.items()
    }
    while ready := [name for name, imports in waiting.items() if not imports & set(waiting)]:
        for name in ready:
            del waiting[name]
    assert not waiting, f"these import each other in a circle, or lead into one: {sorted(waiting)}"
