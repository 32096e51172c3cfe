"""How commands speak: results on stdout, progress on stderr."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attcr.restore import Progress


@contextmanager
def progress_bar() -> "Iterator[Callable[[Progress], None]]":
    """Tiles, megapixels per second and time left, on stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}")]
    names = {"mask": "finding clouds (rows)", "restore": "restoring (tiles)", "write": "writing"}
    with Bar(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        tasks: dict[str, Any] = {}
        began: dict[str, float] = {}

        def show(progress: "Progress") -> None:
            stage = progress.stage
            if stage not in tasks:
                tasks[stage] = bar.add_task(names[stage], total=progress.total, rate="")
                began[stage] = time.perf_counter()
            elapsed = time.perf_counter() - began[stage]
            rate = f"{progress.megapixels / elapsed:.2f} MP/s" if progress.megapixels and elapsed else ""
            bar.update(tasks[stage], completed=progress.done, total=progress.total, rate=rate)

        yield show


def quiet_rasterio() -> None:
    """Keep rasterio's log off the screen: its errors reach the user as ours."""
    import logging

    logging.getLogger("rasterio").setLevel(logging.CRITICAL)


def duration(seconds: float) -> str:
    """Give a time in the unit that fits it."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
