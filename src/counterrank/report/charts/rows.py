"""Rows of intervals on one axis: number line, estimators, segments. Reads like a table, on a phone
too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from counterrank.report.charts.scale import Scale, around_intervals
from counterrank.report.charts.svg import line, marker, percent, tag, text
from counterrank.report.numbers import known, short

HEIGHT = 30
MIDDLE = 15.0


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


@dataclass(frozen=True, slots=True)
class Axis:
    """What the axis measures, where its marked line lies, and a region to shade."""

    title: str
    line: float | None = None
    line_name: str = ""
    region: tuple[float, float] | None = None
    signed: bool = False
    as_percent: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """Rows over a shared axis, to be drawn on the page or by matplotlib."""

    rows: Sequence[Row]
    axis: Axis
    name: str

    def scale(self) -> Scale | None:
        """Return the axis that holds the rows; None when there is nothing to show."""
        data = [row for row in self.rows if not row.heading and known(row.value)]
        marked = [self.axis.line] if self.axis.line is not None else []
        return around_intervals(data, also=marked) if data else None

    def svg(self) -> Markup:
        """Return the rows as the page shows them; empty when there is nothing to show."""
        scale = self.scale()
        return _chart(self.rows, self.axis, scale, self.name) if scale is not None else Markup("")


def _chart(rows: Sequence[Row], axis: Axis, scale: Scale, name: str) -> Markup:
    body = [
        (_heading if row.heading else _row)(row, scale, axis)
        for row in rows
        if row.heading or known(row.value)
    ]
    return tag(
        "div",
        *_top(scale, axis),
        *body,
        _bottom(scale, axis),
        class_="rows chart",
        role="group",
        aria_label=name,
        tabindex="0",
    )


def _heading(row: Row, scale: Scale, axis: Axis) -> Markup:
    note = tag("span", row.note, class_="note") if row.note else ""
    title = tag("div", tag("strong", row.label), " ", note, class_="title")
    return tag("div", tag("div", _ground(scale, axis), class_="cell"), title, class_="row head")


def _row(row: Row, scale: Scale, axis: Axis) -> Markup:
    note = tag("span", row.note, class_="note") if row.note else ""
    look = f"{row.look} faded" if row.faded else row.look
    marks = tag(
        "svg",
        _mark(row, scale),
        height=HEIGHT,
        width="100%",
        class_=f"track {look}",
        aria_hidden="true",
    )
    cell = tag("div", _ground(scale, axis), marks, class_="cell")
    cells = (
        tag("div", row.label, note, class_="label"),
        cell,
        tag("div", row.shown, class_="shown"),
    )
    return tag(
        "div", *cells, class_="row mark" + (" pale" if row.faded else ""), data_tip=row.tip or None
    )


def _mark(row: Row, scale: Scale) -> Markup:
    parts = []
    if row.outer is not None and all(map(known, row.outer)):
        parts.append(_span(row.outer, scale, "outer"))
    if known(row.low) and known(row.high):
        parts.append(_span((row.low, row.high), scale, "span"))
        parts += [_arrow(scale, row.low, left=True), _arrow(scale, row.high, left=False)]
    parts.append(marker(row.shape, percent(scale.clipped(row.value)), MIDDLE, class_="dot"))
    return Markup("").join(parts)


def _span(ends: tuple[float, float], scale: Scale, class_: str) -> Markup:
    return line(
        percent(scale.clipped(ends[0])), MIDDLE, percent(scale.clipped(ends[1])), MIDDLE, class_
    )


def _arrow(scale: Scale, value: float, *, left: bool) -> Markup:
    if scale.inside(value):
        return Markup("")
    path = "M0 0 8-5V5z" if left else "M0 0-8-5V5z"
    arrow = tag("path", d=path, class_="dot")
    return tag("svg", arrow, x="0%" if left else "100%", y=MIDDLE, overflow="visible", class_="at")


def _ground(scale: Scale, axis: Axis) -> Markup:
    """The grid behind a row, as tall as the row, so that lines run through from top to bottom."""
    parts = []
    if axis.region is not None:
        left, right = scale.clipped(axis.region[0]), scale.clipped(axis.region[1])
        parts.append(
            tag(
                "rect",
                x=percent(left),
                width=percent(right - left),
                y=0,
                height="100%",
                class_="region",
            )
        )
    for tick in scale.ticks():
        parts.append(_upright(percent(scale.at(tick)), "grid"))
    if axis.line is not None:
        parts.append(_upright(percent(scale.at(axis.line)), "zero"))
    return tag("svg", *parts, width="100%", height="100%", class_="ground", aria_hidden="true")


def _upright(x: str, class_: str) -> Markup:
    return tag("line", x1=x, y1=0, x2=x, y2="100%", class_=class_)


def _top(scale: Scale, axis: Axis) -> list[Markup]:
    if axis.line is None or not axis.line_name:
        return []
    share = scale.at(axis.line)
    anchor = "start" if share < 0.2 else "end" if share > 0.8 else "middle"
    label = text(axis.line_name, percent(share), 12, "zero-name", anchor)
    drawn = tag("svg", label, height=18, width="100%", class_="track", aria_hidden="true")
    return [_edge(drawn)]


def _bottom(scale: Scale, axis: Axis) -> Markup:
    labels = [text(tick_name(t, axis), percent(scale.at(t)), 14, "tick") for t in scale.ticks()]
    title = text(axis.title, "50%", 32, "axis-title")
    drawn = tag("svg", *labels, title, height=38, width="100%", class_="track", aria_hidden="true")
    return _edge(drawn)


def _edge(drawn: Markup) -> Markup:
    cell = tag("div", drawn, class_="cell")
    return tag(
        "div", tag("div", class_="label"), cell, tag("div", class_="shown"), class_="row edge"
    )


def tick_name(value: float, axis: Axis) -> str:
    """Return the label of a tick."""
    name = short(value * 100) + "%" if axis.as_percent else short(value)
    return f"+{name}" if axis.signed and value > 0 else name
