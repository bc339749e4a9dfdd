"""A report as data: a list of blocks, and charts of rows with their intervals over one axis.

Every result yields one `Document`, from which the page, the terminal and the notebook are made. A block
says where it is shown: everything stands on the page, a terminal shows what is `BRIEF`, and with
`--verbose` what is `VERBOSE` too. `svg` draws charts on the page, `pictures` with matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from counterrank.common.records import BRIEF as BRIEF
from counterrank.common.records import PAGE as PAGE
from counterrank.common.records import VERBOSE as VERBOSE
from counterrank.common.records import Json
from counterrank.report.words import (
    MINUS,
    known,
    percent,
    percents,
    plain,
    short,
    span,
    width,
)
from counterrank.statistics import Number


@dataclass(frozen=True, slots=True)
class AxisScale:
    """An axis from `low` to `high`.

    >>> AxisScale(0, 10).position(2.5), AxisScale(0, 1).ticks(4)
    (0.25, [0.0, 0.5, 1.0])
    """

    low: float
    high: float

    def position(self, value: float) -> float:
        """Return where a value lies, 0 to 1 inside the axis; the middle of an axis without length."""
        if self.low == self.high:
            return 0.5
        return (value - self.low) / (self.high - self.low)

    def clipped(self, value: float) -> float:
        """Return the nearest value on the axis."""
        return min(max(value, self.low), self.high)

    def inside(self, value: float) -> bool:
        """Return whether a value lies on the axis."""
        # An end of the axis, computed anew, may lie a rounding outside of it.
        return -1e-9 <= self.position(value) <= 1 + 1e-9

    def step(self, limit: int = 5) -> float:
        """Return the distance of ticks: 1, 2, 2.5 or 5 of a power of ten."""
        raw = (self.high - self.low) / max(limit - 1, 1)
        power = 10.0 ** math.floor(math.log10(raw))
        # The 0.999 lets a range that is round but for rounding keep its round step.
        return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)

    def ticks(self, limit: int = 5) -> list[float]:
        """Return at most about `limit` round values."""
        if self.low == self.high:
            return [self.low]
        step = self.step(limit)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [neat(index * step) for index in range(first, last + 1)]


def axis_around(values: Iterable[Any], *, also: Sequence[float] = ()) -> AxisScale:
    """Return an axis that holds the finite values, with a margin; around zero it has ticks on both sides.

    >>> axis_around([1.0, None, 2.0]), axis_around([-0.01, 1.0], also=[0.0]).ticks()
    (AxisScale(low=0.94, high=2.06), [-0.5, 0.0, 0.5, 1.0])
    """
    finite = [float(v) for v in (*values, *also) if known(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    # Values that differ by roundings only would be spread over the whole axis.
    if high - low < 1e-12 * max(abs(high), 1e-300):
        low, high = low - (abs(low) * 0.1 or 1.0), high + (abs(high) * 0.1 or 1.0)
    pad = (high - low) * 0.06
    scale = AxisScale(neat(low - pad), neat(high + pad))
    # A longer axis may have a longer step, which may need more room: the second or third time it fits.
    for _ in range(4 if 0.0 in also else 0):
        step = scale.step()
        scale = AxisScale(neat(min(scale.low, -step)), neat(max(scale.high, step)))
    return scale


def neat(value: float) -> float:
    """Return a number without what rounding left in its last digits, however small it is."""
    return float(f"{value:.12g}")


def around_intervals(rows: Sequence[Any], *, also: Sequence[float] = ()) -> AxisScale:
    """Return an axis for rows with value, low and high on which one hopeless interval cannot squeeze the others.

    The rest of an interval is drawn as an arrow.
    """
    return axis_around(bounded(rows), also=also)


def bounded(rows: Sequence[Any]) -> list[float]:
    """Return values and ends of intervals, none farther from its value than six times the median half-width."""
    widths = sorted((r.high - r.low) / 2 for r in rows if known(r.low) and known(r.high))
    # The median, which one hopeless interval cannot move.
    farthest = 6 * widths[len(widths) // 2] if widths else 0.0
    values: list[float] = []
    for row in (*rows, *(row.second for row in rows if row.second)):
        low = row.low if known(row.low) else row.value
        high = row.high if known(row.high) else row.value
        values += [row.value, max(low, row.value - farthest), min(high, row.value + farthest)]
    return values


def tick_names(values: Sequence[float], *, signed: bool = False) -> list[str]:
    r"""Return the labels of ticks, with as many digits as tell them apart.

    >>> tick_names([0.9998, 1.0, 1.0002]), tick_names([-0.5, 0.0, 0.5], signed=True)
    (['0.9998', '1.0000', '1.0002'], ['−0.5', '0.0', '+0.5'])
    """
    largest, sign = max(map(abs, values)), "+" if signed else ""
    step = values[1] - values[0] if len(values) > 1 else 0.0
    if 1e-6 < largest < 1e5 and step:
        places = next(
            (d for d in range(10) if all(abs(round(v, d) - v) < 1e-6 * step for v in values)), 10
        )
        names = [f"{value:,.{places}f}".replace("-", MINUS) for value in values]
    else:
        apart = (d for d in range(3, 12) if len({short(v, d) for v in values}) == len(values))
        digits = next(apart, 12)
        names = [short(value, digits) for value in values]
    return [sign * (value > 0) + name for name, value in zip(names, values, strict=True)]


@dataclass(frozen=True, slots=True)
class Mark:
    """How a number looks: a colour and a shape, never the colour alone."""

    name: str = ""
    look: str = "plain"
    shape: int = 0


#: What was measured, beside what was estimated.
MEASURED = Mark("", "today", 3)
#: An interval that missed what was measured, or the measurement that it missed.
MISSED = Mark("missed", "worse", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A label, a value with its interval, how it looks, and what hovering says; a heading has no value."""

    label: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    #: A wider interval drawn thin behind the first, for instance adjusted for many looks.
    outer: tuple[float, float] = (math.nan, math.nan)
    #: Value and interval as text.
    shown: str = ""
    reach: str = ""
    note: str = ""
    tip: str = ""
    mark: Mark = Mark()
    #: What a guardrail says of it: "safe", "open" or "broken".
    status: str = ""
    #: Whether its interval and that of all rows have nothing in common.
    apart: bool = False
    faded: bool = False
    heading: bool = False
    #: Another reading of the same number, drawn thin below it: the test alone, what was earned.
    second: Row | None = None

    def marks(self, scale: AxisScale) -> Iterator[tuple[str, float, float]]:
        """Yield what is drawn of it on an axis, from where to where: bars, arrows, and the value at last.

        Bars are "outer" and "span"; "left" and "right" are arrows where the interval leaves the axis.
        """
        for name, (low, high) in (("outer", self.outer), ("span", (self.low, self.high))):
            if known(low) and known(high):
                yield name, scale.clipped(low), scale.clipped(high)
        for name, end, edge in (("left", self.low, scale.low), ("right", self.high, scale.high)):
            if known(end) and not scale.inside(end):
                yield name, edge, edge
        yield "value", scale.clipped(self.value), scale.clipped(self.value)


def normal(value: float, stderr: float, level: float) -> Number:
    """Return a number with the normal interval of its standard error."""
    reach = NormalDist().inv_cdf(0.5 + level / 2) * stderr
    return Number(value, stderr, value - reach, value + reach)


def interval_row(
    label: str,
    number: Any,
    mark: Mark = Mark(),
    *,
    error: float | None = None,
    relative: bool = False,
    share: float | None = None,
    sign: bool = True,
    hints: Iterable[str] = (),
    **looks: Any,
) -> Row:
    """Return a value with its interval as a row.

    In per cent: of the baseline where it is `relative`, or this `share` of it. `error` decides the digits,
    `hints` are further lines for hovering, `looks` other fields of the row.
    """
    value, low, high = number.value, number.low, number.high
    if relative or share is not None:
        if share is None:
            value, low, high = number.relative, number.relative_low, number.relative_high
        else:
            value, low, high = share * value, share * low, share * high
        # An interval without a width is none.
        shown, reach = percent(value, sign=True), "" if low == high else percents(low, high)
        value, low, high = 100 * value, 100 * low, 100 * high
    else:
        error = width(number) if error is None else error
        shown, reach = plain(value, error, sign=sign), span(low, high, error, sign=sign)
    text = f"{shown} ({reach})" if reach else shown
    tip = "\n".join(filter(None, (label, text, looks.get("note"), *hints)))
    return Row(
        label=label,
        value=value,
        low=low,
        high=high,
        shown=shown,
        reach=reach,
        tip=tip,
        mark=mark,
        **looks,
    )


NO_CHANGE = ((0.0, "no change"),)


#: Signs beside the colour of a level or a status: colour is never alone.
SIGNS = {
    "reliable": "●",
    "directional": "◐",
    "insufficient": "○",
    "better": "▲",
    "worse": "▼",
    "unclear": "◆",
    "safe": "✓",
    "broken": "✗",
    "open": "?",
    "passed": "✓",
    "warned": "!",
    "failed": "✗",
    "skipped": "·",
}


@dataclass(frozen=True, slots=True)
class Chip:
    """A short label with a level or status, which has a colour and a sign."""

    text: str
    level: str = ""
    #: What the label is of: "Result", "Measurement".
    name: str = ""

    def __str__(self) -> str:
        sign = SIGNS.get(self.level, "")
        return f"{sign} {self.text}".strip()


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads to another page."""

    text: str
    href: str

    def __str__(self) -> str:
        return self.text


Cell = str | Chip | Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a document; `detail` says where it is shown."""

    detail: int = PAGE

    def panels(self) -> list[Figure]:
        """Return its charts of one axis each that have something to show."""
        return []

    def in_words(self) -> list[str]:
        """Return what it says without its tables, one thing per line."""
        return []


@dataclass(frozen=True, slots=True)
class Heading(Block):
    """The title of a section, which reaches to the next heading."""

    text: str
    id: str = ""

    def in_words(self) -> list[str]:
        """Return the title."""
        return [self.text]


@dataclass(frozen=True, slots=True)
class Paragraph(Block):
    """A sentence or more. Styles: "lead", "aid" (smaller), "strong", "code"."""

    text: str
    style: str = ""

    def in_words(self) -> list[str]:
        """Return the text."""
        return [self.text]


@dataclass(frozen=True, slots=True)
class Note(Block):
    """A line of a list: a status with its sign, a name, the text, and further lines."""

    text: str
    status: str = ""
    name: str = ""
    details: Sequence[str] = ()
    #: Places in the log, one per line.
    examples: Sequence[str] = ()

    def in_words(self) -> list[str]:
        """Return status, name and text."""
        return [": ".join(filter(None, (self.status, self.name, self.text)))]


@dataclass(frozen=True, slots=True)
class Table(Block):
    """A table with a caption; the first `texts` columns are left-aligned, the others are numbers.

    Rows have a style: "bold", "dim" or "head" (a title across the table). A narrow terminal leaves
    out the columns of `minor`, in that order, rather than digits; of more rows than `max_rows` it shows
    the first and the last.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    texts: int = 1
    styles: Sequence[str] = ()
    minor: Sequence[int] = ()
    max_rows: int | None = None

    def style(self, index: int) -> str:
        """Return the style of a row."""
        return self.styles[index] if index < len(self.styles) else ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart for matplotlib: rows over an axis that holds them, with marked lines and their names.

    `kind` is the name under which `result.plot(kind)` finds it.
    """

    kind: str
    rows: Sequence[Row]
    #: What the axis measures, and what the chart is called.
    axis: str
    name: str
    lines: Sequence[tuple[float, str]] = NO_CHANGE

    @property
    def shown(self) -> list[Row]:
        """The rows that have a value, and headings."""
        return [row for row in self.rows if row.heading or known(row.value)]

    @property
    def scale(self) -> AxisScale:
        """The axis."""
        rows = [row for row in self.rows if known(row.value)]
        return around_intervals(rows, also=[value for value, _ in self.lines])

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Ticks with their labels; around a line at zero they have signs."""
        values = self.scale.ticks()
        names = tick_names(values, signed=any(value == 0.0 for value, _ in self.lines))
        return list(zip(values, names, strict=True))


@dataclass(frozen=True, slots=True)
class Mask:
    """Which items matter to a group of users: `cells` (K, K), for which share of it each item counts at each reward."""

    group: str
    #: Its share of all rankings in whole per cent.
    share: int
    words: str
    cells: Sequence[Sequence[float]]

    @staticmethod
    def sign(share: float) -> str:
        """Return what a cell shows: that an item matters, that it does for a part of the group, or neither."""
        return "all" if share > MATTERS else "some" if share > PARTLY else "none"


#: Of the group for whom an item matters, the share above which it counts for all, and for a part of it.
MATTERS, PARTLY = 0.95, 0.15


@dataclass(frozen=True, slots=True)
class Masks(Block):
    """Groups of users side by side, a picture of K by K cells for each; `unit` is what the shares are of."""

    groups: Sequence[Mask]
    unit: str


@dataclass(frozen=True, slots=True)
class Timeline(Block):
    """Predictions over time, each with what a test measured as its `second`; `days` are ordinal days of the rows."""

    caption: str
    rows: Sequence[Row]
    days: Sequence[int]
    unit: str
    aid: str = ""

    @property
    def scale(self) -> AxisScale:
        """The axis of the values."""
        return around_intervals(self.rows, also=[0.0])

    def places(self) -> list[float]:
        """Return where each row lies from left to right, 0 to 1; rows of one day side by side."""
        first, last = min(self.days), max(self.days)
        if len(set(self.days)) < len(self.days):
            return [(index + 0.5) / len(self.days) for index in range(len(self.days))]
        return [0.05 + 0.9 * (day - first) / max(last - first, 1) for day in self.days]


@dataclass(frozen=True, slots=True)
class Fold(Block):
    """Blocks that a click opens."""

    title: str
    blocks: Sequence[Block]
    id: str = ""


class Phrase(str):
    """A sentence in which names are set apart; `pieces` are its texts, names as tuples.

    >>> phrase = Phrase.of_pieces("Ship ", ("a",), ".")
    >>> phrase, phrase.pieces
    ('Ship a.', ('Ship ', ('a',), '.'))
    """

    __slots__ = ("pieces",)
    pieces: tuple[str | tuple[str, ...], ...]

    @classmethod
    def of_pieces(cls, *pieces: str | tuple[str, ...]) -> Phrase:
        """Return a sentence of texts and names."""
        phrase = cls("".join("".join(piece) for piece in pieces).strip())
        *before, last = pieces
        last = last.rstrip() if isinstance(last, str) else last
        phrase.pieces = tuple(piece for piece in (*before, last) if piece)
        return phrase


@dataclass(frozen=True, slots=True)
class Document:
    """A title and blocks; `data` returns the JSON form that travels with the page.

    `answer` is what a list of results says of it, where that is not the title; `above` is what stands
    above the title, because all else rests on it.
    """

    title: str
    blocks: Sequence[Block]
    data: Callable[[], Json] | None = None
    answer: str = ""
    above: str = ""

    def sentences(self) -> list[str]:
        """Return the title and what a terminal shows first, without its tables: one thing per line."""
        lines = [*filter(None, (self.above,)), self.title]
        for block in self.blocks:
            lines += block.in_words() if block.detail == BRIEF else []
        return lines

    def figures(self, kind: str = "") -> list[Figure]:
        """Return the figures of a kind that have something to show; all kinds without one."""
        panels = (panel for block in walk(self.blocks) for panel in block.panels())
        return [panel for panel in panels if kind in ("", panel.kind)]


def walk(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks and what is folded in them, in the order of reading."""
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from walk(block.blocks)


def section(title: str, id_: str, *blocks: Block | None, lead: str = "") -> list[Block]:
    """Return a heading with what stands below it; nothing where there is nothing to show."""
    shown = [block for block in blocks if block is not None and _filled(block)]
    if not shown:
        return []
    above = [Paragraph(lead, "lead")] if lead else []
    return [Heading(title, id_), *above, *shown]


def _filled(block: Block) -> bool:
    match block:
        case Table(rows=content) | Fold(blocks=content):
            return bool(content)
    return bool(getattr(block, "lines", True))
