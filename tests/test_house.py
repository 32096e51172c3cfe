"""Habits of the house that a test can hold."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tools", "plugins")
SOURCES = sorted(path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
LONGEST = 60
"""Lines of a function, its signature and docstring included."""


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_no_function_is_longer_than_60_lines(source: Path) -> None:
    nodes = ast.walk(ast.parse((ROOT / source).read_text()))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lines = [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in functions]
    long = [(name, count) for name, count in lines if count > LONGEST]
    assert not long, f"{source} has functions above {LONGEST} lines: {long}"


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_no_module_is_named_after_nothing(source: Path) -> None:
    assert not {"utils", "common", "base", "helpers", "misc"} & {part.removesuffix(".py") for part in source.parts}


def test_no_two_files_of_tests_have_one_name() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names), "pytest imports them by their names"
