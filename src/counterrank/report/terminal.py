"""Blocks in a terminal: those that are brief, or with `verbose` some more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.console import Group
from rich.containers import Lines
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from counterrank.common.texts import NARROW
from counterrank.report.document import (
    BRIEF,
    SIGNS,
    Block,
    Card,
    Chip,
    Document,
    Figure,
    Heading,
    Note,
    Paragraph,
    Scorecard,
    Table,
    walk,
)
from counterrank.report.words import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

#: How a level or a status looks, beside its sign.
STYLES = {
    "reliable": "bold green", "directional": "bold yellow", "insufficient": "bold red", "passed": "green",
    "warned": "yellow", "failed": "bold red", "skipped": "dim", "safe": "green", "open": "yellow",
    "broken": "bold red", "better": "bold", "worse": "bold", "unclear": "bold",
}  # fmt: skip
#: Lines of advice for all policies together; the page has the rest.
MOST_ADVICE = 3
_STYLE_OF = {"strong": "bold", "lead": "dim", "aid": "dim", "head": "bold underline"}


def renderables(document: Document, detail: int = BRIEF) -> Iterator[RenderableType]:
    """Yield what a terminal shows, from top to bottom."""
    if document.title:
        yield safe(document.title, "bold")
    for one in walk(document.blocks):
        if one.detail <= detail:
            yield from _shown(one)


def _shown(one: Block) -> Iterator[RenderableType]:
    match one:
        case Scorecard():
            left = MOST_ADVICE
            for card in one.cards:
                yield Padding(_card(card, left), (1, 0, 0, 0))
                left -= min(len(card.advice), left)
        case Table():
            yield Padding(_Fitted(one), (1, 0, 0, 0))
        case Figure():
            yield Padding(_Fitted(one.numbers()), (1, 0, 0, 0))
        case Note():
            sign = SIGNS.get(one.status, "→")
            name = f"{one.name}: " if one.name else ""
            yield UnbrokenText.assemble(
                (f"{sign} ", STYLES.get(one.status, "")), safe(name, "bold"), safe(one.text)
            )
            for line in one.more:
                yield Padding(safe(line), (0, 0, 0, 2))
        case Heading():
            yield safe(one.text, "bold")
        case Paragraph():
            yield safe(one.text, _STYLE_OF.get(one.style, ""))


def _card(card: Card, most: int) -> RenderableType:
    size = f"{card.number} ({card.interval})" if card.interval else card.number
    parts: list[Any] = [safe(card.mark.name, "bold"), "  ", safe(size)]
    for chip in card.labels:
        name = f"  {chip.name}: " if chip.name else "  "
        parts += [safe(name), safe(chip, STYLES.get(chip.level, ""))]
    lines = [safe(line) for line in (card.sentence, card.cause) if line]
    lines += [safe(f"→ {line}") for line in card.advice[:most]]
    return Group(UnbrokenText.assemble(*parts), *(Padding(line, (0, 0, 0, 2)) for line in lines))


@dataclass(frozen=True)
class _Fitted:
    """A table; a narrow terminal gets fewer columns, or cells below each other, rather than cut numbers."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room, hidden = options.update(max_width=1000), set[int]()
        for column in (*self.table.minor, None):
            shown = self.made(hidden)
            size = Measurement.get(console, room, shown)
            if size.maximum <= options.max_width:
                break
            hidden |= {column} if column is not None else set()
        yield shown if size.minimum <= options.max_width else self.stacked()

    def made(self, hidden: set[int]) -> RichTable:
        """Return the table without some of its columns."""
        one, rows = self.table, list(enumerate(self.table.rows))
        caption = one.caption
        if one.most is not None and len(rows) > one.most:
            caption += f" (top and bottom of {len(rows)})"
            rows = [*rows[: one.most // 2], *rows[-(one.most // 2) :]]
        shown = RichTable(
            title=safe(caption), title_justify="left", title_style="bold", header_style="bold",
            box=box.SIMPLE_HEAD, pad_edge=False,
        )  # fmt: skip
        kept = [j for j in range(len(one.head)) if j not in hidden]
        for j in kept:
            side: Literal["left", "right"] = "left" if j < one.texts else "right"
            shown.add_column(safe(one.head[j]), justify=side, overflow="fold")
        for i, row in rows:
            style = _STYLE_OF.get(one.style(i), one.style(i))
            # A text may go on in the next line, between words; a number may not.
            cells = ((row[j], str(row[j]) if j < one.texts else str(row[j]).replace(" ", _KEPT))
                     for j in kept if j < len(row))  # fmt: skip
            shown.add_row(*(safe(text, _cell_style(cell) or style) for cell, text in cells))
        return shown

    def stacked(self) -> RichTable:
        """Return the cells of a row below each other, each beside its head."""
        one = self.table
        shown = RichTable(title=safe(one.caption), title_justify="left", title_style="bold", box=None,
                          show_header=False, pad_edge=False)  # fmt: skip
        shown.add_column(overflow="fold")
        shown.add_column(overflow="fold")
        for first, *cells in one.rows:
            shown.add_row(safe(first, "bold"))
            for head, cell in zip(one.head[1:], cells, strict=False):
                shown.add_row(safe(f"  {head}"), safe(cell, _cell_style(cell)))
        return shown


def _cell_style(cell: Any) -> str:
    return STYLES.get(cell.level, "") if isinstance(cell, Chip) else ""


#: The no-break space, and a sign for it that is no space: of the private range, one column wide. Another
#: stands for a space in a number.
_NO_BREAK, _HOLDER, _KEPT = "\N{NO-BREAK SPACE}", "\ue000", "\ue001"


class UnbrokenText(Text):
    """Text whose lines do not break at a no-break space, which Rich takes for any other."""

    def _held(self) -> Text:
        held = self.copy()
        held.plain = self.plain.replace(_NO_BREAK, _HOLDER)
        return held

    def wrap(self, *given: Any, **more: Any) -> Lines:
        """Return the lines that fit the width."""
        lines = self._held().wrap(*given, **more)
        for line in lines:
            line.plain = line.plain.replace(_HOLDER, _NO_BREAK).replace(_KEPT, " ")
        return lines

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return self._held().__rich_measure__(console, options)


def safe(value: Any, style: str = "") -> Text:
    """Return text without markup and without control characters, whatever a column was called."""
    text = visible(str(value)).replace(NARROW, _NO_BREAK).replace("\n", " ").replace("\t", " ")
    return UnbrokenText(text, style)
