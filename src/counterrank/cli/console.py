"""Progress on stderr when it is a terminal, results on stdout."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from counterrank.progress import reporting_to

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


def results_console() -> "Console":
    """Return a console on stdout; wide enough for the tables when stdout is a file."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 110, highlight=False)


class _Bar:
    """Shows each pass as a bar with the time left."""

    def __init__(self, progress: "Progress") -> None:
        self.progress = progress
        self.task: TaskID | None = None

    def begin(self, label: str, total: int | None) -> None:
        """Start a new bar in place of the last."""
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(label or "working", total=total)

    def advance(self, rows: int) -> None:
        """Move the bar."""
        if self.task is not None:
            self.progress.advance(self.task, rows)


@contextmanager
def showing_progress(*, enabled: bool = True) -> Iterator[None]:
    """Show the passes made inside the block, when stderr is a terminal."""
    if not enabled or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress, reporting_to(_Bar(progress)):
        yield
