"""Conditions that leave out what is wrong: groups of rows, days, and groups from a day on."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import date, timedelta

from counterrank.checks.base import Subject
from counterrank.checks.rows import days_of
from counterrank.common.errors import CounterrankError
from counterrank.common.messages import say
from counterrank.data.columns import column_of

#: More groups than this make no condition that people would write.
_NAMED = 3


def without(kind: str, labels: Sequence[str], subject: Subject) -> str:
    """Return the condition that leaves groups out, where their labels are values of the column."""
    if kind == "day":
        return without_days(labels, subject)
    if len(labels) > _NAMED or any("'" in label for label in labels):
        return ""
    values_of = {label for cut in subject.cuts if cut.column == kind for label in cut.labels}
    with suppress(CounterrankError):
        values_of |= set(column_of(subject.first, kind).astype(str).tolist())
    if not values_of.issuperset(labels):
        return ""
    return " and ".join(f"{kind} != '{label}'" for label in labels)


def option(where: str) -> str:
    """Return the option that gives a condition, after a colon; nothing without one."""
    quoted = f'"{where}"'
    return f": {say('--where', quoted, f'where={quoted}')}" if where else ""


def left_out(
    kind: str, labels: Sequence[str], subject: Subject, rows: str, remedy: str
) -> tuple[str, str]:
    """Return the condition that leaves groups out, and the remedies: that, or another one."""
    where = without(kind, labels, subject)
    return where, f"leave {rows} out{option(where)}, or {remedy}"


def without_days(days: Sequence[str], subject: Subject) -> str:
    """Return the condition that leaves days out, whether the column has days or moments."""
    if subject.time is None or len(days) > _NAMED:
        return ""
    values = column_of(subject.first, subject.time)
    days_known = set(days_of(subject.first, subject.time).tolist())
    if days_known.issuperset(values[:100].astype(str).tolist()):
        return " and ".join(f"{subject.time} != '{day}'" for day in days)
    spans = [_next_day(day) for day in days]
    if values.dtype.kind in "iuf" or None in spans:
        return ""
    return " and ".join(
        f"({subject.time} < '{day}' or {subject.time} >= '{after}')"
        for day, after in zip(days, spans, strict=True)
    )


def _next_day(day: str) -> str | None:
    try:
        return str(date.fromisoformat(day) + timedelta(days=1))
    except ValueError:
        return None


def without_both(column: str, label: str, day: str, subject: Subject, *, onwards: bool) -> str:
    """Return the condition that leaves out a group from a day on, or on one day."""
    level, other_days = without(column, [label], subject), without_days([day], subject)
    if not level or not other_days or subject.time is None:
        return ""
    return f"{level} or {subject.time} < '{day}'" if onwards else f"{level} or {other_days}"
