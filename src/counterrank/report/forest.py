"""The picture that is the answer: lines of intervals over columns that have an axis each, as data and as text.

Page, terminal, Markdown and `result.plot` show the same `Forest`: policies over metrics, or segments over
policies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from counterrank.report.document import (
    NO_CHANGE,
    AxisScale,
    Block,
    Figure,
    Mark,
    Row,
    bounded,
    neat,
    tick_names,
)
from counterrank.report.words import known, spaced


@dataclass(frozen=True, slots=True)
class State:
    """What to do about a policy: its badge with a sign, and how a sentence about several begins."""

    badge: str
    sign: str
    verb: str = ""


#: In the order of the lines. Filled signs are decided, others open.
STATES = {
    "ship": State("Ship", "▲", "Ship"),
    "test": State("Test", "◐", "Test"),
    "wait": State("Keep testing", "◐", "Keep testing"),
    "hold": State("Stop", "■", "Do not ship"),
    "unknown": State("Cannot tell yet", "?", "Cannot tell yet:"),
    "same": State("As today", "="),
    "serve": State("Serve", "▲"),
    "option": State("Possible", "○"),
    "contained": State("Contained", "✓"),
    "missed": State("Missed", "✗"),
}
#: Colour and shape say the outcome; `MARK_SIGNS` are the same for text.
OUTCOMES = {
    "better": Mark("better", "better", 0),
    "worse": Mark("worse", "worse", 1),
    "unclear": Mark("no clear difference", "unclear", 2),
}
MARK_SIGNS = {"better": "●", "worse": "◆", "unclear": "○"}


def outcome(low: float, high: float, *, lower_is_better: bool = False) -> Mark:
    """Return whether an interval is better, worse or neither.

    >>> outcome(0.1, 0.2).name, outcome(0.1, 0.2, lower_is_better=True).name, outcome(-1, 1).name
    ('better', 'worse', 'no clear difference')
    """
    low, high = (-high, -low) if lower_is_better else (low, high)
    return OUTCOMES["better" if low > 0 else "worse" if high < 0 else "unclear"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A metric, or a policy of which segments are shown, with the axis that its cells share."""

    name: str
    scale: AxisScale
    ticks: Sequence[float]
    #: What is needed to read it, in a few words each.
    facts: Sequence[str] = ()
    primary: bool = False
    unit: str = "%"
    #: From where to where differences do not matter, or the interval of all rows; both shaded.
    band: tuple[float, float] | None = None
    #: A line for all rows, and the region beyond the limit of a guardrail.
    total: float | None = None
    harm: tuple[float, float] | None = None
    state: str = ""

    @property
    def labels(self) -> list[str]:
        """The ticks as text."""
        names = tick_names(self.ticks, signed=self.scale.low < 0)
        unit = "\u202f%" if self.unit == "%" else ""
        return [
            "0" if value == 0 else name + unit
            for value, name in zip(self.ticks, names, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A policy or a segment: a cell for each column, or a sentence in their place."""

    label: str
    #: The measurement of a policy, the rows of a segment.
    note: str = ""
    state: str = ""
    #: What segments are of.
    group: str = ""
    cells: Sequence[Row | None] = ()
    #: What keeps it open, and what would change that.
    cause: str = ""
    advice: Sequence[str] = ()

    def __str__(self) -> str:
        numbers = [
            spaced(
                cell.label,
                cell.shown,
                cell.reach and f"({cell.reach})",
                second_words(cell.second),
                cell.status,
            )
            for cell in self.cells
            if cell is not None
        ]
        label = f"{STATES[self.state].badge}: {self.label}" if self.state else self.label
        text = ", ".join([*numbers, *([self.note] if self.note else [])])
        return spaced(f"{label}: {text}." if text else f"{label}.", self.cause)


def lines_of(columns: Sequence[Mapping[str, Row]]) -> list[Line]:
    """Return a line for each name in any of the columns, with what each column has under it."""
    names = dict.fromkeys(name for column in columns for name in column)
    return [Line(label=name, cells=[column.get(name) for column in columns]) for name in names]


def second_words(row: Row | None) -> str:
    """Return the second reading of a number in words; nothing where there is none.

    >>> second_words(Row(label="alone", shown="+2.0", reach="+1.0 to +3.0"))
    'alone +1.0 to +3.0'
    """
    return f"{row.label} {row.reach or row.shown}" if row else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest(Block):
    """Lines over columns; `kind` is the name under which `result.plot(kind)` finds it."""

    kind: str
    caption: str
    columns: Sequence[Column]
    lines: Sequence[Line]
    #: What a line is called when several are counted: "policies".
    plural: str = "policies"
    #: What the axes measure, before the unit.
    measure: str = "lift in "
    #: What stands above their names.
    head: str = "policy and measurement"
    #: What to see, and what the shaded regions are.
    aid: str = ""
    band: str = ""
    #: What lies beyond the limit of a column, and what a second reading below an interval is.
    beyond: str = "beyond the limit of a guardrail"
    second: str = ""

    def in_words(self) -> list[str]:
        """Return a sentence for each policy; segments are left to the table."""
        return [str(line) for line in self.lines if line.state]

    def panels(self) -> list[Figure]:
        """Return a chart of one axis for each column."""
        figures = []
        for place, column in enumerate(self.columns):
            rows: list[Row] = []
            for group, lines in groupby(self.lines, lambda line: line.group):
                rows += [Row(label=group, heading=True)] if group else []
                for line in lines:
                    for cell in filter(None, line.cells[place : place + 1]):
                        rows.append(replace(cell, label=line.label, note=line.note))
            today = () if column.total is None else ((column.total, "today"),)
            marked = NO_CHANGE if column.scale.inside(0.0) else today
            axis, name = f"{self.measure}{column.unit}", f"{self.caption}: {column.name}"
            if any(known(row.value) for row in rows):
                figures.append(Figure(self.kind, rows, axis, name, marked))
        return figures


def around_zero(
    rows: Iterable[Row | None], marked: Iterable[float] = (), *, max_ticks: int, room: float
) -> tuple[AxisScale, list[float]]:
    """Return an axis in steps of 1, 2 or 5 with at most `max_ticks` ticks, at least one on each side of zero.

    It holds the intervals of the rows and what is marked; the outer ticks keep so far from the ends that
    their labels fit, a share `room` of the axis.

    >>> around_zero([Row(label="a", value=3.1, low=2.6, high=3.5)], max_ticks=6, room=0)[1]
    [-1.0, 0.0, 1.0, 2.0, 3.0]
    """
    ends = [*bounded([row for row in rows if row is not None]), *marked]
    finite = [0.0, *(value for value in ends if known(value) and abs(value) < 1e12)]
    low, high = min(finite), max(finite)
    power = 10.0 ** (math.floor(math.log10(high - low or 1.0)) - 1)
    for step in (power * factor for factor in (1, 2, 5, 10, 20, 50, 100)):
        # On to the next tick where data pass three quarters of a step.
        first = min(-1, math.ceil(low / step - 0.25))
        last = max(1, math.floor(high / step + 0.25))
        if last - first < max_ticks:
            break
    margin = room * (last - first) * step / (1 - 2 * room)
    low, high = min(low, first * step), max(high, last * step)
    pad = 0.03 * (high - low)
    scale = AxisScale(min(low - pad, first * step - margin), max(high + pad, last * step + margin))
    return scale, [neat(place * step) for place in range(first, last + 1)]


def column_over(
    name: str,
    rows: Iterable[Row | None],
    marked: Iterable[float] = (),
    max_ticks: int = 6,
    **fields: Any,
) -> Column:
    """Return a column whose axis holds its cells and what is marked."""
    # Labels of a narrow column need more of its room.
    room = 0.05 if max_ticks > 3 else 0.15
    scale, ticks = around_zero(rows, marked, max_ticks=max_ticks, room=room)
    return Column(name=name, scale=scale, ticks=ticks, **fields)


#: Signs of a text interval: its ends, where it leaves the axis, what it is drawn on.
_ENDS, _LEAVES, _GROUND, _ZERO, _LIMIT = "├┤", "◂▸", "─", "│", "┊"


def strip(cell: Row, column: Column, size: int) -> str:
    """Return an interval of `size` characters on the axis of its column: ``├──●──┤``.

    >>> scale = AxisScale(-5, 5)
    >>> column = Column(name="clicks", scale=scale, ticks=[0.0])
    >>> strip(Row(label="a", value=2, low=1, high=3, mark=OUTCOMES["better"]), column, 11)
    '     │├●┤  '
    """
    if not known(cell.value):
        return " " * size
    scale, signs = column.scale, [" "] * size

    def place(value: float) -> int:
        return round(scale.position(scale.clipped(value)) * (size - 1))

    for limit in column.harm or ():
        if scale.low < limit < scale.high:
            signs[place(limit)] = _LIMIT
    signs[place(0.0)] = _ZERO
    if known(cell.low) and known(cell.high):
        start, end = place(cell.low), place(cell.high)
        for index in range(start, end + 1):
            signs[index] = _GROUND if signs[index] == " " else "┼"
        signs[start] = (_ENDS if scale.inside(cell.low) else _LEAVES)[0]
        signs[end] = (_ENDS if scale.inside(cell.high) else _LEAVES)[1]
    signs[place(cell.value)] = MARK_SIGNS.get(cell.mark.look, "●")
    return "".join(signs)
