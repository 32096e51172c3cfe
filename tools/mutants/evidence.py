"""Mistakes in evidence/."""

from .mutant import of

MUTANTS = [
    *of(
        "evidence/ground.py",
        ("tests/evidence/test_ground.py",),
        ("veil-may-be-negative", "kept = 1 / np.maximum(times, 1)", "kept = 1 / np.maximum(times, 0.1)"),
        ("all-is-ground", "out * kept[..., None, :]", "out * np.ones_like(kept)[..., None, :]"),
        ("error-of-what-is-kept", "(1 - kept)[..., None, :], axis=-1)", "kept[..., None, :], axis=-1)"),
        ("every-veil-is-strong", "np.clip((times - WEAK) / (STRONG - WEAK), 0, 1)", "np.ones_like(times)"),
        ("a-corner-is-enough", "FEWEST = 1000", "FEWEST = 10"),
        ("the-scene-for-every-cell", "share = SHRINK / 4**level", "share = SHRINK"),
        ("neighbours-count-in-full", "out[1:] += 0.5 * one[:-1]", "out[1:] += one[:-1]"),
        ("cells-begin-at-their-middle", "+ 0.5) / size - 0.5, 0, cells - 1)", "+ 0.5) / size, 0, cells - 1)"),
        ("deviation-is-variance", "return np.sqrt(np.maximum(np.diagonal(", "return (np.maximum(np.diagonal("),
        ("others-say-nothing", "[weights, told - weights @ told]", "[weights, 0 * told]"),
        ("others-count-twice", "[weights, told - weights @ told]", "[weights, told]"),
        ("a-gap-is-believed", "seen if shown else None", "seen"),
        ("surroundings-without-others", "around = around + np.einsum(", "around = around + 0 * np.einsum("),
        ("others-everywhere", "seen.covers * (1 - known))", "seen.covers)"),
        ("unknown-is-known", "one + known * (other - one)", "other"),
        ("others-learnt-by-heart", "if number != at] or [there]", "]"),
        ("what-others-say-is-added", "(there[:bands] - told @ there) ** 2", "(there[:bands] + told @ there) ** 2"),
        ("surroundings-with-others", "alone.error_under(0))", "told.error_under(0))"),
        ("errors-of-the-formula", "larger**2 * 2 / np.pi", "2 / np.pi"),
        ("gaps-err-as-veils", "ERRORS if shown else ERRORS_IN_GAPS", "ERRORS"),
        ("errors-as-they-were", "ERRORS, ERRORS_IN_GAPS = 1.75, 1.4", "ERRORS, ERRORS_IN_GAPS = 1.0, 1.4"),
        ("no-margin", "MARGIN = 4 * STEP", "MARGIN = 0"),
    ),
    *of(
        "evidence/pyramid.py",
        ("tests/evidence/test_pyramid.py",),
        ("a-box", "odd[:-1] * np.float32(0.125)", "odd[:-1] * np.float32(0.0)"),
        ("steps", "image * np.float32(0.25)", "image * np.float32(0.0)"),
        ("weight-is-one", "total / np.maximum(weight, np.float32(1e-6))", "total"),
    ),
]
