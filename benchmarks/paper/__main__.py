"""attcr with the rivals: `python -m benchmarks.paper COMMAND ...` is `attcr COMMAND ...`."""

from attcr.cli import main

main()
