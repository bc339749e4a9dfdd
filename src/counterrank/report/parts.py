"""What pages are made of.

Escaped tags, figures with a reading aid and a table twin, bars, and how a target looks wherever it
is shown.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from counterrank.report.reading import Reading

#: Colours of the style sheet; further targets start again and differ by their shape.
LOOKS = 6
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
            shown = f"{value:.6g}" if isinstance(value, float) else escape(value)
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{shown}"')
    parts.append(">")
    parts.extend(escape(child) for child in children)
    parts.append(f"</{name}>")
    return Markup("".join(parts))


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


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, the line below it, and the content."""

    id: str
    title: str
    lead: str
    body: Markup


def section(id_: str, title: str, lead: str, body: Markup) -> Section | None:
    """Return a part of the page; one without content is left out."""
    return Section(id_, title, lead, body) if body else None


@dataclass(frozen=True, slots=True)
class Style:
    """How a target looks everywhere on the page: a colour and a shape, never the colour alone."""

    look: str
    shape: int


def style_of(reading: Reading, target: str) -> Style:
    """Return the look of a target."""
    # By its place among all targets, so that it looks the same in every chart it is in.
    index = reading.targets.index(target) if target in reading.targets else 0
    return Style(f"t{index % LOOKS}", index)


def key(reading: Reading, target: str) -> Markup:
    """Return the target's mark, as a legend in running text."""
    style = style_of(reading, target)
    shown = marker(style.shape, "9", 9, class_="dot")
    return tag("svg", shown, width=18, height=18, class_=f"key {style.look}", aria_hidden="true")


def named(reading: Reading, target: str, topic: str = "") -> Markup:
    """Return a target's mark and name, and what a chart shows of it."""
    name = tag("span", key(reading, target), " ", target, class_="named")
    return name + tag("span", " · ", topic, class_="topic") if topic else name


#: Columns that fit side by side on the screen of a phone.
_NARROW = 4


def table(head: Sequence[str], body: Iterable[Sequence[Any]], *, texts: int = 1) -> Markup:
    """Return a table; the first `texts` columns are left-aligned, the others are numbers."""
    sides = ["words" if j < texts else "number" for j in range(len(head))]
    wide = len(head) > _NARROW

    def cells(row: Sequence[Any]) -> Markup:
        # On a narrow screen the cells of a wide table stand below each other, each with its head.
        named = zip(row, sides, head, strict=True)
        return tag(
            "tr", *(tag("td", c, class_=s, data_head=h if wide else None) for c, s, h in named)
        )

    heads = (tag("th", h, scope="col", class_=s) for h, s in zip(head, sides, strict=True))
    top = tag("thead", tag("tr", *heads))
    shown = tag("table", top, tag("tbody", *map(cells, body)), class_="wide" if wide else None)
    # Focusable, because what scrolls sideways must be reachable without a mouse.
    return tag("div", shown, class_="scroll", tabindex="0", role="group")


def twin(data: Markup) -> Markup:
    """Return the table behind a chart, folded."""
    return folded("Show the numbers", data)


def folded(summary: "Markup | str", *content: Markup) -> Markup:
    """Return content that a click opens."""
    return tag("details", tag("summary", summary), *content, class_="twin")


def figure(
    title: "Markup | str", aid: str, drawn: Markup, data: "Markup | None" = None, target: str = ""
) -> Markup:
    """Return a chart with its title, its reading aid and its table twin; empty when nothing is drawn."""
    if not drawn:
        return Markup("")
    parts = [tag("figcaption", tag("h3", title), tag("p", aid, class_="aid")), drawn]
    if data is not None:
        parts.append(twin(data))
    return tag("figure", *parts, data_target=target or None)


def figure_of(
    reading: Reading, target: str, aid: str, drawn: Markup, data: Markup, topic: str = ""
) -> Markup:
    """Return a figure under a target's name."""
    return figure(named(reading, target, topic), aid, drawn, data, target)


def grid(*figures: Markup) -> Markup:
    """Return figures side by side where there is room; empty where there are none."""
    shown = [one for one in figures if one]
    class_ = "figures" if len(shown) > 1 else "figures one"
    return tag("div", *shown, class_=class_) if shown else Markup("")


def grid_of(reading: Reading, *makers: Callable[[Reading, str], Markup]) -> Markup:
    """Return a figure of each kind for each target."""
    return grid(*(make(reading, target) for make in makers for target in reading.targets))


def bars(lines: Iterable[tuple[str, float, str, str]], look: str) -> Markup:
    """Return bars of (name, share of the full width, number, what hovering says)."""
    drawn = [_bar(*line, look) for line in lines]
    if not drawn:
        return Markup("")
    return tag("div", *drawn, class_="rows bars chart", role="group", tabindex="0")


def _bar(name: str, share: float, shown: str, tip: str, look: str) -> Markup:
    bar = tag(
        "svg",
        tag("rect", x=0, y=9, width="100%", height=12, rx=3, class_="bar-all"),
        tag("rect", x=0, y=9, width=place(share), height=12, rx=3, class_="bar"),
        width="100%", height=30, class_=f"track {look}", aria_hidden="true",
    )  # fmt: skip
    return labelled(name, bar, shown, class_="row mark", data_tip=tip)


def labelled(label: Any, cell: Any, shown: Any, **attributes: Any) -> Markup:
    """Return a row of a chart: its label, what is drawn, its number."""
    cells = {"label": label, "cell": cell, "shown": shown}
    return tag("div", *(tag("div", one, class_=c) for c, one in cells.items()), **attributes)


def bullets(lines: Sequence[Any]) -> Markup:
    """Return a plain list, empty where there are no lines."""
    items = (tag("li", one) for one in lines)
    return tag("ul", *items, class_="plain-list") if lines else Markup("")
