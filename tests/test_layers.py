"""Imports run one way, down the table of the house."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from attcr import _PUBLIC

SOURCE = Path(__file__).parents[1] / "src" / "attcr"

# Each line imports only from lines above it, or from its own room (`scenes.write` from `scenes.tiles`).
LAYERS = [
    {"errors", "version"},
    {"files", "addresses", "extras"},
    {"downloads", "evidence"},
    {"bands"},
    {"compiled"},
    {"ops"},
    {"networks"},
    {"weights"},
    {"predict"},
    {"data"},
    {"scenes"},
    {"references"},
    {"restore"},
    {"cubes"},
    {"evaluate"},
    {"fleet"},
    {"serve"},
    {"train"},
    {"demo", "xarray"},
    {"notebook"},
    {"cli"},
    {"__main__"},
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")

NO_TORCH = {"errors", "extras", "files", "addresses", "bands", "compiled", "evidence", "scenes"}
"""Rooms that never import torch."""
NO_TORCH_AT_IMPORT = {"weights", "references", "restore", "cubes", "cli"}
"""Rooms that import it in the function that needs it, and through no other module before."""
NO_GEOGRAPHY = {"evidence", "compiled", "ops", "networks", "bands", "weights", "predict"}
GEOGRAPHY = {"rasterio", "rio_cogeo", "pystac", "pystac_client", "pyproj", "shapely", "osgeo"}


def room_of(module: str) -> str:
    """The line of the table that a module (`attcr.scenes.tiles`) stands in."""
    return module.split(".")[1] if "." in module else ""


def module_of(file: Path) -> str:
    """`attcr.scenes.tiles` of scenes/tiles.py, `attcr.scenes` of scenes/__init__.py."""
    return ".".join(("attcr", *file.with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module_of(file): SOURCE / file for file in FILES}


def imports_of(module: str, text: str, *, at_import: bool = False) -> set[str]:
    """Every name that a module imports, in full: `torch.nn`, `attcr.scenes.tiles.Grid`.

    Relative imports and those inside functions are seen too; with `at_import` only what runs when the module is
    loaded. A public name (`from attcr import load_model`, `attcr.load_model`) stands for the module it lives in.
    """
    tree = ast.parse(text)
    found: set[str] = set()
    package = module if MODULES.get(module, Path()).name == "__init__.py" else module.rpartition(".")[0]
    for node in _loaded(tree.body) if at_import else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{source}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "attcr":
            found.add(f"attcr.{node.attr}")
    public = {f"attcr.{name}": f"attcr.{home}" for home, names in _PUBLIC.items() for name in names}
    return {public.get(name, name) for name in found}


def _loaded(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """What runs when a module is loaded: no functions, and nothing that is for type checkers alone."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        for block in ("body", "orelse", "finalbody"):
            yield from _loaded(getattr(node, block, []))
        for handler in getattr(node, "handlers", []):
            yield from _loaded(handler.body)


def modules_among(names: set[str]) -> set[str]:
    """The modules of this package that these names are or live in."""
    return {
        whole if whole in MODULES else whole.rpartition(".")[0]
        for whole in names
        if whole in MODULES or whole.rpartition(".")[0] in MODULES
    }


def knows(names: set[str], libraries: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names} & libraries


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_the_rooms_above_it(module: str) -> None:
    room = room_of(module)
    assert room in LEVEL, f"{module} is in no line of the table: add its room to LAYERS"
    names = imports_of(module, MODULES[module].read_text())
    rooms = {room_of(name) for name in names if name.startswith("attcr.")} & set(LEVEL)
    below = {name for name in rooms if name != room and LEVEL[name] >= LEVEL[room]}
    assert not below, f"{module} imports {sorted(below)}, which stand beside or below it"


def test_no_two_modules_import_each_other_on_any_way() -> None:
    needs = {module: modules_among(imports_of(module, path.read_text())) for module, path in MODULES.items()}
    done: set[str] = set()

    def walk(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"in a circle: {' -> '.join((*trail[trail.index(module) :], module))}"
        if module not in done:
            for other in sorted(needs[module] - {module}):
                walk(other, (*trail, module))
            done.add(module)

    for module in needs:
        walk(module, ())


@pytest.mark.parametrize("module", [module for module in MODULES if room_of(module) in NO_TORCH])
def test_scenes_and_values_know_no_torch(module: str) -> None:
    assert not knows(imports_of(module, MODULES[module].read_text()), {"torch", "lightning", "torchmetrics"})


@pytest.mark.parametrize("module", [module for module in MODULES if room_of(module) in NO_TORCH | NO_TORCH_AT_IMPORT])
def test_what_may_run_without_torch_does_not_load_it(module: str) -> None:
    trails = {module: module}
    waiting = [module]
    while waiting:
        reached = waiting.pop()
        names = imports_of(reached, MODULES[reached].read_text(), at_import=True)
        assert not knows(names, {"torch"}), f"{trails[reached]} loads torch"
        parents = {reached.rpartition(".")[0]} & set(MODULES)
        for other in (modules_among(names) | parents) - set(trails):
            trails[other] = f"{trails[reached]} -> {other}"
            waiting.append(other)


@pytest.mark.parametrize("module", [module for module in MODULES if room_of(module) in NO_GEOGRAPHY])
def test_networks_and_values_know_no_geography(module: str) -> None:
    assert not knows(imports_of(module, MODULES[module].read_text()), GEOGRAPHY)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import torch", {"torch"}),
        ("import torch.nn.functional as F", {"torch.nn.functional"}),
        ("from torch import Tensor, nn", {"torch.Tensor", "torch.nn"}),
        ("def f():\n    from torch import nn", {"torch.nn"}),
        ("if True:\n    import attcr.restore", {"attcr.restore"}),
        ("from . import write", {"attcr.scenes.write"}),
        ("from .tiles import Grid", {"attcr.scenes.tiles.Grid"}),
        ("from ..restore.scene import x", {"attcr.restore.scene.x"}),
        ("from .. import evaluate", {"attcr.evaluate"}),
        ("from attcr.evaluate import run", {"attcr.evaluate.run"}),
        ("from attcr import load_model", {"attcr.weights"}),
        ("import attcr\nattcr.restore_scene()", {"attcr", "attcr.restore.scene"}),
    ],
)
def test_every_way_to_import_is_seen(text: str, names: set[str]) -> None:
    assert imports_of("attcr.scenes.masks", text) == names


def test_what_runs_at_import_is_told_from_what_runs_later() -> None:
    text = (
        "import a\nif TYPE_CHECKING:\n    import b\ntry:\n    import c\nexcept ImportError:\n    import d\n"
        "class E:\n    import e\n    def m(self):\n        import f\ndef g():\n    import g\n"
    )
    assert imports_of("attcr.bands.spec", text, at_import=True) == {"a", "c", "d", "e"}
    assert imports_of("attcr.bands.spec", text) == set("abcdefg")
