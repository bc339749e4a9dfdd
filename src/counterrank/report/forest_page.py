"""The picture of lines over columns as a table of HTML with small SVGs, which stacks on a narrow screen."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from counterrank.report.document import Row
from counterrank.report.forest import OUTCOMES, STATES, Column, Forest, Line, second_words
from counterrank.report.svg import (
    ground,
    line,
    marker,
    picture,
    place,
    region,
    tag,
    track,
)
from counterrank.report.words import spaced, without_options

#: Glyphs of 12 by 12 pixels, for badges and statuses.
_GLYPHS = {
    "option": ('<circle cx="6" cy="6" r="4.7" class="thin"/>',),
    "ship": ('<path d="M6 1 11.5 10.5H.5z"/>',),
    "hold": ('<path d="M1 1h10v10H1z"/>',),
    "test": (
        '<circle cx="6" cy="6" r="4.7" class="thin"/>',
        '<path d="M6 1.3a4.7 4.7 0 0 1 0 9.4z"/>',
    ),
    "unknown": (
        '<path class="thin" d="M3.4 4.1a2.6 2.4 0 1 1 3.7 2.2Q6 6.9 6 8.2"/>',
        '<circle cx="6" cy="10.8" r="1.1"/>',
    ),
    "same": ('<path class="thin" d="M1.5 4.2h9M1.5 8h9"/>',),
    "passed": ('<path class="thin" d="M1.5 6.5 4.7 9.7 10.7 2.6"/>',),
    "failed": ('<path class="thin" d="M2 2l8 8M10 2l-8 8"/>',),
}
#: The glyph of a state that shares one, of a guardrail's status and of a check.
STATUS_GLYPHS = {
    "wait": "test",
    "serve": "ship",
    "contained": "passed",
    "missed": "failed",
    "safe": "passed",
    "open": "test",
    "broken": "failed",
    "question": "unknown",
    "warned": "unknown",
    "accepted": "passed",
    "passed": "passed",
    "failed": "failed",
}
#: Policies open, those below are one click away; the first two have large numbers.
MOST_LINES, LARGE_LINES = 8, 2
#: A table whose rows and cells are displayed otherwise loses its roles, which are therefore written out.
_ROLES = {"table": "table", "thead": "rowgroup", "tbody": "rowgroup", "tr": "row", "td": "cell"}
_HEADS = {"col": "columnheader", "row": "rowheader", "rowgroup": "rowheader"}


def glyph(name: str) -> Markup:
    """Return a small sign."""
    shapes = Markup("".join(_GLYPHS[STATUS_GLYPHS.get(name, name)]))
    return tag(
        "svg", shapes, class_="glyph", width=12, height=12, viewBox="0 0 12 12", aria_hidden="true"
    )


def badge(state: str) -> Markup:
    """Return what to do, in a shape and a colour of its own."""
    return tag("span", glyph(state), STATES[state].badge, class_=f"badge {state}")


def _element(name: str, *children: Any, **attributes: Any) -> Markup:
    role = _ROLES.get(name) or _HEADS[attributes["scope"]]
    return tag(name, *children, role=role, **attributes)


def shown(forest: Forest) -> Markup:
    """Return the picture; policies beyond the first eight are folded."""
    if not forest.lines[0].state:
        return _segments(forest)
    lines, folded = forest.lines[:MOST_LINES], forest.lines[MOST_LINES:]
    table = _policies(forest, lines, LARGE_LINES) + _legend(forest)
    if not folded:
        return table
    tally = ", ".join(
        f"{sum(1 for _ in members)} {STATES[state].badge.lower()}"
        for state, members in groupby(folded, lambda entry: entry.state)
    )
    summary = tag("summary", f"{len(folded)} more {forest.plural}: {tally}")
    return table + tag("details", summary, _policies(forest, folded, 0), class_="rest")


def _policies(forest: Forest, lines: Sequence[Line], large: int) -> Markup:
    columns, heads, axes, widths = forest.columns, list[Markup](), list[Markup](), list[Markup]()
    strips = len(columns) > 2
    for index, column in enumerate(columns):
        wide = not (strips and index)
        heads.append(_element("th", _head(column), scope="col", colspan=2 if wide else None))
        axes += [_element("td")] * wide
        axes.append(_element("td", ticks(column), class_="axis"))
        looks = ("num", "less" if index else "wide") if wide else ("strip",)
        widths += [tag("col", class_=look) for look in looks]
    rows = [
        row
        for index, entry in enumerate(lines)
        for row in _policy(entry, columns, len(widths) or 1, large=index < large)
    ]
    head = ""
    if columns:
        first = _element("th", tag("span", "policy", class_="unseen"), scope="col")
        below = _element("td", forest.head, class_="sub")
        second = _element("tr", below, *axes, class_="axes")
        head = _element("thead", _element("tr", first, *heads), second)
    look = "many" if strips else ("none", "few", "few two")[len(columns)]
    look += " both" * any(cell and cell.second for entry in lines for cell in entry.cells)
    return _chart(
        forest,
        f"forest chart {look}",
        tag("caption", forest.caption),
        tag("colgroup", tag("col", class_="name"), *widths),
        head,
        _element("tbody", *rows),
    )


def _chart(forest: Forest, look: str, *parts: Any) -> Markup:
    return _element("table", *parts, class_=look, tabindex="0", aria_label=forest.caption)


def _head(column: Column) -> Markup:
    chip = tag("span", "primary", class_="role") if column.primary else ""
    facts = [tag("span", fact, class_="sub") + " " for fact in column.facts if fact]
    return tag("span", column.name, class_="metric") + " " + chip + Markup("").join(facts)


def _policy(entry: Line, columns: Sequence[Column], width: int, *, large: bool) -> list[Markup]:
    """Return the row of a policy, and one for what keeps it open."""
    who = tag("b", entry.label, title=entry.label) + tag("span", entry.note, class_="label")
    name = _element("th", badge(entry.state), tag("span", who, class_="who"), scope="row")
    told = _reason(entry)
    below = _element("td", told, colspan=width)
    if not any(entry.cells):
        return [_element("tr", name, below, class_="none", data_target=entry.label)]
    cells: list[Markup] = []
    for index, (column, cell) in enumerate(zip(columns, entry.cells, strict=True)):
        if len(columns) > 2 and index:
            cells.append(_strip(column, cell))
        else:
            cells += _wide(column, cell, large=large and not index)
    rows = [_element("tr", name, *cells, data_target=entry.label)]
    return [*rows, _element("tr", _element("td"), below, class_="why")] if told else rows


def _reason(entry: Line) -> Markup:
    advice = [
        tag("span", tag("b", "Next"), " ", text, class_="then")
        for text in map(without_options, entry.advice)
        if text
    ]
    return tag("p", entry.cause, *advice) if entry.cause or advice else Markup("")


def _number(cell: Row | None, look: str) -> Markup:
    if cell is None:
        return tag("span", "not estimable", class_="sub")
    return tag("span", cell.shown, class_=f"{look} {cell.mark.look}".strip())


def _wide(column: Column, cell: Row | None, *, large: bool) -> list[Markup]:
    reach = tag("span", cell.reach, class_="sub") if cell and cell.reach else ""
    second_row = cell.second if cell else None
    second = tag("span", second_words(second_row), class_="sub") if second_row else ""
    number = _number(cell, "big" if large else "mid")
    return [
        _element("td", number, reach, second, _status(cell), class_="num", data_name=column.name),
        _element(
            "td",
            ground(column),
            _marks(column, cell, 44),
            ticks(column, "ticks own"),
            class_="plot",
            data_tip=cell.tip if cell else None,
        ),
    ]


def _strip(column: Column, cell: Row | None) -> Markup:
    value = tag("div", _status(cell), _number(cell, ""), class_="val")
    plot = tag("div", ground(column), _marks(column, cell, 26), class_="plot")
    return _element(
        "td",
        value,
        plot,
        class_="narrow",
        data_name=column.name,
        data_tip=cell.tip if cell else None,
    )


def _marks(column: Column, cell: Row | None, height: int) -> Markup:
    return track(cell, column.scale, height) if cell else Markup("")


def _status(cell: Row | None) -> Markup:
    status = cell.status if cell else ""
    if not status:
        return Markup("")
    return tag("span", glyph(status), status, class_=f"status {status}")


def ticks(column: Column, look: str = "ticks") -> Markup:
    """Return the labels of an axis; of many, every second from zero may go."""
    zero = next((index for index, value in enumerate(column.ticks) if value == 0), 0)
    names = [
        tag(
            "text",
            name,
            x=place(column.scale.position(value)),
            y=13,
            class_="alt" if (index - zero) % 2 else None,
        )
        for index, (value, name) in enumerate(zip(column.ticks, column.labels, strict=True))
    ]
    inner = picture(*names, height=18, class_="scale")
    return tag("div", inner, class_=f"{look} n{len(column.ticks)}", aria_hidden="true")


def _legend(forest: Forest) -> Markup:
    if not forest.columns:
        return Markup("")
    cells = [cell for entry in forest.lines for cell in entry.cells if cell]
    marks = {cell.mark.look: cell.mark.name for cell in cells}
    keys = [_key(_sample(look), marks[look]) for look in OUTCOMES if marks.get(look)]
    if any(column.band for column in forest.columns):
        keys.append(_key(region("0%", "100%", "band"), forest.band))
    if any(column.harm for column in forest.columns):
        keys.append(_key(region("0%", "100%", "harm"), forest.beyond))
    if any(cell.faded for cell in cells):
        keys.append(_key(_sample("unclear", "faded"), "dashed: thin evidence"))
    if forest.second:
        tick = line("17", 2, "17", 12, "second")
        keys.append(_key(line("2", 7, "32", 7, "second") + tick, forest.second))
    return tag("p", *keys, tag("span", forest.aid), class_="legend")


def _sample(look: str, modifier: str = "") -> Markup:
    mark = marker(OUTCOMES[look].shape, "17", 7)
    return tag("g", line("2", 7, "32", 7, "span"), mark, class_=f"{look} {modifier}".strip())


def _key(drawn: Markup, text: str) -> Markup:
    return tag("span", picture(drawn, width=34, height=14, class_="sample"), text)


def _segments(forest: Forest) -> Markup:
    """Return segments, a column for each policy; a line and a band for all rows."""
    groups = any(entry.group for entry in forest.lines)
    start = [_element("td")] * (2 if groups else 1)
    heads, axes, rows = list[Markup](), list[Markup](), list[Markup]()
    for column in forest.columns:
        sign, name = glyph(column.state) if column.state else "", tag("b", column.name)
        heads.append(_element("th", sign, name, scope="col", class_=column.state or None))
        axis = tag("div", tag("div", ticks(column)), tag("span"), class_="cell")
        axes.append(_element("td", axis, class_="axis"))
    for group, members in groupby(forest.lines, lambda entry: entry.group):
        lines = [*members]
        for entry in lines:
            first = entry is lines[0]
            size = len(lines) if first and group else 0
            rows.append(_segment(forest, entry, size, groups=groups, first=first))
    look = ("few single", "few")[len(forest.columns) - 1] if len(forest.columns) <= 2 else "many"
    widths = [tag("col", class_="group")] * groups + [tag("col", class_="seg")]
    head = _element("tr", *start, *heads), _element("tr", *start, *axes, class_="axes")
    table = _chart(
        forest,
        f"segments chart {look}",
        tag("caption", forest.caption, class_="unseen"),
        tag("colgroup", *widths, *(tag("col") for _ in axes)),
        _element("thead", *head),
        _element("tbody", *rows),
    )
    return table + tag("p", tag("span", forest.aid), class_="legend") if forest.aid else table


def _segment(forest: Forest, entry: Line, size: int, *, groups: bool, first: bool) -> Markup:
    is_total, cells = groups and not entry.group, list[Markup]()
    if size:
        group = {"class_": "group", "scope": "rowgroup", "rowspan": size}
        cells.append(_element("th", entry.group, **group))
    label = tag("b", entry.label) if is_total else entry.label
    note = tag("span", entry.note, class_="label") if entry.note else ""
    columns = 2 if is_total else None
    cells.append(_element("th", label, note, class_="seg", scope="row", colspan=columns))
    for column, cell in zip(forest.columns, entry.cells, strict=True):
        bold = " apart" if is_total or (cell and cell.apart) else ""
        look = f"n {cell.mark.look}{bold}" if cell else "n"
        plot = tag("div", ground(column), _marks(column, cell, 28), class_="plot")
        number = tag("span", cell.shown if cell else "–", class_=look)
        inner = tag("div", plot, number, class_="cell", data_label=column.name)
        cells.append(_element("td", inner, data_tip=cell.tip if cell else None))
    look = spaced("first" * first, "all" * is_total)
    return _element("tr", *cells, class_=look or None)
