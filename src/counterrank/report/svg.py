"""Charts as SVG that stretches with the page: x in percent, y in pixels, so that text and marks keep their size."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from markupsafe import Markup, escape

from counterrank.report.document import AxisScale, Mask, Row, Timeline, tick_names
from counterrank.report.forest import Column
from counterrank.report.words import known, visible

ROW_HEIGHT, MIDDLE = 30, 15.0
_SHAPES = (
    "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",
    "M0-7.5 7.5 0 0 7.5-7.5 0z",
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "M-5.5-5.5h11v11h-11z",
)
_ARROWS = {"left": "M0 0 8-5V5z", "right": "M0 0-8-5V5z"}


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


def marker(shape: int, x: str, y: float) -> Markup:
    """Return one of four shapes at (x, y): circle, diamond, smaller circle, square."""
    return _symbol(x, y, _SHAPES[shape])


def _symbol(x: str, y: float, path: str, look: str = "dot") -> Markup:
    shown = tag("path", d=path, class_=look)
    return tag("svg", shown, x=x, y=y, overflow="visible", class_="at")


def line(x1: str, y1: Any, x2: str, y2: Any, class_: str) -> Markup:
    """Return a straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def picture(*parts: Markup, height: Any, class_: str, width: Any = "100%") -> Markup:
    """Return an SVG of its own, which says nothing to those who only hear the page."""
    size = {"width": width, "height": height}
    return tag("svg", *parts, **size, class_=class_, aria_hidden="true")


def track(row: Row, scale: AxisScale, height: int = ROW_HEIGHT) -> Markup:
    """Return the marks of a row: its interval, an arrow where that leaves the axis, and its value."""
    middle = height * (0.36 if row.second else 0.5)
    parts = [*_marks(row, scale, middle)]
    if row.second:
        parts += _marks(row.second, scale, 0.76 * height, second=True)
    look = f"track {row.mark.look}" + " faded" * row.faded
    return picture(*parts, height=height, class_=look)


def _marks(row: Row, scale: AxisScale, middle: float, *, second: bool = False) -> Iterator[Markup]:
    """Yield the marks of a row; those of a second reading of a number are a thin line with a tick."""
    for name, start, end in row.marks(scale):
        x = place(scale.position(start))
        if name in ("outer", "span"):
            look = "second" if second else name
            yield line(x, middle, place(scale.position(end)), middle, look)
        elif name in _ARROWS:
            yield _symbol(x, middle, _ARROWS[name], "second-arrow" if second else "arrow")
        elif scale.inside(row.value):
            tick = line(x, middle - 5, x, middle + 5, f"second {row.mark.look}")
            yield tick if second else marker(row.mark.shape, x, middle)


#: Pixels of a timeline: its height, the room above and below the axis.
_TALL, _EDGE = 240, 12


def timeline(chart: Timeline) -> Markup:
    """Return predictions over time as upright intervals, what a test measured beside each."""
    scale, unit = chart.scale, "%" if chart.unit == "%" else ""
    placed = [(row, place(x)) for row, x in zip(chart.rows, chart.places(), strict=True)]

    def height(value: float) -> float:
        share = scale.position(scale.clipped(value))
        return round(_EDGE + (1 - share) * (_TALL - 2 * _EDGE), 1)

    names, lines, values = list[Markup](), list[Markup](), scale.ticks()
    for value, name in zip(values, tick_names(values, signed=True), strict=True):
        text, y = f"{name}{unit}" if value else "0", height(value)
        names.append(tag("text", text, x="100%", y=y + 4, text_anchor="end"))
        lines.append(line("0", y, "100%", y, "grid" if value else "zero"))
    marks = [_moment(row, x, height) for row, x in placed]
    stride = max(math.ceil(len(placed) / 4), 1)
    days = [tag("text", row.label, x=x, y=14, text_anchor="middle") for row, x in placed[::-stride]]
    told = " ".join(f"{row.label}: {row.tip.replace(chr(10), ', ')}." for row in chart.rows)
    return tag(
        "div",
        picture(*names, height=_TALL, class_="track"),
        picture(*lines, *marks, height=_TALL, class_="track"),
        tag("span"),
        picture(*days, height=20, class_="track"),
        class_="timeline chart",
        role="img",
        aria_label=f"{chart.caption}. {told}",
        tabindex="0",
    )


def _moment(row: Row, x: str, height: Callable[[float], float]) -> Markup:
    """Return a prediction with its upright interval, and at its right what a test measured."""
    parts = []
    for drawn, shift in ((row, "0"), (row.second, "14")):
        if drawn is not None:
            ends = (drawn.low, drawn.high) if known(drawn.high - drawn.low) else (drawn.value,) * 2
            span = line(shift, height(ends[0]), shift, height(ends[1]), "span")
            mark = marker(drawn.mark.shape, shift, height(drawn.value))
            parts.append(tag("g", span, mark, class_=drawn.mark.look + " faded" * drawn.faded))
    return tag("svg", *parts, x=x, overflow="visible", data_tip=row.tip)


#: Pixels of a cell by the largest number of positions, and from where on not every position is numbered.
_CELLS, _NUMBERED = ((6, 24), (10, 18), (20, 8)), 10
#: The room of the numbers at the left and at the top.
_LEFT, _TOP = 22, 20


def mask(drawn: Mask) -> Markup:
    """Return the picture of a group: rows are rewards, columns items."""
    length = len(drawn.cells)
    size = next((size for longest, size in _CELLS if length <= longest), max(160 // length, 2))
    cells, step = list[Markup](), size + 1
    for row, shares in enumerate(drawn.cells):
        for column, share in enumerate(shares):
            sign = "self" if row == column else drawn.sign(share)
            cells += _cell(_LEFT + column * step, _TOP + row * step, size, sign)
    # Of many positions the first and every fifth, or tenth, is numbered.
    stride = 1 if length <= _NUMBERED else 5 * math.ceil(length / 20)
    for number in sorted({1, *range(stride, length + 1, stride)}):
        middle = (number - 1) * step + size / 2
        cells.append(tag("text", number, x=_LEFT + middle, y=14, text_anchor="middle"))
        cells.append(tag("text", number, x=16, y=_TOP + middle + 4.5, text_anchor="end"))
    width, height = _LEFT + length * step, _TOP + length * step
    shown = tag(
        "svg",
        *cells,
        viewBox=f"0 0 {width} {height}",
        width=width,
        role="img",
        aria_label=f"{length} by {length} cells. {drawn.words}",
    )
    across = tag("span", "item at position", class_="across")
    return tag(
        "div", tag("span", "reward at", class_="side"), tag("div", across, shown), class_="matrix"
    )


def _cell(x: int, y: int, size: int, sign: str) -> list[Markup]:
    ground = tag(
        "rect", x=x, y=y, width=size, height=size, class_="hit" if sign == "all" else "off"
    )
    if sign == "self":
        inner = {"x": x + 1, "y": y + 1, "width": size - 2, "height": size - 2}
        return [ground, tag("rect", **inner, class_="self")]
    half = tag("path", d=f"M{x} {y}v{size}h{size}z", class_="hit")
    return [ground, half] if sign == "some" else [ground]


def mask_key(sign: str) -> Markup:
    """Return a cell of 14 pixels for the legend."""
    return picture(*_cell(0, 0, 14, sign), width=14, height=14, class_="sample")


def ground(column: Column) -> Markup:
    """Return what lies behind a cell: regions, grid, zero, limits, and the line of all rows."""
    scale, parts, edges = column.scale, list[Markup](), list[Markup]()
    for ends, look in ((column.band, "band"), (column.harm, "harm")):
        if ends is not None:
            low, high = (place(scale.position(scale.clipped(end))) for end in ends)
            parts.append(region(low, high, look))
            edges += [_upright(scale, end, f"{look}-edge") for end in ends if scale.inside(end)]
    parts += [_upright(scale, value, "grid") for value in column.ticks if value != 0]
    parts += [*([_upright(scale, 0.0, "zero")] if scale.inside(0.0) else []), *edges]
    if column.total is not None:
        parts.append(_upright(scale, column.total, "whole"))
    return picture(*parts, height="100%", class_="ground")


def region(low: str, high: str, look: str) -> Markup:
    """Return a shaded part of an axis; that of harm is hatched, because shades are lost on paper."""
    width = f"{float(high[:-1]) - float(low[:-1]):.4g}%"
    shades = [tag("rect", x=low, y=0, width=width, height="100%", class_=look)]
    if look == "harm":
        shades.append(tag("rect", x=low, y=0, width=width, height="100%", fill="url(#hatch)"))
    return Markup("").join(shades)


def _upright(scale: AxisScale, value: float, class_: str) -> Markup:
    x = place(scale.position(scale.clipped(value)))
    return line(x, 0, x, "100%", class_)
