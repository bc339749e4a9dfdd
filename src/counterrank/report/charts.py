"""Charts as SVG that stretches with the page: x in percent, y in pixels, so that text and marks keep their size.

Rows of intervals on one axis read like a table; plots are curves over two axes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from counterrank.report.numbers import known, short
from counterrank.report.parts import labelled, line, marker, place, tag, text
from counterrank.texts import NARROW

ROW_HEIGHT, MIDDLE = 30, 15.0


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

    def _steps(self, most: int) -> list[float]:
        raw = (self.high - self.low) / max(most - 1, 1)
        power = 10.0 ** math.floor(math.log10(raw))
        # The 0.999 lets a range that is round but for rounding keep its round step.
        # Ticks people can count in: 1, 2, 2.5 and 5 of a power of ten.
        step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
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
    return AxisScale(_neat(low - pad), _neat(high + pad))


def _neat(value: float) -> float:
    """Return a number without what rounding left in its last digits, however small it is."""
    return float(f"{value:.12g}")


def around_intervals(rows: Sequence[Any], *, also: Sequence[float] = ()) -> AxisScale:
    """Return an axis for rows with value, low and high on which one hopeless interval cannot squeeze the others.

    An interval reaches at most six times the median half-width from its value; the rest is drawn as
    an arrow.
    """
    widths = sorted((r.high - r.low) / 2 for r in rows if known(r.low) and known(r.high))
    # The median, which one hopeless interval cannot move.
    reach = 6 * widths[len(widths) // 2] if widths else 0.0
    values: list[float] = []
    for row in rows:
        if known(row.value):
            low = row.low if known(row.low) else row.value
            high = row.high if known(row.high) else row.value
            values += [row.value, max(low, row.value - reach), min(high, row.value + reach)]
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
    >>> tick_names([0.9998, 1.0, 1.0002])
    ['0.9998', '1', '1.0002']
    """
    shown = [value * 100 if as_percent else value for value in values]
    most = next((d for d in range(3, 12) if len({short(v, d) for v in shown}) == len(shown)), 12)
    names = [short(value, most) + (NARROW + "%" if as_percent else "") for value in shown]
    return [f"+{n}" if signed and v > 0 else n for n, v in zip(names, values, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A label, a value with its interval, how it looks, and what hovering says."""

    label: str
    value: Any
    low: Any = None
    high: Any = None
    #: A wider interval drawn thin behind the first, for instance adjusted for many looks.
    outer: tuple[float, float] | None = None
    shown: str = ""
    note: str = ""
    tip: str = ""
    look: str = "t0"
    shape: int = 0
    faded: bool = False
    heading: bool = False
    #: A limit of this row alone, drawn as an upright mark.
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """What the axis measures, where its marked line lies, and a region to shade."""

    title: str
    line: float | None = None
    line_name: str = ""
    region: tuple[float, float] | None = None
    signed: bool = False

    def tick_names(self, values: Sequence[float]) -> list[str]:
        """Return the labels of ticks."""
        return tick_names(values, signed=self.signed)


@dataclass(frozen=True, slots=True)
class RowChart:
    """Rows over a shared axis, to be drawn on the page or by matplotlib."""

    rows: Sequence[Row]
    axis: Axis
    name: str

    def scale(self) -> AxisScale | None:
        """Return the axis that holds the rows; None when there is nothing to show."""
        data = [row for row in self.rows if not row.heading and known(row.value)]
        marked = [self.axis.line] if self.axis.line is not None else []
        marked += [row.limit for row in data if row.limit is not None]
        return around_intervals(data, also=marked) if data else None

    def svg(self) -> Markup:
        """Return the rows as the page shows them; empty when there is nothing to show."""
        scale = self.scale()
        if scale is None:
            return Markup("")
        ground = _ground(scale, self.axis)
        body = [
            _heading(row, ground) if row.heading else _row(row, scale, ground)
            for row in self.rows
            if row.heading or known(row.value)
        ]
        parts = (*_top(scale, self.axis), *body, _bottom(scale, self.axis))
        return tag(
            "div", *parts, class_="rows chart", role="group", aria_label=self.name, tabindex="0"
        )


def _heading(row: Row, ground: Markup) -> Markup:
    title = tag("div", tag("strong", row.label), " ", _note(row), class_="title")
    return tag("div", tag("div", ground, class_="cell"), title, class_="row head")


def _note(row: Row) -> Markup:
    return tag("span", row.note, class_="note") if row.note else Markup("")


def _row(row: Row, scale: AxisScale, ground: Markup) -> Markup:
    look = f"{row.look} faded" if row.faded else row.look
    marks = _track(_mark(row, scale), height=ROW_HEIGHT, look=f" {look}")
    class_ = "row mark" + (" pale" if row.faded else "")
    label = escape(row.label) + _note(row)
    return labelled(label, ground + marks, row.shown, class_=class_, data_tip=row.tip or None)


def _track(*parts: Markup, height: int, look: str = "") -> Markup:
    return tag(
        "svg", *parts, height=height, width="100%", class_=f"track{look}", aria_hidden="true"
    )


def _mark(row: Row, scale: AxisScale) -> Markup:
    parts = []
    if row.outer is not None and all(map(known, row.outer)):
        parts.append(_span(row.outer, scale, "outer"))
    if known(row.low) and known(row.high):
        parts.append(_span((row.low, row.high), scale, "span"))
        parts += [_arrow(scale, row.low, left=True), _arrow(scale, row.high, left=False)]
    if row.limit is not None:
        at = place(scale.clipped(row.limit))
        parts.append(line(at, MIDDLE - 11, at, MIDDLE + 11, "limit"))
    parts.append(marker(row.shape, place(scale.clipped(row.value)), MIDDLE, class_="dot"))
    return Markup("").join(parts)


def _span(ends: tuple[float, float], scale: AxisScale, class_: str) -> Markup:
    first, last = (place(scale.clipped(end)) for end in ends)
    return line(first, MIDDLE, last, MIDDLE, class_)


def _arrow(scale: AxisScale, value: float, *, left: bool) -> Markup:
    if scale.inside(value):
        return Markup("")
    arrow = tag("path", d="M0 0 8-5V5z" if left else "M0 0-8-5V5z", class_="dot")
    return tag("svg", arrow, x="0%" if left else "100%", y=MIDDLE, overflow="visible", class_="at")


def _ground(scale: AxisScale, axis: Axis) -> Markup:
    """The grid behind a row, as tall as the row, so that lines run through from top to bottom."""
    parts = []
    if axis.region is not None:
        left, right = (scale.clipped(end) for end in axis.region)
        box = {"x": place(left), "width": place(right - left), "y": 0, "height": "100%"}
        parts.append(tag("rect", **box, class_="region"))
    parts += [_upright(scale, tick, "grid") for tick in scale.ticks()]
    if axis.line is not None:
        parts.append(_upright(scale, axis.line, "zero"))
    return tag("svg", *parts, width="100%", height="100%", class_="ground", aria_hidden="true")


def _upright(scale: AxisScale, value: float, class_: str) -> Markup:
    x = place(scale.at(value))
    return tag("line", x1=x, y1=0, x2=x, y2="100%", class_=class_)


def _top(scale: AxisScale, axis: Axis) -> list[Markup]:
    if axis.line is None or not axis.line_name:
        return []
    share = scale.at(axis.line)
    # Near an end the label grows inwards, so that it does not leave the card.
    anchor = "start" if share < 0.2 else "end" if share > 0.8 else "middle"
    label = text(axis.line_name, place(share), 12, "zero-name", anchor)
    return [labelled("", _track(label, height=18), "", class_="row edge")]


def _bottom(scale: AxisScale, axis: Axis) -> Markup:
    ticks = scale.ticks()
    labels = [
        text(name, place(scale.at(t)), 14, "tick")
        for t, name in zip(ticks, axis.tick_names(ticks), strict=True)
    ]
    drawn = _track(*labels, text(axis.title, "50%", 32, "axis-title"), height=38)
    return labelled("", drawn, "", class_="row edge")


@dataclass(frozen=True, slots=True)
class Point:
    """A place, its whisker, and what hovering says."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    tip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of one look, joined by a line, a band, whiskers, or none of them."""

    points: Sequence[Point]
    look: str = "t0"
    shape: int = 0
    joined: bool = True
    band: bool = False
    whiskers: bool = False
    dots: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotFrame:
    """Axes, marked lines across and upright with their names, and how ticks are written."""

    x: AxisScale
    y: AxisScale
    x_title: str
    y_title: str
    lines: Sequence[tuple[float, str]] = ()
    uprights: Sequence[tuple[float, str]] = ()
    x_ticks: Sequence[tuple[float, str]] | None = None
    x_percent: bool = False
    y_percent: bool = False
    signed: bool = False
    height: int = 220

    def named_x_ticks(self) -> Sequence[tuple[float, str]]:
        """Return the ticks of x with their labels."""
        ticks = self.x.ticks()
        named = list(zip(ticks, tick_names(ticks, as_percent=self.x_percent), strict=True))
        return named if self.x_ticks is None else self.x_ticks

    def y_names(self, values: Sequence[float]) -> list[str]:
        """Return the labels of ticks of y."""
        return tick_names(values, as_percent=self.y_percent, signed=self.signed)

    def y_words(self, stroke: str) -> str:
        """Return what y is, and what its marked lines are: beside a line its name could meet a mark."""
        named = [name for value, name in self.lines if name and self.y.inside(value)]
        return f"{self.y_title} ({stroke}: {', '.join(named)})" if named else self.y_title

    def down(self, value: float) -> float:
        """Return how far below the top a value of y lies, in pixels."""
        return round((1 - self.y.at(value)) * self.height, 2)

    def held(self, value: float) -> float:
        """Return the same, moved to the nearer end when outside."""
        return round((1 - self.y.clipped(value)) * self.height, 2)


@dataclass(frozen=True, slots=True)
class Plot:
    """Series over two axes, to be drawn on the page or by matplotlib.

    `names` label the series where there is more than one.
    """

    series: Sequence[Series]
    frame: PlotFrame
    name: str
    names: Sequence[str] = ()

    def svg(self) -> Markup:
        """Return the plot as the page shows it; empty when no series has a point."""
        if not any(one.points for one in self.series):
            return Markup("")
        frame, hidden = self.frame, {"aria_hidden": "true"}
        # All bands and lines first: none may cover the marks of another series.
        drawn = [make(one, frame) for make in (_shape, _marks) for one in self.series]
        layers = (*_grid(frame), *drawn, *_names(frame))
        size = {"width": "100%", "height": frame.height}
        area = tag("svg", *layers, **size, class_="plot-area", **hidden)
        marked = frame.y.ticks()
        ticks = (
            text(name, "46", frame.down(tick) + 4, "tick", "end")
            for tick, name in zip(marked, frame.y_names(marked), strict=True)
        )
        side = tag("svg", *ticks, width=52, height=frame.height, class_="plot-side", **hidden)
        below = tag("svg", *_below(frame), width="100%", height=40, class_="plot-below", **hidden)
        title = tag("div", frame.y_words("dashed"), class_="y-title")
        inner = tag("div", side, area, tag("div"), below, class_="plot-grid")
        box = {"class_": "plot chart", "role": "group", "aria_label": self.name, "tabindex": "0"}
        return tag("div", title, inner, **box)

    def legend(self, least: int = 2) -> Markup:
        """Return which line is which; empty where there are fewer than `least`."""
        named = list(zip(self.series, self.names, strict=False))
        entries = (_entry(one, name) for one, name in named)
        return tag("p", *entries, class_="legend") if len(named) >= least else Markup("")


def _entry(one: Series, name: str) -> Markup:
    stroke = tag("line", x1=0, x2=40, y1=8, y2=8, class_="curve") if one.joined else ""
    mark = marker(one.shape, "20", 8, class_="dot") if one.dots else ""
    return tag("span", tag("svg", stroke, mark, width=40, height=16, class_=one.look), " ", name)


def _grid(frame: PlotFrame) -> list[Markup]:
    across = [(tick, "grid") for tick in frame.y.ticks()]
    across += [(value, "zero") for value, _ in frame.lines if frame.y.inside(value)]
    parts = [line("0%", frame.down(v), "100%", frame.down(v), look) for v, look in across]
    for value, _ in frame.uprights:
        if frame.x.inside(value):
            x = place(frame.x.at(value))
            parts.append(line(x, 0, x, frame.height, "zero"))
    return parts


def _names(frame: PlotFrame) -> list[Markup]:
    parts = []
    for value, name in frame.uprights:
        if frame.x.inside(value) and name:
            share = frame.x.at(value)
            anchor, gap = ("start", 0.01) if share < 0.5 else ("end", -0.01)
            parts.append(text(name, place(share + gap), 12, "zero-name", anchor))
    return parts


def _shape(one: Series, frame: PlotFrame) -> Markup:
    """Lines and bands live in a box of 100 units across that is stretched; strokes keep their width."""
    parts = []
    points = one.points
    if one.band:
        top = [(p.x, p.high) for p in points if p.high is not None]
        bottom = [(p.x, p.low) for p in points if p.low is not None]
        if len(top) > 1:
            outline = _path(top, frame) + "L" + _path(bottom[::-1], frame)[1:] + "z"
            parts.append(tag("path", d=outline, class_="band"))
    if one.joined and len(points) > 1:
        path = _path([(p.x, p.y) for p in points], frame)
        parts.append(tag("path", d=path, class_="curve", vector_effect="non-scaling-stroke"))
    box = {"viewBox": f"0 0 100 {frame.height}", "preserveAspectRatio": "none", "width": "100%"}
    return tag("svg", *parts, **box, height=frame.height, class_=one.look)


def _path(points: Sequence[tuple[float, float]], frame: PlotFrame) -> str:
    places = [(f"{frame.x.at(x) * 100:.4g}", f"{frame.held(y):.5g}") for x, y in points]
    return "M" + "L".join(map(" ".join, places))


def _marks(one: Series, frame: PlotFrame) -> Markup:
    parts = []
    for point in one.points:
        x, y = place(frame.x.at(point.x)), frame.held(point.y)
        inner = []
        if one.whiskers and point.low is not None and point.high is not None:
            inner.append(line(x, frame.held(point.low), x, frame.held(point.high), "span"))
        if one.dots:
            inner.append(marker(one.shape, x, y, class_="dot"))
        # Unseen, and larger than the mark: a finger must meet it. Curves have closer points.
        inner.append(tag("circle", cx=x, cy=y, r=14 if one.dots else 9, class_="hit"))
        parts.append(tag("g", *inner, class_=f"mark {one.look}", data_tip=point.tip or None))
    return Markup("").join(parts)


def _below(frame: PlotFrame) -> list[Markup]:
    places = [(frame.x.at(value), name) for value, name in frame.named_x_ticks()]
    return [
        *(text(name, place(share), 16, "tick", _anchor(share)) for share, name in places),
        text(frame.x_title, "50%", 34, "axis-title"),
    ]


def _anchor(share: float) -> str:
    return "start" if share < 0.02 else "end" if share > 0.98 else "middle"
