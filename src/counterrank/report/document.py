"""A report as a list of blocks, from which the page, the terminal and the notebook are made.

Every result yields one `Document`. A block says where it is shown: everything stands on the page, a
terminal shows what is `BRIEF`, and with `--verbose` what is `VERBOSE` too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from counterrank.records import BRIEF as BRIEF
from counterrank.records import PAGE as PAGE
from counterrank.records import VERBOSE as VERBOSE
from counterrank.records import Json
from counterrank.report.charts import AxisScale, Mark, Row, RowChart

#: Signs beside the colour of a level or a status: colour is never alone.
SIGNS = {
    "reliable": "●", "directional": "◐", "insufficient": "○", "better": "▲", "worse": "▼", "unclear": "◆",
    "safe": "✓", "broken": "✗", "open": "?", "passed": "✓", "warned": "!", "failed": "✗", "skipped": "·",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chip:
    """A short label with a level or status, which has a colour and a sign."""

    text: str
    level: str = ""
    #: What the label is of: "Result", "Measurement".
    name: str = ""

    def __str__(self) -> str:
        sign = SIGNS.get(self.level, "")
        return f"{sign} {self.text}".strip()


@dataclass(frozen=True, slots=True)
class Meter:
    """A number with a small bar of its interval on a scale that its column shares."""

    row: Row
    scale: AxisScale

    def __str__(self) -> str:
        return f"{self.row.shown} ({self.row.note})"


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads to another page."""

    text: str
    href: str

    def __str__(self) -> str:
        return self.text


Cell = str | Chip | Meter | Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a document; `detail` says where it is shown."""

    detail: int = PAGE


@dataclass(frozen=True, slots=True)
class Heading(Block):
    """The title of a section, which reaches to the next heading."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph(Block):
    """A sentence or more. Styles: "lead", "aid" (smaller), "strong", "code"."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Note(Block):
    """A line of a list: a status with its sign, a name, the text, and further lines."""

    text: str
    status: str = ""
    name: str = ""
    more: Sequence[str] = ()
    #: Places in the log, one per line.
    examples: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One policy: its lift as a big number, labels, a sentence, the cause, and what would help."""

    mark: Mark
    number: str
    interval: str
    labels: Sequence[Chip]
    sentence: str
    cause: str = ""
    advice: Sequence[str] = ()
    #: What the number is, where it is no estimate to rely on.
    above: str = ""
    level: str = ""

    def __str__(self) -> str:
        size = f"{self.mark.name}: {' '.join(filter(None, (self.above, self.number)))}"
        size = f"{size} ({self.interval})." if self.interval else f"{size}."
        told = (f"{one.name}: {one.text}." if one.name else f"{one.text}." for one in self.labels)
        return " ".join(filter(None, (size, self.sentence, *told, self.cause)))


@dataclass(frozen=True, slots=True)
class Scorecard(Block):
    """A card for each policy."""

    cards: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Table(Block):
    """A table with a caption; the first `texts` columns are left-aligned, the others are numbers.

    Rows have a style: "bold", "dim" or "head" (a title across the table). A narrow terminal leaves
    out the columns of `minor`, in that order, rather than digits; of more rows than `most` it shows
    the first and the last.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    texts: int = 1
    styles: Sequence[str] = ()
    minor: Sequence[int] = ()
    most: int | None = None

    def style(self, index: int) -> str:
        """Return the style of a row."""
        return self.styles[index] if index < len(self.styles) else ""


@dataclass(frozen=True, slots=True)
class Figure(Block):
    """A chart with its title, one line on what to see, and its numbers as a table.

    `kind` is the name under which `result.plot(kind)` finds it.
    """

    kind: str
    title: str
    aid: str
    drawing: RowChart
    data: Table | None = None
    mark: Mark | None = None

    def numbers(self) -> Table:
        """Return what is drawn as a table."""
        if self.data is not None:
            return self.data
        chart = self.drawing
        styles = ["head" if row.heading else "dim" * row.faded for row in chart.shown]
        rows = [(row.label, row.note, row.shown, row.reach) for row in chart.shown]
        return Table(chart.name, ("", "", chart.title, "interval"), rows, 2, styles)


@dataclass(frozen=True, slots=True)
class Fold(Block):
    """Blocks that a click opens."""

    title: str
    blocks: Sequence[Block]
    id: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A title and blocks; `data` returns the JSON form that travels with the page."""

    title: str
    blocks: Sequence[Block]
    data: Callable[[], Json] | None = None

    def sentences(self) -> list[str]:
        """Return the title and what a terminal shows first, without its tables: one thing per line."""
        lines = [self.title]
        for one in self.blocks:
            if one.detail == BRIEF and isinstance(one, Scorecard):
                lines += map(str, one.cards)
            elif one.detail == BRIEF and isinstance(one, Note):
                lines.append(": ".join(filter(None, (one.status, one.name, one.text))))
            elif one.detail == BRIEF and isinstance(one, (Paragraph, Heading)):
                lines.append(one.text)
        return lines

    def figures(self, kind: str = "") -> list[Figure]:
        """Return the figures of a kind that have something to show; all kinds without one."""
        found = (one for one in walk(self.blocks) if isinstance(one, Figure) and one.drawing.filled)
        return [one for one in found if kind in ("", one.kind)]


def walk(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks and what is folded in them, in the order of reading."""
    for one in blocks:
        yield one
        if isinstance(one, Fold):
            yield from walk(one.blocks)


def section(title: str, id_: str, *blocks: Block | None, lead: str = "") -> list[Block]:
    """Return a heading with what stands below it; nothing where there is nothing to show."""
    shown = [one for one in blocks if one is not None and _filled(one)]
    if not shown:
        return []
    above = [Paragraph(lead, "lead")] if lead else []
    return [Heading(title, id_), *above, *shown]


def _filled(one: Block) -> bool:
    match one:
        case Figure():
            return one.drawing.filled
        case Table(rows=content) | Scorecard(cards=content) | Fold(blocks=content):
            return bool(content)
    return True
