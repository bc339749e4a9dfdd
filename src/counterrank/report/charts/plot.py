"""Curves and points over two axes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from counterrank.report.charts.scale import Scale
from counterrank.report.charts.svg import line, marker, percent, tag, text
from counterrank.report.numbers import short

HEIGHT = 220


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
    steps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Axes, marked lines, a shaded band of y, and how ticks are written."""

    x: Scale
    y: Scale
    x_title: str
    y_title: str
    lines: Sequence[tuple[float, str]] = ()
    uprights: Sequence[tuple[float, str]] = ()
    x_ticks: Sequence[tuple[float, str]] | None = None
    y_percent: bool = False
    signed: bool = False
    height: int = field(default=HEIGHT)


@dataclass(frozen=True, slots=True)
class Drawing:
    """Series over two axes, to be drawn on the page or by matplotlib; `names` label the series
    where there is more than one.
    """

    series: Sequence[Series]
    frame: Frame
    name: str
    names: Sequence[str] = ()

    def svg(self) -> Markup:
        """Return the plot as the page shows it; empty when no series has a point."""
        return (
            _chart(self.series, self.frame, self.name)
            if any(one.points for one in self.series)
            else Markup("")
        )


def _chart(series: Sequence[Series], frame: Frame, name: str) -> Markup:
    drawn = [_shape(one, frame) for one in series] + [_marks(one, frame) for one in series]
    plot = tag(
        "svg", *_grid(frame), *drawn, *_names(frame), width="100%", height=frame.height, class_="plot-area",
        aria_hidden="true",
    )  # fmt: skip
    side = tag(
        "svg", *_side(frame), width=52, height=frame.height, class_="plot-side", aria_hidden="true"
    )
    below = tag(
        "svg", *_below(frame), width="100%", height=40, class_="plot-below", aria_hidden="true"
    )
    title = tag("div", frame.y_title, class_="y-title")
    inner = tag("div", side, plot, tag("div"), below, class_="plot-grid")
    return tag(
        "div", title, inner, class_="plot chart", role="group", aria_label=name, tabindex="0"
    )


def _y(frame: Frame, value: float) -> float:
    return round((1 - frame.y.at(value)) * frame.height, 2)


def _held(frame: Frame, value: float) -> float:
    return round((1 - frame.y.clipped(value)) * frame.height, 2)


def _grid(frame: Frame) -> list[Markup]:
    parts = [
        line("0%", _y(frame, tick), "100%", _y(frame, tick), "grid") for tick in frame.y.ticks()
    ]
    for value, _ in frame.lines:
        if frame.y.inside(value):
            parts.append(line("0%", _y(frame, value), "100%", _y(frame, value), "zero"))
    for value, _ in frame.uprights:
        if frame.x.inside(value):
            parts.append(
                line(
                    percent(frame.x.at(value)), 0, percent(frame.x.at(value)), frame.height, "zero"
                )
            )
    return parts


def _names(frame: Frame) -> list[Markup]:
    parts = [
        text(name, "100%", _y(frame, value) - 5, "zero-name", "end")
        for value, name in frame.lines if name and frame.y.inside(value)
    ]  # fmt: skip
    for value, name in frame.uprights:
        share = frame.x.at(value)
        if frame.x.inside(value) and name:
            anchor = "start" if share < 0.5 else "end"
            parts.append(
                text(
                    name, percent(share + (0.01 if share < 0.5 else -0.01)), 12, "zero-name", anchor
                )
            )
    return parts


def _shape(one: Series, frame: Frame) -> Markup:
    """Lines and bands live in a box of 100 units across that is stretched; strokes keep their
    width.
    """
    parts = []
    points = one.points
    if one.band:
        top = [(p.x, p.high) for p in points if p.high is not None]
        bottom = [(p.x, p.low) for p in points if p.low is not None]
        if len(top) > 1:
            outline = _path(top, frame) + "L" + _path(bottom[::-1], frame)[1:] + "z"
            parts.append(tag("path", d=outline, class_="band"))
    if one.joined and len(points) > 1:
        path = _path([(p.x, p.y) for p in points], frame, steps=one.steps)
        parts.append(tag("path", d=path, class_="curve", vector_effect="non-scaling-stroke"))
    return tag(
        "svg", *parts, viewBox=f"0 0 100 {frame.height}", preserveAspectRatio="none", width="100%",
        height=frame.height, class_=one.look,
    )  # fmt: skip


def _path(
    points: Sequence[tuple[float, float | None]], frame: Frame, *, steps: bool = False
) -> str:
    places = [(frame.x.at(x) * 100, _held(frame, y)) for x, y in points if y is not None]
    if steps:
        return (
            "M"
            + f"{places[0][0]:.4g} {places[0][1]:.5g}"
            + "".join(f"H{x:.4g}V{y:.5g}" for x, y in places[1:])
        )
    return "M" + "L".join(f"{x:.4g} {y:.5g}" for x, y in places)


def _marks(one: Series, frame: Frame) -> Markup:
    parts = []
    for point in one.points:
        x, y = percent(frame.x.at(point.x)), _held(frame, point.y)
        inner = []
        if one.whiskers and point.low is not None and point.high is not None:
            inner.append(line(x, _held(frame, point.low), x, _held(frame, point.high), "span"))
        if one.dots:
            inner.append(marker(one.shape, x, y, class_="dot"))
        inner.append(tag("circle", cx=x, cy=y, r=14 if one.dots else 9, class_="hit"))
        parts.append(tag("g", *inner, class_=f"mark {one.look}", data_tip=point.tip or None))
    return Markup("").join(parts)


def _side(frame: Frame) -> list[Markup]:
    return [
        text(tick_name(tick, frame), "46", _y(frame, tick) + 4, "tick", "end")
        for tick in frame.y.ticks()
    ]


def tick_name(value: float, frame: Frame) -> str:
    """Return the label of a tick of y."""
    name = short(value * 100) + "%" if frame.y_percent else short(value)
    return f"+{name}" if frame.signed and value > 0 else name


def _below(frame: Frame) -> list[Markup]:
    ticks = (
        frame.x_ticks
        if frame.x_ticks is not None
        else [(tick, short(tick)) for tick in frame.x.ticks()]
    )
    places = [(frame.x.at(value), name) for value, name in ticks]
    return [
        *(text(name, percent(share), 16, "tick", _anchor(share)) for share, name in places),
        text(frame.x_title, "50%", 34, "axis-title"),
    ]


def _anchor(share: float) -> str:
    return "start" if share < 0.02 else "end" if share > 0.98 else "middle"
