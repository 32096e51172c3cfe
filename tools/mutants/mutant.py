"""What a mutant is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One mistake."""

    id: str
    """The file without its ending, a colon, and a few words."""
    file: str
    """Where it is made, from src/attcr on."""
    old: str
    """Text that is there exactly once."""
    new: str
    """What takes its place."""
    tests: tuple[str, ...]
    """Files of tests, or single ones (FILE::NAME), the likeliest to notice it first."""


def of(file: str, tests: tuple[str, ...], *changes: tuple[str, str, str]) -> list[Mutant]:
    """Give the mutants of one file; a change is (a few words, old, new)."""
    place = file.removesuffix(".py")
    return [Mutant(f"{place}:{words}", file, old, new, tests) for words, old, new in changes]
