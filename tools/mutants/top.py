"""Mistakes in modules at the top."""

from .mutant import of

MUTANTS = [
    *of(
        "bench.py",
        ("tests/test_bench.py",),
        (
            "the-first-round-counts",
            "for number in range(options.rounds + 1):",
            "for number in range(1, options.rounds + 1):",
        ),
        ("naive-grows-as-others", 'power = 4 if contender.backend == "torch-naive" else 2', "power = 2"),
    ),
]
