"""Imports run one way, down the table of the house."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "attcr"

# Each line imports only from lines above it, or from its own room (`scenes.tiles` from `scenes.io`).
LAYERS = [
    {"errors"},
    {"files", "addresses"},
    {"ops", "sensors", "protocols", "hub"},
    {"products", "networks"},
    {"spec", "complexity"},
    {"scenes", "weights", "data", "viz"},
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


def attcr_imports(module: Path) -> set[str]:
    tree = ast.parse((SOURCE / module).read_text())
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("attcr.")} & set(LEVEL)


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
