"""Mistakes in cli/."""

from .mutant import of

MUTANTS = [
    *of(
        "cli/voice.py",
        ("tests/cli/test_voice.py",),
        (
            "a-flood-of-events",
            "done < total and now - self._last[stage] <",
            "done > total and now - self._last[stage] <",
        ),
        ("no-longer-pauses", "min(2 * self._pause, LONGEST_SILENCE)", "min(1 * self._pause, LONGEST_SILENCE)"),
        ("says-the-end-too", "now < self._next or not 0 < done < total", "now < self._next or not 0 < done"),
        ("quiet-is-not", "if not (self.quiet or self.as_json):", "if not self.as_json:"),
        ("json-is-not-alone", "if not (self.quiet or self.as_json):", "if not self.quiet:"),
        ("a-switch-takes-a-value", "value is None or name in _SWITCHES", "value is None"),
        ("settings-are-flags", "if fleet and name in _OF_A_SCENE:", "if not fleet and name in _OF_A_SCENE:"),
    ),
    *of(
        "cli/threads.py",
        ("tests/cli/test_threads.py",),
        ("no-thread-left", "max(1, count - round(", "max(0, count - round("),
        ("load-is-added", "count - round(max(busy, 0.0))", "count + round(max(busy, 0.0))"),
        ("training-shares", "command[0] not in ALL_CORES", "command[0] in ALL_CORES"),
        ("memory-not-kept", "mallopt(number, value)", "pass"),
        ("allocator-of-the-user", "or any(name in environment for name in KEPT)", ""),
    ),
]
