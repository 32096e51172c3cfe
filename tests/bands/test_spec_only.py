"""Nothing but the spec says what channels mean: no code tells it from how many there are."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "attcr"
MAY = {
    "bands/spec.py": "it says what the channels mean",
    "cubes/place.py": "a box in degrees has four numbers, a point with a size three",
    "cubes/write.py": "a few new dates are named, more are counted",
    "cubes/search.py": "a box without heights has four numbers",
}
COUNTS = {"in_channels", "out_channels", "channels", "bands", "band_count", "planes"}
"""Names that count channels."""


def counts_channels(node: ast.expr) -> bool:
    """Whether an expression is a number of channels: `x.shape[0]`, `len(image)`, `config.in_channels`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return True
    if isinstance(node, ast.Attribute):
        return node.attr in {"in_channels", "out_channels", "count"}
    return isinstance(node, ast.Name) and node.id in COUNTS


def is_many(node: ast.expr) -> bool:
    """Whether it is a number of bands written out, alone or among others; 0 and 1 say "none" and "any"."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(is_many, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value in (3, 4, 12, 13, 15)


def only_refuses(parents: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether a comparison decides of nothing but an error."""
    while node in parents and not isinstance(node, ast.stmt):
        node = parents[node]
    return isinstance(node, ast.Assert) or (
        isinstance(node, ast.If) and all(isinstance(line, ast.Raise) for line in node.body) and not node.orelse
    )


def guesses(code: str) -> Iterator[str]:
    """Find where code takes a number of channels for what they are."""
    tree = ast.parse(code)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        found = False
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            found = any(map(counts_channels, sides)) and any(map(is_many, sides)) and not only_refuses(parents, node)
        elif isinstance(node, ast.Slice) and isinstance(node.lower, ast.UnaryOp):  # the last so many planes
            found = counts_channels(node.lower.operand)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            found = {getattr(side, "attr", getattr(side, "id", "")) for side in (node.left, node.right)} == {
                "in_channels",
                "out_channels",
            }
        elif isinstance(node, ast.Dict):  # a table by number of bands
            found = any(key is not None and counts_channels(key) for key in node.keys)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            found = bool(node.args) and counts_channels(node.args[0])
        if found:
            yield f"line {getattr(node, 'lineno', 0)}: {ast.unparse(node)}"


@pytest.mark.parametrize("module", sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")), ids=str)
def test_no_module_tells_the_bands_from_their_number(module: Path) -> None:
    found = list(guesses((SOURCE / module).read_text()))
    assert str(module) in MAY or not found, f"{module} guesses by count, the spec knows: {found}"


@pytest.mark.parametrize(
    "code",
    [
        "if image.shape[0] == 13: image = 3 * image[[3, 2, 1]]",
        "if len(image) == 13: image = image[[3, 2, 1]]",
        "scale = 1.0 if len(clear) == 3 else 5.0",
        "optical = pair['cloudy'][-pair['clear'].shape[0] :]",
        "parts = [image[-len(clear) :] for image in images]",
        "known = {len(RGB): RGB, len(S2): S2}",
        "wavelengths = known.get(bands)",
        "range = RGB_RANGE if model.config.out_channels == 3 else SEN12MSCR_RANGE",
        "if config.in_channels in (13, 15): return SEN12MSCR",
        "sar = config.in_channels - config.out_channels",
        "names = RGB if scene.count == 3 else ()",
    ],
)
def test_a_guess_is_seen(code: str) -> None:
    assert list(guesses(f"def f():\n    {code}"))


@pytest.mark.parametrize(
    "code",
    [
        "if len(image) != len(spec.slots): raise ShapeError(image.shape)",
        "if self.rgb_only and bands != 3: raise ShapeError('RGB')",
        "if model.config.in_channels == 0: return None",
        "assert x.shape[1] == 3",
        "inputs = sample['inputs'][spec.optical]",
    ],
)
def test_a_check_is_no_guess(code: str) -> None:
    assert not list(guesses(f"def f():\n    {code}"))
