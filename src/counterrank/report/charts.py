"""What charts show, as data: scales, rows of intervals, curves over two axes.

`svg` draws them on the page, `pictures` with matplotlib.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from counterrank.report.numbers import (
    MINUS,
    known,
    percent,
    plain,
    relative_ends,
    short,
    span,
    width,
)
from counterrank.texts import NARROW


@dataclass(frozen=True, slots=True)
class AxisScale:
    """An axis from `low` to `high`, linear or logarithmic.

    >>> AxisScale(0, 10).at(2.5), AxisScale(1, 100, log=True).at(10), AxisScale(0, 1).ticks(4)
    (0.25, 0.5, [0.0, 0.5, 1.0])
    """

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return where a value lies, 0 to 1 inside the axis; the middle of an axis without length."""
        if self.low == self.high:
            return 0.5
        if self.log:
            # Zero and below have no logarithm: they are drawn six decades beyond the axis.
            tiny = min(self.low, self.high) * 1e-6
            return (math.log(max(value, tiny)) - math.log(self.low)) / (
                math.log(self.high) - math.log(self.low)
            )
        return (value - self.low) / (self.high - self.low)

    def clipped(self, value: float) -> float:
        """Return where a value lies, moved to the nearer end when outside."""
        return min(max(self.at(value), 0.0), 1.0)

    def inside(self, value: float) -> bool:
        """Return whether a value lies on the axis."""
        # An end of the axis, computed anew, may lie a rounding outside of it.
        return -1e-9 <= self.at(value) <= 1 + 1e-9

    def ticks(self, most: int = 5) -> list[float]:
        """Return at most about `most` round values."""
        if self.low == self.high:
            return [self.low]
        # Between two round values of a short logarithmic axis there may be none: its ends do.
        return (self._decades(most) if self.log else self._steps(most)) or [self.low, self.high]

    def step(self, most: int = 5) -> float:
        """Return the distance of linear ticks: 1, 2, 2.5 or 5 of a power of ten."""
        raw = (self.high - self.low) / max(most - 1, 1)
        power = 10.0 ** math.floor(math.log10(raw))
        # The 0.999 lets a range that is round but for rounding keep its round step.
        return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)

    def _steps(self, most: int) -> list[float]:
        step = self.step(most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [_neat(index * step) for index in range(first, last + 1)]

    def _decades(self, most: int) -> list[float]:
        first = math.ceil(math.log10(self.low) - 1e-9)
        last = math.floor(math.log10(self.high) + 1e-9)
        if last - first < 1:
            fine = (m * 10.0**power for power in range(first - 1, first + 2) for m in (1, 2, 5))
            return [value for value in fine if self.inside(value)]
        stride = max(1, math.ceil((last - first + 1) / most))
        return [10.0**power for power in range(first, last + 1, stride)]


def around(values: Iterable[Any], *, also: Sequence[float] = (), margin: float = 0.06) -> AxisScale:
    """Return a linear axis that holds the finite values, with a margin.

    >>> around([1.0, None, 2.0], margin=0.1)
    AxisScale(low=0.9, high=2.1, log=False)
    """
    found = [float(v) for v in (*values, *also) if known(v)] or [0.0, 1.0]
    low, high = min(found), max(found)
    # Values that differ by roundings only would be spread over the whole axis.
    if high - low < 1e-12 * max(abs(high), 1e-300):
        low, high = low - (abs(low) * 0.1 or 1.0), high + (abs(high) * 0.1 or 1.0)
    pad = (high - low) * margin
    scale = AxisScale(_neat(low - pad), _neat(high + pad))
    return _both_sides(scale) if 0.0 in also else scale


def _both_sides(scale: AxisScale) -> AxisScale:
    """Return an axis with room for a tick on each side of zero.

    >>> _both_sides(AxisScale(-0.05, 1.0)).ticks()
    [-0.5, 0.0, 0.5, 1.0]
    """
    # A longer axis may have a longer step, which may need more room: the second or third time it fits.
    for _ in range(4):
        step = scale.step()
        if scale.low <= -step and scale.high >= step:
            break
        scale = AxisScale(_neat(min(scale.low, -step)), _neat(max(scale.high, step)))
    return scale


def _neat(value: float) -> float:
    """Return a number without what rounding left in its last digits, however small it is."""
    return float(f"{value:.12g}")


def around_intervals(
    rows: Sequence[Any], *, also: Sequence[float] = (), reach: float = 6
) -> AxisScale:
    """Return an axis for rows with value, low and high on which one hopeless interval cannot squeeze the others.

    An interval reaches at most `reach` times the median half-width from its value; the rest is drawn
    as an arrow.
    """
    widths = sorted((r.high - r.low) / 2 for r in rows if known(r.low) and known(r.high))
    # The median, which one hopeless interval cannot move.
    most = reach * widths[len(widths) // 2] if widths else 0.0
    values: list[float] = []
    for row in rows:
        if known(row.value):
            low = row.low if known(row.low) else row.value
            high = row.high if known(row.high) else row.value
            values += [row.value, max(low, row.value - most), min(high, row.value + most)]
    return around(values, also=also)


def logarithmic(values: Iterable[Any]) -> AxisScale | None:
    """Return a logarithmic axis over the positive values, None when there is no range."""
    found = [float(v) for v in values if known(v) and v > 0]
    if not found or max(found) <= min(found):
        return None
    return AxisScale(min(found) / 1.15, max(found) * 1.15, log=True)


def tick_names(
    values: Sequence[float], *, as_percent: bool = False, signed: bool = False
) -> list[str]:
    r"""Return the labels of ticks, with as many digits as tell them apart.

    >>> tick_names([0.25], as_percent=True), tick_names([2.0], signed=True)
    (['25\u202f%'], ['+2'])
    >>> tick_names([0.9998, 1.0, 1.0002]), tick_names([-0.5, 0.0, 0.5], signed=True)
    (['0.9998', '1.0000', '1.0002'], ['−0.5', '0.0', '+0.5'])
    """
    shown = [value * 100 if as_percent else value for value in values]
    names = _equal_decimals(shown) or [short(value, _digits_of(shown)) for value in shown]
    unit = NARROW + "%" if as_percent else ""
    return [
        (f"+{name}" if signed and value > 0 else name) + unit
        for name, value in zip(names, values, strict=True)
    ]


def _digits_of(values: Sequence[float]) -> int:
    """Return how many significant digits tell the values apart."""
    return next((d for d in range(3, 12) if len({short(v, d) for v in values}) == len(values)), 12)


def _equal_decimals(values: Sequence[float]) -> list[str]:
    """Return evenly spaced values with as many decimals as they need, all the same; none for others."""
    steps = [b - a for a, b in zip(values, values[1:], strict=False)]
    largest = max((abs(value) for value in values), default=0.0)
    if not steps or not 1e-6 < largest < 1e5 or max(steps) - min(steps) > 1e-6 * max(steps):
        return []
    places = next(
        (d for d in range(10) if all(abs(round(v, d) - v) < 1e-6 * steps[0] for v in values)), 10
    )
    return [f"{value:,.{places}f}".replace("-", MINUS) for value in values]


@dataclass(frozen=True, slots=True)
class Mark:
    """How a policy looks wherever it is shown: a colour and a shape, never the colour alone."""

    name: str = ""
    look: str = "t0"
    shape: int = 0


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
    faded: bool = False
    heading: bool = False


def interval_row(
    label: str, number: Any, mark: Mark, *, error: float | None = None, relative: bool = False,
    sign: bool = True, more: Iterable[str] = (), **looks: Any,
) -> Row:  # fmt: skip
    """Return a value with its interval as a row, in per cent of the baseline where it is `relative`.

    `error` decides the digits, `more` are further lines for hovering, `looks` other fields of the row.
    """
    if relative:
        value, low, high = (
            100 * one for one in (number.relative, number.relative_low, number.relative_high)
        )
        shown, reach = percent(number.relative, sign=True), relative_ends(number)
    else:
        value, low, high = number.value, number.low, number.high
        error = width(number) if error is None else error
        shown, reach = plain(value, error, sign=sign), span(low, high, error, sign=sign)
    said = f"{shown} ({reach})" if reach else shown
    tip = "\n".join(filter(None, (label, said, looks.get("note"), *more)))
    return Row(
        label=label, value=value, low=low, high=high, shown=shown, reach=reach, tip=tip, mark=mark, **looks
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis measures and from where to where, its marked lines with their names, and its ticks."""

    title: str
    scale: AxisScale
    lines: Sequence[tuple[float, str]] = ()
    #: Ticks with their labels, where they are not round numbers.
    ticks: Sequence[tuple[float, str]] = ()
    percent: bool = False
    signed: bool = False

    def named_ticks(self) -> Sequence[tuple[float, str]]:
        """Return the ticks with their labels."""
        values = self.scale.ticks()
        names = tick_names(values, as_percent=self.percent, signed=self.signed)
        return self.ticks or list(zip(values, names, strict=True))

    def words(self, stroke: str) -> str:
        """Return the title, and what marked lines are: beside a line its name could meet a mark."""
        named = [name for value, name in self.lines if name and self.scale.inside(value)]
        return f"{self.title} ({stroke}: {', '.join(named)})" if named else self.title


@dataclass(frozen=True, slots=True)
class RowChart:
    """Rows over a shared axis, to be drawn on the page or by matplotlib."""

    rows: Sequence[Row]
    axis: Axis
    name: str

    @property
    def filled(self) -> bool:
        """Whether there is anything to show."""
        return any(known(row.value) for row in self.rows)


NO_CHANGE = ((0.0, "no change"),)


def row_chart(
    rows: Sequence[Row], title: str, name: str, lines: Sequence[tuple[float, str]] = NO_CHANGE
) -> RowChart:
    """Return rows over an axis that holds them; around a line at zero the ticks have signs."""
    marked = [value for value, _ in lines]
    scale = around_intervals([row for row in rows if known(row.value)], also=marked)
    shown = [row for row in rows if row.heading or known(row.value)]
    return RowChart(shown, Axis(title, scale, lines, signed=0.0 in marked), name)


@dataclass(frozen=True, slots=True)
class Point:
    """A place, its whisker, and what hovering says."""

    x: float
    y: float
    low: float = math.nan
    high: float = math.nan
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one look, joined by a line, a band, whiskers, or none of them.

    Styles: "hollow", and "dash1" to "dash3".
    """

    points: Sequence[Point]
    mark: Mark = Mark()
    style: str = ""
    joined: bool = True
    band: bool = False
    whiskers: bool = False
    dots: bool = True
    #: Its label where a plot has more than one series.
    name: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """Series over two axes, to be drawn on the page or by matplotlib; `height` is in pixels."""

    series: Sequence[Series]
    x: Axis
    y: Axis
    name: str
    height: int = 220

    @property
    def filled(self) -> bool:
        """Whether a series has a point."""
        return any(one.points for one in self.series)

    @property
    def named(self) -> bool:
        """Whether a legend tells the series apart."""
        return sum(bool(one.name) for one in self.series) > 1
