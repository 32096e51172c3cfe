"""What mkdocs.yml hooks in: pages whose text is a file of the repository's root."""

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page; one with `source: README.md` on top is that file, its links seen from the page."""
    source = page.meta.get("source")
    if not source:
        return markdown
    folder = Path("docs", page.file.src_uri).parent

    def link(found: re.Match[str]) -> str:
        words, target = found.groups()
        if "://" in target or target.startswith("#"):
            return found[0]
        if not target.startswith("docs/"):  # a file that the site does not have
            return words
        return f"[{words}]({os.path.relpath(target, folder)})"

    return re.sub(r"\[([^][]*)\]\(([^)\s]+)\)", link, (ROOT / source).read_text())
