"""What a browser is shown of the service: where to begin, and what can be asked."""

from html import escape
from typing import Any

from attcr.version import __version__

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>attcr</title>
<link rel="icon" href="viewer/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="viewer/page.css">
</head>
"""


def page(described: dict[str, Any]) -> str:
    """Give the first page: the viewer, and the routes as the API describes them."""
    first = (
        f"<h1>attcr {escape(__version__)}</h1><p>Removes clouds from satellite images.</p>"
        '<p><a class="primary" href="viewer/">Open the viewer</a></p>'
        '<p>For programs: <a href="api">the API as OpenAPI</a>, <a href="processes/restore">what a job takes</a>, and '
        "these routes. Where a key is needed, send it as <code>Authorization: Bearer KEY</code>.</p>"
    )
    rows = [_row(path, method, told) for path, all_of in described["paths"].items() for method, told in all_of.items()]
    return f"{_HEAD}<body><main>{first}<table>{''.join(rows)}</table></main></body></html>\n"


def _row(path: str, method: str, told: dict[str, Any]) -> str:
    names = ", ".join(one["name"] for one in told.get("parameters", []) if one["in"] == "query")
    after = f"<br><small>?{escape(names)}</small>" if names else ""
    words = escape(told.get("description", told.get("summary", "")))
    return f"<tr><td>{method.upper()}</td><td><code>{escape(path)}</code>{after}</td><td>{words}</td></tr>"
