"""The page in which scenes are dropped, followed and compared: plain files, served to browsers as they are."""

from os import PathLike, stat_result
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent
MAPLIBRE = "maplibre-gl-6.17.0"
"""Folder of MapLibre GL JS as npm has it; its name changes with the version, so browsers may keep it."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "worker-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",  # tiles that came with a key; the drawings in MapLibre's style sheet
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""What the page may load: nothing of other sites."""
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
"""Told here, for the types that a system knows differ, and browsers run no module of another type."""


class Viewer(StaticFiles):
    """The files of the page, each with its type and the policy; others of the folder are not there."""

    def lookup_path(self, path: str) -> tuple[str, stat_result | None]:
        """Give the file of a path, if it is the page's."""
        if path not in ("", ".") and Path(path).suffix not in _TYPES:
            return "", None
        return super().lookup_path(path)

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Give a file as an answer."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        path = Path(full_path)
        kept = "public, max-age=31536000, immutable" if path.parent.name == MAPLIBRE else "no-cache"
        response.headers.update({"Cache-Control": kept, "Content-Security-Policy": POLICY})
        if "Content-Type" in response.headers:  # none where the browser has the file
            response.headers["Content-Type"] = f"{_TYPES[path.suffix]}; charset=utf-8"
        return response


def mount(app: FastAPI) -> None:
    """Let an app serve the page at /viewer/."""
    app.mount("/viewer", Viewer(directory=FOLDER, html=True), name="viewer")
