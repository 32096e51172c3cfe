"""The command that serves: serve."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from attcr.cli.arguments import option, takes_options

_LIMITS = "A limit, such as jobs=20 or pixels=1e8; see docs/reference/serve.md; may be repeated."


@partial(takes_options, owner="serve.settings.ServeSettings")
def serve(
    store: Annotated[str, typer.Argument(help="Folder for jobs and results; created if it does not exist.")],
    keys: Annotated[
        Path | None, option("FILE", "API keys, one on each line: the user's name, a space, the key.")
    ] = None,
    limit: Annotated[list[str] | None, option("NAME=NUMBER", _LIMITS)] = None,
    **given: Any,
) -> None:
    """Restore scenes over HTTP (OGC API - Processes), with map tiles of the scene and its result."""
    from attcr.serve import app
    from attcr.serve.settings import ServeSettings, read_keys, read_limits

    known = read_keys(keys) if keys else None
    settings = ServeSettings(store, keys=known, limits=read_limits(limit or []), **given)
    app.serve(settings, announce=lambda at: typer.echo(f"serving {store} at {at}\nopen {at}/viewer/ in a browser"))
