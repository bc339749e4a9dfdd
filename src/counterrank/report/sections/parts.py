"""What sections are made of: figures with a reading aid and a table twin, tables, targets' colours
and shapes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from counterrank.report.charts.svg import marker, tag
from counterrank.report.reading import Reading

LOOKS = 6


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, the line below it, and the content."""

    id: str
    title: str
    lead: str
    body: Markup


@dataclass(frozen=True, slots=True)
class Style:
    """How a target looks everywhere on the page: a colour and a shape, never the colour alone."""

    look: str
    shape: int


def style_of(reading: Reading, target: str) -> Style:
    """Return the look of a target."""
    index = reading.targets.index(target) if target in reading.targets else 0
    return Style(f"t{index % LOOKS}", index)


def key(reading: Reading, target: str) -> Markup:
    """Return the target's mark, as a legend in running text."""
    style = style_of(reading, target)
    shown = marker(style.shape, "9", 9, class_="dot")
    return tag("svg", shown, width=18, height=18, class_=f"key {style.look}", aria_hidden="true")


def table(head: Sequence[str], body: Iterable[Sequence[Any]], *, texts: int = 1) -> Markup:
    """Return a table; the first `texts` columns are left-aligned, the others are numbers."""
    top = tag(
        "tr", *(tag("th", name, scope="col", class_=_side(j, texts)) for j, name in enumerate(head))
    )
    rows = [
        tag("tr", *(tag("td", cell, class_=_side(j, texts)) for j, cell in enumerate(row)))
        for row in body
    ]
    return tag(
        "div",
        tag("table", tag("thead", top), tag("tbody", *rows)),
        class_="scroll",
        tabindex="0",
        role="group",
    )


def _side(index: int, texts: int) -> str:
    return "words" if index < texts else "number"


def twin(data: Markup) -> Markup:
    """Return the table behind a chart, folded."""
    return tag("details", tag("summary", "Show the numbers"), data, class_="twin")


def figure(
    title: "Markup | str",
    aid: str,
    drawn: Markup,
    data: "Markup | None" = None,
    *,
    target: str = "",
) -> Markup:
    """Return a chart with its title, its reading aid and its table twin; empty when nothing is
    drawn.
    """
    if not drawn:
        return Markup("")
    parts = [tag("figcaption", tag("h3", title), tag("p", aid, class_="aid")), drawn]
    if data is not None:
        parts.append(twin(data))
    return tag("figure", *parts, data_target=target or None)


def grid(*figures: Markup) -> Markup:
    """Return figures side by side where there is room."""
    shown = [one for one in figures if one]
    return (
        tag("div", *shown, class_="figures" if len(shown) > 1 else "figures one")
        if shown
        else Markup("")
    )


def named(reading: Reading, target: str, topic: str = "") -> Markup:
    """Return a target's mark and name, and what a chart shows of it."""
    name = tag("span", key(reading, target), " ", target, class_="named")
    return name + tag("span", " · ", topic, class_="topic") if topic else name
