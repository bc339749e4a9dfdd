"""The report in a terminal: answer, evidence, estimates, flags, segments."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.containers import Lines
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from counterrank.findings import FAILED, WARNED
from counterrank.report import metrics, sentences
from counterrank.report.numbers import NONE, count, known, percent, plain, span
from counterrank.report.reading import Interval, Reading, column_name, family
from counterrank.report.visibility import kinds as kinds_of
from counterrank.report.where import by_lift
from counterrank.texts import NARROW

if TYPE_CHECKING:
    from counterrank.estimators import Estimate
    from counterrank.evaluation import Evaluation

STYLES = {
    "reliable": "bold black on green",
    "directional": "bold black on yellow",
    "insufficient": "bold white on red",
}
MARKS = {
    "passed": ("✓", "green"), "warned": ("!", "yellow"), "failed": ("✗", "red"), "skipped": ("·", "dim"),
    "pass": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red"),
}  # fmt: skip
MOST_SEGMENTS, MOST_KINDS = 14, 6
#: A terminal at least this wide gets every column.
WIDE = 96


def titled(title: "str | Text") -> Table:
    """Return an empty table of the report's look."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )


def tabled(title: "str | Text", head: Iterable[str], lines: Iterable[Iterable[Any]]) -> Table:
    """Return a table of the report's look: what its columns are called, and its lines."""
    shown = titled(title)
    for name in head:
        shown.add_column(name)
    for cells in lines:
        shown.add_row(*map(safe, cells))
    return shown


def renderables(result: "Evaluation") -> Iterator[RenderableType]:
    """Yield what a terminal shows, from top to bottom."""
    reading = Reading(result)
    yield safe(sentences.logged(reading), "dim")
    if metrics.several(reading):
        yield from _metrics(reading)
    for target in reading.candidates:
        yield _answer(reading, target)
    for row in result.comparisons:
        yield safe(sentences.comparison(reading, row))
    if reading.estimates:
        yield Padding(_Estimates(reading), (1, 0, 0, 0))
    yield from _notes(reading)
    yield from _kinds(reading)
    if result.segments:
        yield Padding(_segments(reading), (1, 0, 0, 0))
    yield from _audit(reading)


#: How the decision looks.
_ACTIONS = {
    "ship": "bold black on green",
    "hold": "bold white on red",
    "test": "bold black on yellow",
}


def _metrics(reading: Reading) -> Iterator[RenderableType]:
    """Yield the decision with its reasons, and a row for each metric."""
    action = reading.result.decision.action
    head = safe(f" {metrics.headline(reading)} ", _ACTIONS.get(action, "reverse"))
    why = [Padding(safe(f"→ {line}"), (0, 0, 0, 2)) for line in metrics.reasons(reading)]
    yield Padding(Group(head, *why), (1, 0, 0, 0))
    over = "" if reading.over_logger else f" over {reading.result.baseline}"
    shown = titled(safe(f"Metrics: lift{over}"))
    for name in ("metric", "value", "lift", f"{sentences.level(reading)} interval", "evidence"):
        shown.add_column(name.replace(NARROW, " "), no_wrap=True)
    railed = bool(reading.result.guardrails)
    if railed:
        shown.add_column("guardrail")
    for target in reading.candidates:
        if len(reading.candidates) > 1:
            shown.add_row(safe(target, "bold underline"))
        for one in metrics.summary_rows(reading):
            if one.target == target:
                style = "bold" if one.primary else ""
                cells = (
                    one.metric,
                    f"{one.value} {one.unit}",
                    one.relative,
                    one.interval,
                    one.evidence,
                )
                last = [safe(one.guardrail, style)] if railed else []
                shown.add_row(*(safe(cell, style) for cell in cells), *last)
    yield Padding(shown, (1, 0, 0, 0))


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
            line.plain = line.plain.replace(_HOLDER, _NO_BREAK)
        return lines

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return self._held().__rich_measure__(console, options)


#: The no-break space, and a sign for it that is no space: of the private range, one column wide.
_NO_BREAK, _HOLDER = "\N{NO-BREAK SPACE}", "\ue000"


def safe(value: Any, style: str = "") -> Text:
    """Return text without markup and without control characters, whatever a column was called."""
    text, gone = str(value).replace(NARROW, _NO_BREAK), "\N{REPLACEMENT CHARACTER}"
    shown = (c if c.isprintable() or c == _NO_BREAK else gone for c in text)
    return UnbrokenText("".join(shown), style)


def chip(level: str) -> Text:
    """Return the evidence level as a labelled chip."""
    if level not in sentences.EVIDENCE:
        return Text(" no verdict ", style="reverse")
    return Text(
        f" {sentences.SIGNS[level]} {sentences.EVIDENCE[level][0].upper()} evidence ",
        style=STYLES[level],
    )


def _answer(reading: Reading, target: str) -> RenderableType:
    head = UnbrokenText.assemble(
        chip(reading.evidence(target)), "  ", safe(sentences.answer(reading, target), "bold")
    )
    help_lines = [
        Padding(safe(f"→ {line}"), (0, 0, 0, 2)) for line in sentences.settle(reading, target)[:4]
    ]
    return Padding(Group(head, *help_lines), (1, 0, 0, 0))


@dataclass(frozen=True)
class _Estimates:
    """The table of estimates; a narrow terminal gets fewer columns rather than cut ones."""

    reading: Reading

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # A number that lost its last digits is a wrong number: rather fewer columns.
        room = options.update(max_width=10 * WIDE)
        for columns in _COLUMNS if options.max_width >= WIDE else _COLUMNS[1:]:
            found = self.table(columns)
            if Measurement.get(console, room, found).maximum <= options.max_width:
                break
        yield found

    def table(self, columns: tuple[int, ...]) -> Table:
        """Return the table with some of its columns, and flags where there are more than two."""
        unit, numbers = _unit(self.reading), _flag_numbers(self.reading)
        interval = f"{sentences.level(self.reading)} interval".replace(NARROW, " ")
        shown = titled(f"Estimates{unit.words} (★ recommended)")
        shown.add_column("estimator", no_wrap=True)
        names = ("lift", "± se", interval, "rel.", "value", "eff. rows")
        for column in columns:
            shown.add_column(names[column], justify="right", no_wrap=True)
        flagged = bool(numbers) and len(columns) > 2
        if flagged:
            shown.add_column("flags", no_wrap=True)
        for target in self.reading.targets:
            shown.add_row(safe(target, "bold underline"))
            for found in self.reading.of(target):
                flags = " ".join(f"[{numbers[flag]}]" for flag in found.flags)
                last = [safe(flags, "yellow")] if flagged else []
                shown.add_row(*self.row(target, found, unit, columns), *last)
            for name in self.reading.silent(target):
                shown.add_row(safe(self.marked(target, name)), safe("not estimable", "red"))
            shown.add_section()
        return shown

    def row(
        self, target: str, found: "Estimate", unit: "_Unit", columns: tuple[int, ...]
    ) -> list[Text]:
        """Return the cells of an estimate: the recommended one bold, those of known bias dim."""
        name = found.estimator
        best = name == self.reading.recommended(target)
        style = "bold" if best else "dim" if family(name) == "biased" else ""
        # One column, one number of digits: those that the recommended estimate's errors support.
        first = self.reading.best(target)
        cells = _cells(found, unit, unit.size_of(first.lift), unit.size_of(first))
        shown = (self.marked(target, name), *(cells[column] for column in columns))
        return [safe(cell, style) for cell in shown]

    def marked(self, target: str, name: str) -> str:
        """Return an estimator's name, behind a star where it is the recommended one."""
        return f"{'★' if name == self.reading.recommended(target) else ' '} {name}"


#: Of lift, its error and interval, relative lift, value and effective rows: all, what most ask for,
#: what fits on a phone. The lift comes first: it is what a team decides on.
_COLUMNS = ((0, 1, 2, 3, 4, 5), (0, 2, 3, 4), (0, 2))


def _cells(
    found: "Estimate", unit: "_Unit", error: float | None, spread: float | None
) -> tuple[str, ...]:
    """Return the cells of an estimate with the digits that the recommended one's errors support."""
    lift, own, low, high = unit.of(found.lift)
    value, value_error, _, _ = unit.of(found)
    error, spread = error or own, spread or value_error
    return (
        plain(lift, error, sign=True),
        # A small error is not rounded to nothing.
        plain(own, min(own, error) if known(own) and known(error) else own),
        span(low, high, error, sign=True) or NONE,
        percent(found.lift.relative, sign=True),
        plain(value, spread),
        count(found.ess),
    )


@dataclass(frozen=True, slots=True)
class _Unit:
    """What the amounts of the tables are counted in."""

    size: float
    words: str

    def of(self, row: Interval) -> tuple[float, float, float, float]:
        """Return value, error and interval in this unit."""
        value, error, low, high = row.value, row.stderr, row.low, row.high
        return value / self.size, error / self.size, low / self.size, high / self.size

    def size_of(self, row: Interval) -> float | None:
        """Return an error in this unit, None where there is none."""
        return row.stderr / self.size if known(row.stderr) else None


_POWERS = {6: "millions", 9: "billions", 12: "trillions"}


def _unit(reading: Reading) -> _Unit:
    """Return the power of 1000 that amounts are counted in.

    The largest then has at most three digits before the point. Only amounts from millions on and
    below millionths get a unit.
    """
    # One unit for all rows: amounts in different units cannot be compared at a glance.
    every = (end for one in reading.estimates for end in (one.low, one.high, one.value))
    largest = max((abs(value) for value in every if known(value)), default=0.0)
    if largest == 0 or 1e-6 <= largest < 1e6:
        return _Unit(1.0, "")
    power = 3 * math.floor(math.log10(largest) / 3)
    return _Unit(10.0**power, f", in {_POWERS.get(power, f'units of 1e{power}')}")


def _flag_numbers(reading: Reading) -> dict[str, int]:
    every = (found for target in reading.targets for found in reading.of(target))
    distinct = dict.fromkeys(flag for found in every for flag in found.flags)
    return {flag: number for number, flag in enumerate(distinct, start=1)}


def _notes(reading: Reading) -> Iterator[RenderableType]:
    for flag, number in _flag_numbers(reading).items():
        yield Text.assemble((f"[{number}] ", "yellow"), safe(flag))
    reasons = {one.text: one.subject for one in reading.result.skipped}
    for reason, name in reasons.items():
        yield Text.assemble((f"{name} was left out: ", "dim"), safe(reason, "dim"))


def _kinds(reading: Reading) -> Iterator[RenderableType]:
    """One line: how many kinds of users the reward model found, and what the most common look at."""
    found = next((kinds for given in reading.regressions if (kinds := kinds_of(given))), None)
    if found is not None and len(found.found) > 1:
        told = [
            f"{percent(one.share, digits=0)} look at {one.looks_at}"
            for one in found.found[:MOST_KINDS]
        ]
        rest = ["..."] if len(found.found) > MOST_KINDS else []
        yield safe(f"Kinds of users found: {len(found.found)} ({'; '.join([*told, *rest])})", "dim")


def _segments(reading: Reading) -> Table:
    found = sorted(reading.result.segments, key=by_lift)
    shown, unit = found, _unit(reading)
    title = f"Lift by segment{unit.words}"
    # Both ends: who gains most and who loses most are what people look for.
    if len(found) > MOST_SEGMENTS:
        shown = [*found[: MOST_SEGMENTS // 2], *found[-MOST_SEGMENTS // 2 :]]
        title += f" (top and bottom of {len(found)})"
    result = titled(title)
    for name in ("target", "segment"):
        result.add_column(name)
    for name in ("rows", "lift", f"{sentences.level(reading)} interval".replace(NARROW, " ")):
        result.add_column(name, justify="right", no_wrap=True)
    for row in shown:
        lift, error, low, high = unit.of(row.lift)
        interval = span(low, high, error, sign=True) or NONE
        label = f"{column_name(row.column)} = {row.label}"
        cells = (row.target, label, count(row.n), plain(lift, error, sign=True), interval)
        weak = row.evidence == "insufficient"
        result.add_row(*(safe(cell, "dim" if weak else "") for cell in cells))
    return result


def _audit(reading: Reading) -> Iterator[RenderableType]:
    checks = reading.result.audit
    if not checks:
        return
    tally = Counter(check.status.value for check in checks)
    words = {"passed": "passed", "warned": "warned", "failed": "failed", "skipped": "did not apply"}
    told = ", ".join(f"{tally[status]} {word}" for status, word in words.items() if tally[status])
    yield Padding(Text(f"Audit of the log: {told}", style="bold"), (1, 0, 0, 0))
    for check in checks:
        if check.status in (WARNED, FAILED):
            sign, style = MARKS[check.status]
            yield Text.assemble((f"{sign} {check.code}: ", style), safe(check.text))
            if check.remedies:
                yield Padding(safe(f"→ {check.help}"), (0, 0, 0, 2))
