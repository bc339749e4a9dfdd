"""Blocks in a terminal: those that are brief, or with `verbose` some more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.cells import cell_len, set_cell_size
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
    Chip,
    Document,
    Heading,
    Note,
    Paragraph,
    Row,
    Table,
    walk,
)
from counterrank.report.forest import STATES, Column, Forest, Line, second_words, strip
from counterrank.report.words import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

#: How a level or a status looks, beside its sign.
STYLES = {
    "reliable": "bold green",
    "directional": "bold yellow",
    "insufficient": "bold red",
    "passed": "green",
    "warned": "yellow",
    "failed": "bold red",
    "skipped": "dim",
    "safe": "green",
    "open": "yellow",
    "broken": "bold red",
    "better": "blue",
    "worse": "red",
    "unclear": "",
    "plain": "",
    "today": "",
    "ship": "bold blue",
    "test": "bold",
    "wait": "bold",
    "serve": "bold blue",
    "option": "dim",
    "contained": "green",
    "missed": "bold red",
    "hold": "bold red",
    "unknown": "dim",
    "same": "dim",
}
#: Lines of advice for all policies together; the page has the rest.
MOST_ADVICE = 3
#: Characters of a name, of an interval at most and at least; segments at most.
MOST_NAME, MOST_STRIP, LEAST_STRIP, MOST_SEGMENTS = 28, 41, 9, 14
_STYLE_OF = {"strong": "bold", "lead": "dim", "aid": "dim", "head": "bold underline"}


def renderables(document: Document, detail: int = BRIEF) -> Iterator[RenderableType]:
    """Yield what a terminal shows, from top to bottom."""
    if document.above:
        yield safe(document.above)
    if document.title:
        yield safe(document.title, "bold")
    for block in walk(document.blocks):
        if block.detail <= detail:
            yield from _shown(block)


def _shown(block: Block) -> Iterator[RenderableType]:
    match block:
        case Forest():
            yield Padding(_Picture(block), (1, 0, 0, 0))
        case Table():
            yield Padding(_Fitted(block), (1, 0, 0, 0))
        case Note():
            sign = SIGNS.get(block.status, "→")
            name = f"{block.name}: " if block.name else ""
            yield UnbrokenText.assemble(
                (f"{sign} ", STYLES.get(block.status, "")), safe(name, "bold"), safe(block.text)
            )
            for line in block.details:
                yield Padding(safe(line), (0, 0, 0, 2))
        case Heading():
            yield safe(block.text, "bold")
        case Paragraph():
            yield safe(block.text, _STYLE_OF.get(block.style, ""))


@dataclass(frozen=True)
class _Picture:
    """Lines over columns, each interval drawn with signs; what does not fit stands below its line."""

    forest: Forest

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        forest, width = self.forest, options.max_width
        yield safe(forest.caption, "bold")
        if not forest.columns:
            yield from (UnbrokenText.assemble(*_name(line)) for line in forest.lines)
            return
        lines = [line for line in forest.lines if any(line.cells)]
        if lines and lines[0].state:
            yield from self.policies(width)
        elif lines:
            yield from self.segments(lines, width)

    def policies(self, width: int) -> Iterator[RenderableType]:
        """Yield each policy with a row for each metric, and its cause with what would help."""
        columns, advice = self.forest.columns, MOST_ADVICE
        cells = [cell for line in self.forest.lines for cell in line.cells if cell]
        first = min(max(cell_len(visible(column.name)) for column in columns), MOST_NAME)
        number = max((len(cell.shown) for cell in cells), default=1)
        reach = max((len(cell.reach) for cell in cells), default=0)
        status = max((len(cell.status) + 4 for cell in cells if cell.status), default=0)
        size = min(width - first - number - reach - status - 8, MOST_STRIP)
        for line in self.forest.lines:
            yield UnbrokenText.assemble("\n", *_name(line))
            for column, cell in zip(columns, line.cells, strict=False):
                if cell is not None:
                    yield from _cell(cell, column, first, number, reach, size)
            reasons = [line.cause, *(f"→ {text}" for text in line.advice[:advice])]
            advice -= min(len(line.advice), advice)
            yield from (Padding(safe(text), (0, 0, 0, 2)) for text in reasons if text)

    def segments(self, lines: Sequence[Line], width: int) -> Iterator[RenderableType]:
        """Yield segments with a number and a picture for each policy; of many the first and the last."""
        columns, half = self.forest.columns, MOST_SEGMENTS // 2
        totals = [line for line in lines if not line.group]
        inner = [line for line in lines if line.group]
        members = inner if len(inner) <= MOST_SEGMENTS else [*inner[:half], *inner[-half:]]
        shown = [*totals, *members]
        counted = f"{len(members)} of {len(inner)}" if len(members) < len(inner) else ""
        labels = [visible(f"{line.group} {line.label}".strip()) for line in shown]
        first = min(max(map(cell_len, labels)), MOST_NAME)
        notes = max(len(line.note) for line in shown)
        number = max(len(cell.shown) for line in shown for cell in line.cells if cell)
        column_width = (width - first - notes - 2) // len(columns)
        size = min(column_width - number - 4, MOST_STRIP)
        drawn = size >= LEAST_STRIP
        names = max(cell_len(visible(column.name)) for column in columns)
        room = max(number + (size + 2 if drawn else 0), min(names, column_width - 2))
        heads = (f"  {set_cell_size(visible(column.name), room)}" for column in columns)
        yield safe("".join([set_cell_size(counted, first + notes + 2), *heads]), "bold")
        for label, line in zip(labels, shown, strict=True):
            parts: list[Any] = [
                safe(set_cell_size(label, first)),
                safe(f"  {line.note:>{notes}}", "dim"),
            ]
            for column, cell in zip(columns, line.cells, strict=True):
                style = ("bold " * cell.apart + STYLES[cell.mark.look]).strip() if cell else ""
                text = f"  {cell.shown if cell else '–':>{number}}"
                if drawn:
                    text += f"  {strip(cell, column, size) if cell else ' ' * size}"
                parts.append(safe(f"{text:<{room + 2}}", style))
            yield UnbrokenText.assemble(*parts)


def _cell(
    cell: Row, column: Column, first: int, number: int, reach: int, size: int
) -> Iterator[RenderableType]:
    """Yield the name, number, picture and interval of a cell, below them its second reading."""
    style = STYLES[cell.mark.look]
    name = set_cell_size(visible(column.name), first)
    drawn = f"{strip(cell, column, size)}  " if size >= LEAST_STRIP else ""
    yield UnbrokenText.assemble(
        safe(f"  {name}  "),
        safe(f"{cell.shown:>{number}}  ", style),
        safe(drawn, style),
        safe(f"{cell.reach:<{reach}}  ", "dim"),
        safe(Chip(cell.status, cell.status), STYLES.get(cell.status, "")),
    )
    if cell.second is not None:
        drawn = f"{strip(cell.second, column, size)}  " if drawn else ""
        yield safe(f"  {'':{first}}  {'':{number}}  {drawn}{second_words(cell.second)}", "dim")


def _name(line: Line) -> list[Any]:
    """Return badge, name and measurement of a policy."""
    state = STATES[line.state]
    parts: list[Any] = [
        safe(f"{state.sign} {state.badge}", STYLES[line.state]),
        "  ",
        safe(line.label, "bold"),
    ]
    return [*parts, "  ", safe(line.note, "dim")] if line.note else parts


@dataclass(frozen=True)
class _Fitted:
    """A table; a narrow terminal gets fewer columns, or cells below each other, rather than cut numbers."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room, hidden = options.update(max_width=1000), set[int]()
        for column in (*self.table.minor, None):
            shown = self.rich_table(hidden)
            size = Measurement.get(console, room, shown)
            if size.maximum <= options.max_width:
                break
            hidden |= {column} if column is not None else set()
        yield shown if size.minimum <= options.max_width else self.stacked()

    def rich_table(self, hidden: set[int]) -> RichTable:
        """Return the table without some of its columns."""
        table, rows = self.table, list(enumerate(self.table.rows))
        caption = table.caption
        if table.max_rows is not None and len(rows) > table.max_rows:
            caption += f" (top and bottom of {len(rows)})"
            rows = [*rows[: table.max_rows // 2], *rows[-(table.max_rows // 2) :]]
        shown = RichTable(
            title=safe(caption),
            title_justify="left",
            title_style="bold",
            header_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        columns = [j for j in range(len(table.head)) if j not in hidden]
        for j in columns:
            side: Literal["left", "right"] = "left" if j < table.texts else "right"
            shown.add_column(safe(table.head[j]), justify=side, overflow="fold")
        for i, row in rows:
            style = _STYLE_OF.get(table.style(i), table.style(i))
            # A text may go on in the next line, between words; a number may not.
            cells = (
                (row[j], str(row[j]) if j < table.texts else str(row[j]).replace(" ", _KEPT))
                for j in columns
                if j < len(row)
            )
            shown.add_row(
                *(
                    safe(text, STYLES.get(getattr(cell, "level", ""), "") or style)
                    for cell, text in cells
                )
            )
        return shown

    def stacked(self) -> RichTable:
        """Return the cells of a row below each other, each beside its head."""
        table = self.table
        shown = RichTable(
            title=safe(table.caption),
            title_justify="left",
            title_style="bold",
            box=None,
            show_header=False,
            pad_edge=False,
        )
        shown.add_column(overflow="fold")
        shown.add_column(overflow="fold")
        for first, *cells in table.rows:
            shown.add_row(safe(first, "bold"))
            for head, cell in zip(table.head[1:], cells, strict=False):
                shown.add_row(
                    safe(f"  {head}"), safe(cell, STYLES.get(getattr(cell, "level", ""), ""))
                )
        return shown


#: The no-break space, and a sign for it that is no space: of the private range, one column wide. Another
#: stands for a space in a number.
_NO_BREAK, _HOLDER, _KEPT = "\N{NO-BREAK SPACE}", "\ue000", "\ue001"


class UnbrokenText(Text):
    """Text whose lines do not break at a no-break space, which Rich takes for any other."""

    def _held(self) -> Text:
        held = self.copy()
        held.plain = self.plain.replace(_NO_BREAK, _HOLDER)
        return held

    def wrap(self, *arguments: Any, **options: Any) -> Lines:
        """Return the lines that fit the width."""
        lines = self._held().wrap(*arguments, **options)
        for line in lines:
            line.plain = line.plain.replace(_HOLDER, _NO_BREAK).replace(_KEPT, " ")
        return lines

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return self._held().__rich_measure__(console, options)


def safe(value: Any, style: str = "") -> Text:
    """Return text without markup and without control characters, whatever a column was called."""
    text = visible(str(value)).replace(NARROW, _NO_BREAK).replace("\n", " ").replace("\t", " ")
    return UnbrokenText(text, style)
