"""Blocks as Markdown, to paste into an issue or a merge request: what a terminal shows, without pictures."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from counterrank.report.document import (
    BRIEF,
    SIGNS,
    Block,
    Document,
    Heading,
    Note,
    Paragraph,
    Row,
    Table,
    walk,
)
from counterrank.report.forest import MARK_SIGNS, STATES, Forest, Line, second_words
from counterrank.report.words import spaced, visible

_SPECIAL = re.compile(r"([\\`*_\[\]#!|~@]|(?<=:)/)")


def markdown(document: Document) -> str:
    """Return the brief blocks of a document as Markdown."""
    brief = (block for block in walk(document.blocks) if block.detail == BRIEF)
    title = [f"## {plain_text(document.title)}"] if document.title else []
    title += [plain_text(document.above)] if document.above else []
    return "\n\n".join([*title, *(text for block in brief for text in _texts(block))]) + "\n"


def plain_text(value: Any) -> str:
    r"""Return text in which nothing is markup, in one line, whatever a column was called.

    >>> plain_text("a|b <img> *c*\n# d")
    'a\\|b &lt;img&gt; \\*c\\* \\# d'
    """
    text = " ".join(visible(str(value)).split("\n"))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text)


def _texts(block: Block) -> Iterator[str]:
    match block:
        case Forest():
            yield from _forest(block)
        case Table():
            yield _table(block.caption, block.head, block.rows, block.texts)
        case Note():
            sign = f"{SIGNS[block.status]} " if block.status in SIGNS else ""
            name = f"**{plain_text(block.name)}**: " if block.name else ""
            lines = [f"- {sign}{name}{plain_text(block.text)}"]
            yield "\n".join([*lines, *(f"  {plain_text(line)}" for line in block.details)])
        case Heading():
            yield f"### {plain_text(block.text)}"
        case Paragraph():
            yield plain_text(block.text)


def _forest(forest: Forest) -> Iterator[str]:
    """Yield a table of lines over columns, and below it what keeps each line open."""
    names = [column.name for column in forest.columns]
    rows = [[*_label(line), *map(_cell, line.cells)] for line in forest.lines]
    heads = ["", forest.plural] if any(line.state for line in forest.lines) else ["segment", "rows"]
    if rows:
        yield _table(forest.caption, [*heads, *names], rows, 2)
    causes = [
        f"- {plain_text(line.label)}: {plain_text(spaced(line.cause, *line.advice))}"
        for line in forest.lines
        if line.cause or line.advice
    ]
    if causes:
        yield "\n".join(causes)


def _label(line: Line) -> tuple[str, str]:
    if line.state:
        state = STATES[line.state]
        note = f" ({line.note})" if line.note else ""
        return f"{state.sign} {state.badge}", f"{line.label}{note}"
    return f"{line.group} {line.label}".strip(), line.note


def _cell(cell: Row | None) -> str:
    if cell is None:
        return "–"
    sign = MARK_SIGNS.get(cell.mark.look, "")
    reach = f"({cell.reach})" if cell.reach else ""
    second = f"· {second_words(cell.second)}" if cell.second else ""
    return spaced(sign, cell.shown, reach, second, cell.status)


def _table(caption: str, head: Sequence[Any], rows: Iterable[Sequence[Any]], texts: int) -> str:
    """Return a table; rows that are shorter than its head are filled, as Markdown wants it."""
    sides = [":--" if place < texts else "--:" for place in range(len(head))]
    lines = [
        "| " + " | ".join([*map(plain_text, row), *[""] * (len(head) - len(row))]) + " |"
        for row in (head, *rows)
    ]
    lines.insert(1, "| " + " | ".join(sides) + " |")
    return "\n".join([*([f"**{plain_text(caption)}**", ""] if caption else []), *lines])
