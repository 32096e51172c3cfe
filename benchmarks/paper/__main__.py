"""attcr with the rivals: `python -m benchmarks.paper COMMAND ...` is `attcr COMMAND ...`; and `info`, `convert`."""

from attcr.cli import app, main
from attcr.cli.arguments import Naming

from . import protocols as protocols
from .commands import convert, info

for command in (info, convert):
    app.command(cls=Naming)(command)
main()
