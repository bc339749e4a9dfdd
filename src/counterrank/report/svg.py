"""Charts as SVG that stretches with the page: x in percent, y in pixels, so that text and marks keep their size.

Rows of intervals on one axis read like a table; plots are curves over two axes.
"""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from counterrank.report.charts import (
    Axis,
    AxisScale,
    Matrices,
    MatrixCard,
    Plot,
    PlotFrame,
    Row,
    RowChart,
    Series,
)
from counterrank.report.numbers import known
from counterrank.texts import visible

ROW_HEIGHT, MIDDLE = 30, 15.0
_SHAPES = (
    "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",
    "M0-7.5 7.5 0 0 7.5-7.5 0z",
    "M-5.5-5.5h11v11h-11z",
    "M0-7 7 5.5H-7z",
    "M0 7 7-5.5H-7z",
)


def tag(name: str, *children: Any, **attributes: Any) -> Markup:
    """Return an element; attribute names lose a trailing underscore, others become hyphens; None is left out.

    >>> str(tag("text", "a < b", class_="tick", text_anchor="end", y=None))
    '<text class="tick" text-anchor="end">a &lt; b</text>'
    """
    # Joined by hand: a page has thousands of elements, and formatting Markup is ten times slower.
    parts = ["<", name]
    for key, value in attributes.items():
        if value is not None:
            shown = f"{value:.6g}" if isinstance(value, float) else safe(value)
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{shown}"')
    parts.append(">")
    parts.extend(map(safe, children))
    parts.append(f"</{name}>")
    return Markup("".join(parts))


def safe(value: Any) -> Markup:
    """Return markup as it is, and anything else escaped, without characters that nobody sees."""
    return value if isinstance(value, Markup) else escape(visible(str(value)))


def place(share: float) -> str:
    """Return a position as SVG wants it.

    >>> place(0.12345)
    '12.35%'
    """
    return f"{share * 100:.4g}%"


def marker(shape: int, x: str, y: float, **attributes: Any) -> Markup:
    """Return one of five shapes at (x, y): circle, diamond, square, triangle, inverted triangle."""
    shown = tag("path", d=_SHAPES[shape % len(_SHAPES)], **attributes)
    return tag("svg", shown, x=x, y=y, overflow="visible", class_="at")


def line(x1: str, y1: float, x2: str, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def text(content: Any, x: str, y: float, class_: str, anchor: str = "middle") -> Markup:
    """Return a piece of text."""
    return tag("text", content, x=x, y=y, class_=class_, text_anchor=anchor)


def drawn(chart: RowChart | Plot | Matrices) -> Markup:
    """Return a chart as the page shows it; empty when there is nothing to show."""
    if not chart.filled:
        return Markup("")
    if isinstance(chart, RowChart):
        return _rows(chart)
    if isinstance(chart, Plot):
        return legend(chart) + _plot(chart)
    cards = (_matrix_card(card) for card in chart.cards)
    return tag("div", *cards, class_=f"kinds chart {chart.look}", role="group", tabindex="0")


def labelled(label: Any, cell: Any, shown: Any, **attributes: Any) -> Markup:
    """Return a row of a chart: its label, what is drawn, its number."""
    cells = {"label": label, "cell": cell, "shown": shown}
    return tag("div", *(tag("div", one, class_=c) for c, one in cells.items()), **attributes)


def _rows(chart: RowChart) -> Markup:
    scale = chart.scale()
    ground = _ground(scale, chart.axis)
    body = [
        _heading(row, ground) if row.heading else _row(row, scale, ground)
        for row in chart.rows
        if row.heading or known(row.value)
    ]
    parts = (*_top(scale, chart.axis), *body, _bottom(scale, chart.axis))
    box = {"class_": "rows chart", "role": "group", "aria_label": chart.name, "tabindex": "0"}
    return tag("div", *parts, **box)


def meter(value: float, ends: tuple[float, float], scale: AxisScale, look: str) -> Markup:
    """Return a small interval with its value over a line at zero, for a cell of a table."""
    zero = place(scale.clipped(0.0))
    low, high = (place(scale.clipped(end)) for end in ends)
    marks = (
        line(zero, 0, zero, 14, "zero"),
        line(low, 7, high, 7, "span"),
        tag("circle", cx=place(scale.clipped(value)), cy=7, r=3.5, class_="dot"),
    )
    return tag("svg", *marks, width="100%", height=14, class_=f"meter {look}", aria_hidden="true")


#: The side of a small matrix, and of its cells at most; longer rankings have every third position numbered.
_SIDE, _CELL, _ALL_NUMBERED = 150.0, 22.0, 10
#: Shades that are told apart, and the opacity of the last: an own item is darker still.
_STEPS, _FULL = 20, 0.85


def _matrix_card(card: MatrixCard) -> Markup:
    length = max(len(card.shades), 1)
    cell = min(_SIDE / length, _CELL)
    shown = [*_cells(card.shades, cell), *_numbers(length, cell)]
    size = 20.0 + length * cell
    picture = tag(
        "svg", tag("title", f"{card.title}. {card.words}"), *shown, width=size, height=size,
        viewBox=f"0 0 {size:.6g} {size:.6g}", class_="matrix", role="img",
    )  # fmt: skip
    told = tag("p", tag("strong", card.title), " ", card.words)
    return tag("div", told, picture, class_="kind mark", data_tip=f"{card.title}\n{card.words}")


def _cells(shades: Sequence[Sequence[float] | None], cell: float) -> list[Markup]:
    """Return one path for all cells of a shade: many matrices of 16 x 16 elements would make a heavy page."""
    boxes: dict[float | str, list[str]] = {}
    side = f"{cell - 1.5:.4g}"
    for k, row in enumerate(shades):
        for m in range(len(shades)):
            box = f"M{20.75 + m * cell:.4g} {20.75 + k * cell:.4g}h{side}v{side}h-{side}z"
            if row is None:
                boxes.setdefault("none", []).append(box)
            elif k == m:
                boxes.setdefault("own", []).append(box)
            else:
                boxes.setdefault("off", []).append(box)
                shade = round(min(max(sum(row[m : m + 1]), 0.0), 1.0) * _STEPS) / _STEPS * _FULL
                boxes.setdefault(shade, []).append(box)
    found = []
    for key, paths in boxes.items():
        looks = {"class_": key} if isinstance(key, str) else {"class_": "on", "fill_opacity": key}
        if key:
            found.append(tag("path", d="".join(paths), **looks))
    return found


def _numbers(length: int, cell: float) -> list[Markup]:
    found = []
    for k in range(0, length, 1 if length <= _ALL_NUMBERED else 3):
        middle = 20 + (k + 0.5) * cell
        for x, y, anchor in ((middle, 15.0, "middle"), (14.0, middle + 4, "end")):
            found.append(tag("text", str(k + 1), x=x, y=y, text_anchor=anchor, class_="tick"))
    return found


def legend(chart: Plot) -> Markup:
    """Return which line is which; empty where nothing has a name."""
    entries = (_entry(one, name) for one, name in zip(chart.series, chart.names, strict=False))
    return tag("p", *entries, class_="legend") if len(chart.names) > 1 else Markup("")


def _plot(chart: Plot) -> Markup:
    frame, hidden = chart.frame, {"aria_hidden": "true"}
    # All bands and lines first: none may cover the marks of another series.
    marks = [make(one, frame) for make in (_shape, _marks) for one in chart.series]
    layers = (*_grid(frame), *marks, *_names(frame))
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
    box = {"class_": "plot chart", "role": "group", "aria_label": chart.name, "tabindex": "0"}
    return tag("div", title, inner, **box)


def _heading(row: Row, ground: Markup) -> Markup:
    title = tag("div", tag("strong", row.label), " ", _note(row), class_="title")
    return tag("div", tag("div", ground, class_="cell"), title, class_="row head")


def _note(row: Row) -> Markup:
    return tag("span", row.note, class_="note") if row.note else Markup("")


def _row(row: Row, scale: AxisScale, ground: Markup) -> Markup:
    look = f"{row.look} faded" if row.faded else row.look
    marks = _track(_mark(row, scale), height=ROW_HEIGHT, look=f" {look}")
    class_ = "row mark" + (" pale" if row.faded else "")
    label = tag("span", row.label) + _note(row)
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
