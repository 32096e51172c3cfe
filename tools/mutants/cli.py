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
        ("a-switch-takes-a-value", "value is None or is_switch", "value is None"),
        ("settings-are-flags", "if fleet and name not in _OTHERS:", "if not fleet and name not in _OTHERS:"),
        ("flags-by-name", 'option.flags[0] if option else f"', 'f"'),
        ("a-flag-takes-true", "(option.switch or option.kind is bool)", "option.switch"),
    ),
    *of(
        "cli/arguments.py",
        ("tests/cli/test_arguments.py",),
        (
            "the-switch-turned-round",
            "option.switch if given else option.default",
            "option.default if given else option.switch",
        ),
        ("only-the-first-reference", "return tuple(given or ()) if", "return tuple(given or ())[:1] if"),
        ("no-groups", "rich_help_panel=option.group.capitalize() or None", "rich_help_panel=None"),
        ("groups-in-any-order", "key=lambda option: GROUPS.index(option.group)", "key=lambda option: option.group"),
        ("no-bounds", "min=option.least,", ""),
        ("defaults-untold", "show_default=option.shown or True", "show_default=True"),
        ("own-options-first", 'about.rich_help_panel = "Output"', "pass"),
        ("a-switch-with-values", "option.switch_help or option.help", "option.help"),
        (
            "names-of-python",
            "help=as_flags(option.switch_help or option.help)",
            "help=(option.switch_help or option.help)",
        ),
        ("nothing-completed", "if option.choices else None", "if not option.choices else None"),
        ("numbers-are-text", "if one in kinds), str)", "if one not in kinds), str)"),
    ),
    *of(
        "../../benchmarks/paper/commands.py",
        ("tests/tools/test_paper_commands.py::test_info_prints_both_counts",),
        ("decimal-megabytes", "cost.inference_bytes / 2**20", "cost.inference_bytes / 10**6"),
        ("decimal-megabytes-to-train", "cost.training_bytes / 2**20", "cost.training_bytes / 10**6"),
    ),
    *of(
        "cli/threads.py",
        ("tests/cli/test_threads.py",),
        ("no-thread-left", "max(1, count - round(", "max(0, count - round("),
        ("load-is-added", "count - round(max(busy, 0.0))", "count + round(max(busy, 0.0))"),
        ("training-shares", 'command[0] != "train"', 'command[0] == "train"'),
        ("memory-not-kept", "mallopt(number, value)", "pass"),
        ("allocator-of-the-user", "or any(name in environment for name in KEPT)", ""),
    ),
    *of(
        "cli/voice.py",
        ("tests/cli/test_voice.py",),
        ("time-left-of-all", "elapsed / done * (total - done)", "elapsed / total * (total - done)"),
        ("silent-at-once", "min(2 * self._pause, LONGEST_SILENCE)", "max(2 * self._pause, LONGEST_SILENCE)"),
    ),
    *of(
        "cli/scenes.py",
        ("tests/test_cli_restore.py::test_what_to_try_is_said_where_nothing_was_found_or_little_is_sure",),
        ("a-quarter-is-most", "elif 2 * pixels[LOW_CONFIDENCE] > changed:", "elif pixels[LOW_CONFIDENCE] > changed:"),
    ),
    *of(
        "cli/fleet.py",
        ("tests/cli/test_arguments.py::test_a_tally_is_told_with_what_was_there_before",),
        ("found-is-not-told", "done = tally.done + tally.found + tally.skipped", "done = tally.done + tally.skipped"),
    ),
]
