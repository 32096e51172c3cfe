"""What the README says of the weights; its blocks run in tests/docs."""

from pathlib import Path

from attcr.weights import published

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_scores_are_those_of_the_weights_in_the_package() -> None:
    for entry in published().values():
        row = next(line for line in README.splitlines() if line.startswith(f"| [`{entry.name}`]"))
        for score in entry.scores:
            assert f"**{score.value:#.4g}**" in row
            assert score.low is None or f"[{score.low:#.4g}, {score.high:#.4g}]" in row
            assert f"{score.input_copied:#.4g}" in row
