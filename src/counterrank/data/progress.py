"""The progress of passes over a log, for whoever listens; nobody, by default."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Reporter:
    """Takes the progress of passes over a log; this one shows nothing."""

    def begin(self, label: str, total: int | None) -> None:
        """Start a pass over `total` rows; None where their number is unknown."""

    def advance(self, rows: int) -> None:
        """Add rows that are done."""


_SILENT = Reporter()
_REPORTER: ContextVar[Reporter] = ContextVar("reporter", default=_SILENT)


def reporter() -> Reporter:
    """Return the reporter in force here."""
    return _REPORTER.get()


@contextmanager
def reporting_to(listener: Reporter) -> Iterator[None]:
    """Send the progress of passes inside the block to `listener`."""
    token = _REPORTER.set(listener)
    try:
        yield
    finally:
        _REPORTER.reset(token)
