"""What mkdocs.yml hooks in: pages from files of the root, the commands and options, plain notebooks."""

import contextlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from attcr.cli import app
from attcr.restore.options import GROUPS, restore_options

ROOT = Path(__file__).parents[1]


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page: `source: README.md` on top makes it that file, `commands` and `options` add what is there."""
    if "source" in page.meta:
        return root_file(page.meta["source"], page.file.src_uri)
    return markdown + (reference() if "commands" in page.meta else options() if "options" in page.meta else "")


def on_page_content(html: str, *, page: Any, config: Any, **_: Any) -> str:
    """The HTML of a page; that of a notebook with links that open it, and without scripts of other sites."""
    path = page.file.src_uri
    if not path.endswith(".ipynb"):
        return html
    plain = re.sub(r"(?s)<script.*?</script>", lambda found: found[0] if "clipboard" in found[0] else "", html)
    return opened_elsewhere(path, config["extra"].get("repository", "")) + plain


def opened_elsewhere(path: str, repository: str) -> str:
    """Links that open a notebook of docs/ on Colab and Binder; nothing where the repository's address is not known."""
    if not repository:
        return ""
    colab = f"https://colab.research.google.com/github/{repository}/blob/main/docs/{path}"
    binder = f"https://mybinder.org/v2/gh/{repository}/HEAD?labpath=docs/{path}"
    return f'<p><a href="{colab}">Open in Colab</a> · <a href="{binder}">Open in Binder</a></p>\n'


def on_post_build(*, config: Any, **_: Any) -> None:
    """Put the weights beside the items that describe them, which then lead to them."""
    for path in Path(config["site_dir"], "reference", "models").glob("*.json"):
        item = json.loads(path.read_text())
        for asset in item["assets"].values():
            weights = Path(ROOT, "docs", "reference", "models", asset["href"]).resolve()
            shutil.copyfile(weights, path.with_name(weights.name))
            asset["href"] = f"./{weights.name}"
        path.write_text(json.dumps(item, indent=2) + "\n")


def root_file(name: str, page: str) -> str:
    """A file of the root, its links seen from the page; a link to what the site does not have is plain text."""
    folder = Path("docs", page).parent

    def link(found: re.Match[str]) -> str:
        words, target = found.groups()
        if "://" in target or target.startswith("#"):
            return found[0]
        if not target.startswith("docs/"):
            return words
        return f"[{words}]({os.path.relpath(target, folder)})"

    return re.sub(r"\[([^][]*)\]\(([^)\s]+)\)", link, (ROOT / name).read_text())


def reference() -> str:
    """Every command with its help, arguments, options and defaults, as Markdown."""
    root = typer.main.get_command(app)
    return "\n".join(_command(root, typer.Context(root, info_name="attcr")))


def options() -> str:
    """Every option of RestoreOptions, group by group, as Markdown."""
    return "\n".join(line for group in GROUPS for line in _group(group))


def _group(group: str) -> Iterator[str]:
    yield f"\n## {group.capitalize() or 'What most people need'}\n"
    yield "| option | command line | default | meaning | service |\n|---|---|---|---|---|"
    for option in restore_options().values():
        if option.group == group:
            flag = f"{option.flags[0]} {option.metavar}".strip()
            default = _words(option.shown) or ("" if option.default in (None, ()) else f"`{option.default!r}`")
            meaning = _words(option.help) + ("" if option.least is None else f" At least {option.least}.")
            share = f"{option.share[0]} to {option.share[1]}" if option.share else "yes"
            yield f"| `{option.name}` | `{flag}` | {default} | {meaning} | {share if option.served else 'no'} |"


def _command(command: Any, context: Any) -> Iterator[str]:
    with contextlib.redirect_stdout(io.StringIO()):
        command.get_help(context)  # puts the names of data sets, networks and products into the help
    subcommands = getattr(command, "commands", {})
    if not subcommands:
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        options = [param for param in command.params if param.param_type_name == "option"]
        needed = [_name(param) for param in [*arguments, *options] if param.required]
        others = [f"[{_name(param)}]" for param in arguments if not param.required]
        yield f"\n## {context.command_path}\n"
        yield f"```text\n{' '.join([context.command_path, *needed, *others, '[OPTIONS]'])}\n```\n"
        yield _words(command.help)
        yield from _table("argument", arguments)
        panels = [getattr(param, "rich_help_panel", None) for param in options]
        for panel in dict.fromkeys(panels):
            yield from _table(
                f"option ({panel.lower()})" if panel else "option",
                [param for param, its in zip(options, panels, strict=True) if its == panel],
            )
    for name, child in subcommands.items():
        yield from _command(child, type(context)(child, info_name=name, parent=context))


def _table(kind: str, params: list[Any]) -> Iterator[str]:
    if params:
        yield f"\n| {kind} | meaning | default |\n|---|---|---|"
    for param in params:
        yield f"| `{_name(param)}` | {_words(param.help)} | {_default(param)} |"


def _name(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    names = ", ".join(param.opts)
    return names if param.is_flag or param.count else f"{names} {param.metavar or ''}".strip()


def _default(param: Any) -> str:
    shown = param.show_default if param.param_type_name == "option" else True
    if param.required:
        return "required"
    if isinstance(shown, str):
        return _words(shown)
    return f"`{param.default}`" if shown and param.default not in (None, False, (), []) else ""


def _words(text: str | None) -> str:
    """Help with its line breaks taken out, safe in a table."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    plain = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return plain.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
