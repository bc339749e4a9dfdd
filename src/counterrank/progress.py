"""The progress of passes over a log, for whoever listens; nobody, by default."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Reporter(Protocol):
    """Something that shows progress: `begin` a pass over `total` rows (None: unknown), then `advance`."""

    def begin(self, label: str, total: int | None) -> None:
        """Start a pass."""

    def advance(self, rows: int) -> None:
        """Add rows that are done."""


class _Silent:
    def begin(self, label: str, total: int | None) -> None:
        """Say nothing."""

    def advance(self, rows: int) -> None:
        """Say nothing."""


_SILENT = _Silent()
_REPORTER: ContextVar[Reporter | None] = ContextVar("reporter", default=None)


def reporter() -> Reporter:
    """Return the reporter in force here."""
    return _REPORTER.get() or _SILENT


@contextmanager
def reporting_to(listener: Reporter) -> Iterator[None]:
    """Send the progress of passes inside the block to `listener`."""
    token = _REPORTER.set(listener)
    try:
        yield
    finally:
        _REPORTER.reset(token)
