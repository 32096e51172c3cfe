"""The command that serves: serve."""

from pathlib import Path
from typing import Annotated

import typer

from attcr.cli.arguments import Address, Device, Threads, option

_LISTENS = "Address to listen at; any but this machine's own needs --keys."
_MAY_BE_ASKED = "Weights that users may choose, the first by default; may be repeated."
_IF_NONE = "the published ones, chosen by what fits a scene"
_HOSTS = (
    "A host that scenes may be fetched from, as example.org or *.example.org; private:HOST where it is in a private "
    "network; may be repeated."
)
_LIMITS = "A limit, such as jobs=20 or pixels=1e8; see docs/reference/serve.md; may be repeated."


def serve(
    store: Annotated[str, typer.Argument(help="Folder for jobs and results; created if it does not exist.")],
    host: Annotated[str, option("ADDRESS", _LISTENS)] = "127.0.0.1",
    port: Annotated[int, option("NUMBER", "Port to listen at; 0: a free one.", min=0, max=65535)] = 8000,
    weights: Annotated[list[str] | None, option("WEIGHTS", _MAY_BE_ASKED, show_default=_IF_NONE)] = None,
    keys: Annotated[
        Path | None, option("FILE", "API keys, one on each line: the user's name, a space, the key.")
    ] = None,
    allow_host: Annotated[list[str] | None, option("HOST", _HOSTS)] = None,
    limit: Annotated[list[str] | None, option("NAME=NUMBER", _LIMITS)] = None,
    engine: Annotated[str, option("ENGINE", "local: processes here. ray: actors, here or on a cluster.")] = "local",
    workers: Annotated[int, option("NUMBER", "Processes with a network each.", min=1)] = 1,
    threads: Threads = None,
    device: Device = "cpu",
    address: Address = None,
) -> None:
    """Restore scenes over HTTP (OGC API - Processes), with map tiles of the scene and its result."""
    from attcr.serve import app
    from attcr.serve.settings import ServeSettings, read_keys, read_limits

    settings = ServeSettings(
        store=store,
        host=host,
        port=port,
        weights=tuple(weights or ()),
        engine=engine,  # type: ignore[arg-type]  # checked by ServeSettings
        workers=workers,
        threads=threads,
        device=device,
        address=address,
        keys=read_keys(keys) if keys else None,
        allow_hosts=tuple(allow_host or ()),
        limits=read_limits(limit or []),
    )
    app.serve(settings, announce=lambda at: typer.echo(f"serving {store} at {at}\nopen {at}/viewer/ in a browser"))
