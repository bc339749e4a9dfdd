"""Blocks as HTML: one page that needs nothing else, and what a notebook shows."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from string import Template
from typing import Any

from markupsafe import Markup

from counterrank._version import __version__
from counterrank.common.records import Json
from counterrank.common.texts import packaged
from counterrank.report.document import (
    BRIEF,
    SIGNS,
    Block,
    Cell,
    Chip,
    Document,
    Fold,
    Heading,
    Link,
    Masks,
    Note,
    Paragraph,
    Table,
    Timeline,
)
from counterrank.report.forest import Forest
from counterrank.report.forest_page import shown
from counterrank.report.svg import mask, mask_key, safe, tag, timeline

#: The hatching of regions beyond a limit, to which marks refer.
HATCH = Markup(
    '<svg width="0" height="0" class="defs" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6"/></pattern>'
    "</defs></svg>"
)
#: The section of the page's title, which is the answer.
TITLE = "answer"
UNTITLED = Heading("")


def page(document: Document, *, back: str | None = None) -> str:
    """Return the document as one page; `back` links to a list of reports."""
    script = asset("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = _sections(document.blocks, Heading(document.title, TITLE))
    links = [tag("a", "All results", class_="button", href=back)] if back else []
    data = Markup("")
    if document.data is not None:
        links.append(tag("button", "Save JSON", type="button", class_="button", id="json"))
        data = tag("script", _embedded(document.data()), type="application/json", id="model")
    return Template(asset("page.html")).substitute(
        # The digest pins the script to the byte; nothing else can run and nothing can be loaded.
        policy=f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        version=__version__,
        hatch=HATCH,
        title=safe(document.title),
        style=stylesheet(),
        script=script,
        links=Markup("").join(links),
        body=Markup("").join(
            [tag("p", document.above, class_="above") if document.above else Markup("")]
            + [body for _, body in parts]
        ),
        data=data,
    )


#: Where tables of one metric, two and more become blocks below each other, in pixels.
STACKED = {".few": 720, ".two": 920, ".many": 1080, ".forest.none": 720}


def stylesheet() -> str:
    """Return the rules of the page; those that stack a table are the same at each width."""
    rules = [
        asset("stack.css").replace("@TABLE@", table).replace("@WIDTH@", f"{pixels}px")
        for table, pixels in STACKED.items()
    ]
    return asset("style.css").replace("@STACK@", "".join(rules))


def asset(name: str) -> str:
    """Return a file shipped beside the page's frame."""
    return packaged("counterrank.report", f"templates/{name}")


def _embedded(data: Json) -> Markup:
    """The numbers travel with the page; `<` is escaped so that no text can end the element."""
    text = json.dumps(data, default=str)
    for char, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, code)
    return Markup(text)


def _sections(
    blocks: Sequence[Block], first: Heading = UNTITLED
) -> "list[tuple[Heading | Fold, Markup]]":
    """Return the sections: what follows a heading, the first of which may be the page's title, and large folds."""
    sections: list[tuple[Heading | Fold, list[Block]]] = [(first, [])]
    for block in blocks:
        if isinstance(block, Heading) or (isinstance(block, Fold) and block.id):
            sections.append((block, []))
        else:
            sections[-1][1].append(block)
    return [
        (head, _section(head, inner)) for head, inner in sections if inner or head is not UNTITLED
    ]


#: Characters of a title that fill two lines.
_LONG_TITLE = 80


def _section(head: Heading | Fold, inner: Sequence[Block]) -> Markup:
    if isinstance(head, Fold):
        below = Markup("").join(body for _, body in _sections(head.blocks))
        details = tag("details", tag("summary", tag("h2", head.title)), below, class_="more")
        return tag("section", details, *_body(inner), id=head.id)
    title = head.id == TITLE
    # A title of several sentences is set smaller.
    size = "long" if title and len(head.text) > _LONG_TITLE else None
    name = tag("h1" if title else "h2", *_apart(head.text), class_=size) if head.text else ""
    look = TITLE if title else None
    return tag("section", name, *_body(inner), id=head.id or None, class_=look)


def _apart(text: str) -> list[Any]:
    """Return a sentence whose names are set apart."""
    pieces = getattr(text, "pieces", (text,))
    return [piece if isinstance(piece, str) else tag("b", *piece) for piece in pieces]


def _body(blocks: Iterable[Block]) -> list[Markup]:
    """Return blocks as HTML; notes in a row are one list."""
    markup: list[Markup] = []
    for kind, run in groupby(blocks, type):
        members: list[Any] = list(run)
        if kind is Note:
            checked = any(block.status for block in members if isinstance(block, Note))
            markup.append(
                tag("ul", *map(_note, members), class_="checks" if checked else "plain-list")
            )
        else:
            markup += [_RENDER[kind](block) for block in members]
    return markup


def _paragraph(paragraph: Paragraph) -> Markup:
    if paragraph.style == "code":
        return tag("pre", paragraph.text, tabindex="0")
    text = tag("strong", paragraph.text) if paragraph.style == "strong" else paragraph.text
    return tag("p", text, class_=paragraph.style or None)


def _note(note: Note) -> Markup:
    lines = [tag("p", line) for line in note.details]
    if note.examples:
        lines.append(_folded("Examples", tag("pre", "\n".join(note.examples), tabindex="0")))
    name = tag("strong", note.name) + " " if note.name else ""
    if not note.status:
        return tag("li", name, note.text, *lines)
    told = tag("p", name, note.text)
    sign = tag("span", SIGNS.get(note.status, "·"), class_="sign", aria_hidden="true")
    unseen = tag("span", f"{note.status}: ", class_="unseen")
    return tag("li", sign, tag("div", unseen, told, *lines), class_=f"check {note.status}")


#: Columns that fit side by side on the screen of a phone.
_NARROW = 4


def _table(table: Table) -> Markup:
    sides = ["words" if j < table.texts else "number" for j in range(len(table.head))]
    wide = len(table.head) > _NARROW
    heads = (
        tag("th", h, scope="col", class_=s) if h else tag("td", class_=s)
        for h, s in zip(table.head, sides, strict=True)
    )
    rows = (_line(table, row, table.style(i), sides, wide=wide) for i, row in enumerate(table.rows))
    markup = tag(
        "table",
        tag("caption", table.caption) if table.caption else "",
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
        class_="wide" if wide else None,
    )
    # Focusable, because what scrolls sideways must be reachable without a mouse.
    long = "scroll long" if len(table.rows) > 30 else "scroll"
    return tag("div", markup, class_=long, tabindex="0", role="group")


def _line(table: Table, row: Sequence[Cell], style: str, sides: list[str], *, wide: bool) -> Markup:
    if style == "head":
        return tag("tr", tag("th", row[0], colspan=len(sides), scope="rowgroup"), class_="head")
    # On a narrow screen the cells of a wide table stand below each other, each with its head.
    named = zip(row, sides, table.head, strict=True)
    cells = (tag("td", _cell(c), class_=s, data_head=h if wide else None) for c, s, h in named)
    return tag("tr", *cells, class_=style or None)


def _cell(cell: Cell) -> Any:
    match cell:
        case Chip():
            sign = tag("span", SIGNS.get(cell.level, ""), aria_hidden="true")
            chip = tag("span", sign, " ", cell.text, class_=f"chip {cell.level}")
            return chip if cell.text else ""
        case Link():
            return tag("a", cell.text, href=cell.href)
    return cell


def _masks(masks: Masks) -> Markup:
    """Return groups of users side by side with their shares, and what the cells mean."""
    figures = []
    for group in masks.groups:
        bar = tag("span", tag("i", style=f"width:{group.share}%"), class_="bar")
        share = tag("span", bar, f"{group.share}\u202f% of {masks.unit}", class_="share")
        caption = tag("figcaption", tag("b", group.group), share)
        figures.append(tag("figure", caption, mask(group), tag("p", group.words), class_="reading"))
    words = {
        "all": "this other item matters for the reward at this position",
        "some": "for a part of the group",
        "self": "the item itself, always",
    }
    keys = [tag("span", mask_key(sign), text) for sign, text in words.items()]
    return tag("div", *figures, class_="readings") + tag("p", *keys, class_="legend")


def _folded(title: str, *content: Markup) -> Markup:
    return tag("details", tag("summary", title), *content, class_="twin")


_RENDER: dict[type, Callable[[Any], Markup]] = {
    Paragraph: _paragraph,
    Forest: lambda forest: tag("figure", shown(forest)),
    Masks: _masks,
    Timeline: lambda chart: tag(
        "figure",
        tag("figcaption", tag("h3", chart.caption), tag("p", chart.aid, class_="aid")),
        timeline(chart),
    ),
    Table: _table,
    Heading: lambda heading: tag("h3", heading.text),
    Fold: lambda fold: _folded(fold.title, *_body(fold.blocks)),
}


#: Bytes that a notebook stores of a result at most; the saved page has what fits beside the answer.
MOST_BYTES = 60_000
#: Parts of the style sheet, by the first words of their titles, that a notebook needs.
_SHARED = ("colour is", "marks", "the picture", "segments", "tables")

#: Attributes for hovering and for tables that are displayed as blocks, and the lines of the grid.
_UNUSED = re.compile(r' (?:data-(?:tip|name|label)|role)="[^"]*"|<line [^>]*class="grid"></line>')


def fragment(document: Document) -> str:
    """Return what a notebook shows: the answer in its own colours, and a button that saves the page.

    The page is saved_blocks compressed in a sandboxed frame, which may save files and knows nothing of the notebook;
    what does not fit in `MOST_BYTES` is left to `to_html`.
    """
    brief = [block for block in document.blocks if block.detail == BRIEF]
    answer = [block for block in brief if not (isinstance(block, Forest) and not block.in_words())]
    opened = [block for block in document.blocks if not isinstance(block, Fold)]
    for shown_blocks, saved_blocks in (
        (brief, document.blocks),
        (answer, document.blocks),
        (answer, opened),
    ):
        light = _light(replace(document, blocks=shown_blocks))
        saved = page(replace(document, blocks=saved_blocks, data=None)).encode(errors="replace")
        packed = base64.b64encode(zlib.compress(saved, 9)).decode()
        inner = Template(asset("saving.html")).substitute(packed=packed)
        allowed = {"sandbox": "allow-scripts allow-downloads", "style": "border:0"}
        size = {"width": 220, "height": 44}
        frame = tag("iframe", title="Save the report", srcdoc=inner, **allowed, **size)
        if len(light) + len(frame) <= MOST_BYTES:
            return light + str(frame)
    return light + str(
        tag("p", "The whole page: result.to_html(", tag("code", '"report.html"'), ")")
    )


def _light(document: Document) -> str:
    """Return a document with the styles of its marks, and without what needs the page's script."""
    parts = asset("style.css").replace("@STACK@", "").split("\n/* ")
    shared = "".join(text.partition("*/")[2] for text in parts if text.startswith(_SHARED))
    style = tag("style", Markup(f".counterrank {{{shared}}}{asset('notebook.css')}"))
    above = [tag("p", document.above, class_="facts")] if document.above else []
    title = tag("p", *_apart(document.title), class_="answer")
    body = tag("div", style, HATCH, *above, title, *_body(document.blocks), class_="counterrank")
    return _UNUSED.sub("", body)
