"""The command that serves: serve."""

from pathlib import Path
from typing import Annotated

import typer

from attcr.cli.arguments import Device

_Store = Annotated[str, typer.Argument(help="Folder for jobs and results; made where it is not there.")]
_Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address to listen at; others than this machine's need --keys.")
]
_Port = Annotated[int, typer.Option(metavar="NUMBER", min=0, max=65535, help="Port to listen at; 0: a free one.")]
_Weights = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WEIGHTS",
        help="Weights that may be asked for, the first by default; may be repeated.",
        show_default="the published ones, chosen by what fits a scene",
    ),
]
_Keys = Annotated[
    Path | None, typer.Option(metavar="FILE", help="API keys, a line each: the user's name, a space, the key.")
]
_AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST",
        help="A host that scenes may be fetched from, as example.org or *.example.org; private:HOST where it is in a "
        "private network; may be repeated.",
    ),
]
_Limit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER", help="A limit, as jobs=20 or pixels=1e8; see docs/guides/serve.md; may be repeated."
    ),
]
_Engine = Annotated[
    str, typer.Option(metavar="ENGINE", help="local: processes here. ray: actors, here or on a cluster.")
]
_Workers = Annotated[int, typer.Option(metavar="NUMBER", min=1, help="Processes with a network each.")]
_Threads = Annotated[int | None, typer.Option(metavar="NUMBER", min=1, help="Threads of each network.")]
_Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Address of a Ray cluster. Default: RAY_ADDRESS, or a new one on this machine."
    ),
]


def serve(
    store: _Store,
    host: _Host = "127.0.0.1",
    port: _Port = 8000,
    weights: _Weights = None,
    keys: _Keys = None,
    allow_host: _AllowHost = None,
    limit: _Limit = None,
    engine: _Engine = "local",
    workers: _Workers = 1,
    threads: _Threads = None,
    device: Device = "cpu",
    address: _Address = None,
) -> None:
    """Restore scenes over HTTP (OGC API - Processes), with tiles of what came and what was made."""
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
    app.serve(settings, announce=lambda at: typer.echo(f"serving {store} at {at}"))
