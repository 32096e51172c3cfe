"""Every shell and Python block of the documentation runs here, or says above it why it does not.

A page's blocks run in their order, in a folder with the files that the documentation names (`reader_files.py`); Python
blocks of a page share their names. `<!-- not run: WHY -->` above a block keeps it from running: its commands are then
only parsed. Lines with `pip install` are not run either: the extras that they name must exist.
"""

import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import reader_files
import typer

from attcr.cli import app
from attcr.scenes.clouds import find

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = {"bash", "python", "text", "json", "yaml", "bat", "xml"}
EXTRAS = set(re.findall(r"(?m)^(\w+) = \[$", (ROOT / "pyproject.toml").read_text()))
FENCE = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+?) -->\s*\n\s*)?^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^ *```$",
    re.S | re.M,
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, code, and why it is not run."""

    language: str
    code: str
    why: str | None

    def commands(self) -> list[list[str]]:
        """The words of each `attcr` command in it, without what a pipe or a redirection adds."""
        lines = re.sub(r"\\\n\s*", " ", self.code).splitlines()
        words = [re.split(r"\s+[|>&]", line)[0] for line in lines if re.match(r"\s*attcr ", line)]
        return [shlex.split(line, comments=True) for line in words]


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    found = FENCE.finditer(page.read_text())
    return [Block(one["language"], textwrap.dedent(one["code"]), one["why"]) for one in found]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    reader_files.write_all(folder)
    return folder


RUN = [page for page in PAGES if any(b.why is None and b.language in ("bash", "python") for b in blocks(page))]


@pytest.mark.parametrize("page", RUN, ids=name)
def test_the_blocks_of_a_page_run(
    page: Path, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "here"
    shutil.copytree(files, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(find, "has", lambda name: False)  # a reader without detectors, whose start takes seconds
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.why is None and block.language == "python":
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                exec(compile(block.code, name(page), "exec"), names)
        elif block.why is None and block.language == "bash":
            run_shell(block, capfd)


def run_shell(block: Block, capfd: pytest.CaptureFixture[str]) -> None:
    """Run `attcr` commands in this process, which saves its start; with any other command the block goes to bash."""
    code = re.sub(r"\s#.*", "", re.sub(r"\\\n\s*", " ", block.code))
    lines = [line for line in code.splitlines() if line.strip() and not re.match(r"\s*(#|pip install )", line)]
    if all(line.startswith("attcr ") and not re.search(r"\s[|>&]\s|\$|;", line) for line in lines):
        for words in block.commands():
            assert call([path for word in words[1:] for path in expand(word, code)]) == 0, (
                f"{' '.join(words)}\n{capfd.readouterr()}"
            )
        return
    attcr = f'attcr() {{ {sys.executable} -m attcr "$@"; }}\n'
    done = subprocess.run(["bash", "-euc", attcr + "\n".join(lines)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def expand(word: str, code: str) -> list[str]:
    """The files that a word with a star stands for, as in a shell: not where it is quoted."""
    if "*" not in word or f"'{word}'" in code:
        return [word]
    return sorted(str(path) for path in Path().glob(word))


def call(arguments: list[str]) -> int:
    """Give the exit code of a command, an error's text in the assertion."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            app(arguments, standalone_mode=False)
        except typer.Exit as ended:
            return int(ended.exit_code)
    return 0


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_that_are_not_run_are_parsed(page: Path) -> None:
    root = typer.main.get_command(app)
    for block in blocks(page):
        for words in block.commands() if block.language == "bash" and block.why else []:
            parse(root, words)
        for extras in re.findall(r"attcr\[([\w,]+)\]|-e '\.\[([\w,]+)\]'", block.code):
            assert set(",".join(filter(None, extras)).split(",")) <= EXTRAS, extras


def parse(root: Any, words: list[str]) -> None:
    """Parse a command as the command line does, and run nothing."""
    command, depth = root, 1
    while hasattr(command, "commands"):
        assert words[depth] in command.commands, f"there is no command {' '.join(words)}"
        command, depth = command.commands[words[depth]], depth + 1
    command.make_context(" ".join(words[:depth]), words[depth:])
    if words[1] == "train" and "--config" in words:
        recipe = words[words.index("--config") + 1]
        shipped = ROOT / "src" / "attcr" / "train" / "recipes" / f"{recipe}.yaml"
        assert recipe.endswith(".yaml") or shipped.is_file(), f"there is no recipe {recipe}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_what_it_is(page: Path) -> None:
    told = {block.language for block in blocks(page)}
    assert told <= LANGUAGES, f"fences begin with one of {sorted(LANGUAGES)}, got {sorted(told - LANGUAGES)}"
    outside = FENCE.sub("", page.read_text())
    indented = re.findall(r"(?m)^    (?:attcr|pip|python3?|curl|pytest|torchrun) .*", outside)
    assert not indented, f"put commands between ```bash and ```, so that they are run: {indented[0]}"
