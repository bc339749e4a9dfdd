"""What commands print and write: results on stdout or in files, progress on stderr."""

import codecs
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from counterrank.common.options import SEED
from counterrank.common.texts import NARROW
from counterrank.report.words import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID


seed_option = click.option(
    "--seed",
    default=SEED,
    show_default=True,
    type=click.IntRange(min=0),
    help="Seed of all random numbers.",
)


#: What stands for signs that an encoding lacks; a lost minus sign would turn a loss into a gain.
_SIGNS = {
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{MIDDLE DOT}": "|",
    "\N{PLUS-MINUS SIGN}": "+-",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{BLACK STAR}": "*",
    "\N{BLACK UP-POINTING TRIANGLE}": "^",
    "\N{BLACK DOWN-POINTING TRIANGLE}": "v",
    "\N{BLACK DIAMOND}": "=",
    "\N{WHITE CIRCLE}": "o",
    "\N{BLACK CIRCLE}": "*",
    "\N{CIRCLE WITH LEFT HALF BLACK}": "o",
    "\N{MULTIPLICATION X}": "x",
    "\N{BALLOT X}": "x",
    "\N{CHECK MARK}": "v",
    "\N{RIGHTWARDS ARROW}": ">",
    "\N{LEFTWARDS ARROW}": "<",
    "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-",
    "\N{BOX DRAWINGS LIGHT VERTICAL}": "|",
    "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}": "|",
    "\N{BOX DRAWINGS LIGHT VERTICAL AND LEFT}": "|",
    "\N{BOX DRAWINGS LIGHT VERTICAL AND HORIZONTAL}": "+",
    "\N{BOX DRAWINGS LIGHT QUADRUPLE DASH VERTICAL}": ":",
    "\N{BLACK FLAG}": "!",
    "\N{BLACK SQUARE}": "#",
    "\N{BLACK LEFT-POINTING SMALL TRIANGLE}": "<",
    "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}": ">",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
}
#: The name of the error handler of an encoding that writes them.
TRANSLITERATED = "counterrank-transliterated"


def transliterated(problem: UnicodeError) -> tuple[str, int]:
    """Return what stands for characters that an encoding lacks, and where to go on.

    >>> "\N{MINUS SIGN}12.5\N{NARROW NO-BREAK SPACE}%, Käufe".encode("ascii", TRANSLITERATED)
    b'-12.5 %, Kaufe'
    >>> "├─┼●┤".encode("ascii", TRANSLITERATED)
    b'|-+*|'
    """
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    text = ""
    for sign in problem.object[problem.start : problem.end]:
        parts = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
        text += _SIGNS.get(sign) or parts or ("" if unicodedata.combining(sign) else "?")
    return text, problem.end


codecs.register_error(TRANSLITERATED, transliterated)


def results_console() -> "Console":
    """Return a console on stdout; wide enough for the tables when stdout is a file."""
    from rich.console import Console

    # Rich takes a file for 80 columns, too few for the table of estimates; COLUMNS says otherwise.
    columns = os.environ.get("COLUMNS", "")
    piped = int(columns) if columns.isdecimal() and int(columns) > 0 else 110
    return Console(width=None if sys.stdout.isatty() else piped, highlight=False)


def say(lines: Iterable[str]) -> None:
    """Print lines on stdout; text from a log cannot command the terminal."""
    text = visible("\n".join(lines)).replace(NARROW, "\N{NO-BREAK SPACE}")
    results_console().print(text, markup=False, soft_wrap=True)


def write(path: str, text: str) -> None:
    """Write to a file, whole or not at all; `-` is stdout."""
    from counterrank.common import atomic

    if path == "-":
        # A file's bytes, whatever the terminal's encoding is.
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    else:
        atomic.write_text(path, text)


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

    # Imported late, as logs are: `--help` stays quick.
    from counterrank.data.source import Reporter, reporting_to

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=Console(stderr=True), transient=True)

    class Bar(Reporter):
        """Shows each pass as a bar with the time left."""

        task: "TaskID | None" = None

        def begin(self, label: str, total: int | None) -> None:
            """Start a new bar in place of the last."""
            if self.task is not None:
                progress.remove_task(self.task)
            self.task = progress.add_task(visible(label) or "working", total=total)

        def advance(self, rows: float) -> None:
            """Move the bar."""
            if self.task is not None:
                progress.advance(self.task, rows)

    with progress, reporting_to(Bar()):
        yield
