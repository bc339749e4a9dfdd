"""Progress on stderr when it is a terminal, results on stdout; and the options that commands share."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from counterrank.progress import reporting_to

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


seed_option = click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Seed of everything random.",
)
json_option = click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False),
    help="Write the result as JSON; - is stdout.",
)
quiet_option = click.option("--quiet", is_flag=True, help="Print nothing but errors.")


def results_console() -> "Console":
    """Return a console on stdout; wide enough for the tables when stdout is a file."""
    from rich.console import Console
    from rich.segment import Segment

    class PlainNames(Console):
        """A console on which text from a log cannot command the terminal."""

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield (
                    segment
                    if segment.control or segment.text.isprintable()
                    else Segment(
                        "".join(c for c in segment.text if c.isprintable() or c == "\n"),
                        segment.style,
                    )
                )

    return PlainNames(width=None if sys.stdout.isatty() else 110, highlight=False)


def write(path: str, text: str) -> None:
    """Write to a file, whole or not at all; `-` is stdout."""
    from counterrank import atomic

    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        atomic.write_text(path, text)


def printing_to_stdout(*paths: str | None) -> bool:
    """Return whether a result goes to stdout, which then holds nothing else; two of them are
    refused.
    """
    import click

    used = Counter(paths)["-"]
    if used > 1:
        raise click.UsageError("only one result can go to stdout (-); give the other a file")
    return used == 1


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
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with (
        Progress(*columns, console=console, transient=True) as progress,
        reporting_to(_Bar(progress)),
    ):
        yield
