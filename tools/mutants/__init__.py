"""The mutants: small mistakes, one line each, that the tests must notice. `mutate.py` plants them.

Each is a mistake that one could make: a wrong sign, an end one off, a swapped order, a missing clip. It names the
tests that should see it, the likeliest first. Changes that make no difference are not mistakes and not here.
There is one file a room of src/attcr, whose MUTANTS are found by its being here; `top.py` has the modules outside.
"""

from importlib import import_module
from pathlib import Path

from .mutant import Mutant

ROOMS = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if path.stem != "mutant")
MUTANTS: tuple[Mutant, ...] = tuple(mutant for room in ROOMS for mutant in import_module(f"{__name__}.{room}").MUTANTS)
"""All of them."""
