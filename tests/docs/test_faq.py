"""Every message that the page of errors quotes is still in the sources."""

import ast
import re
from pathlib import Path

import pytest

from attcr.cli.voice import as_flags

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "faq.md").read_text()
QUOTED = re.findall(r"(?m)^\| `([^`]+)` \|", TEXT[TEXT.index("## Errors, by their message") :])


def literals() -> str:
    """All texts of the sources, those that are put together included, as the command line prints them."""
    texts = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                texts.append("".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values))
    return "\n".join(as_flags(text) for text in texts)


SOURCES = literals()


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_in_the_sources(message: str) -> None:
    """Its pieces between the parts that change stand in one text of the sources, in this order."""
    pieces = [re.escape(piece.strip()) for piece in message.split("…") if piece.strip(" :")]
    assert pieces
    assert re.search("[^\n]*?".join(pieces), SOURCES), f"no message reads {message!r}"


def test_the_page_quotes_many() -> None:
    assert len(QUOTED) >= 30
