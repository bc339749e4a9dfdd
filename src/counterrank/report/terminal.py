"""The report in a terminal: answer, evidence, estimates, flags, segments."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from counterrank.report import sentences
from counterrank.report.behavior import kinds as kinds_of
from counterrank.report.numbers import NONE, count, known, percent, plain, span
from counterrank.report.reading import Model, Reading, column_name, family, rows, table, texts
from counterrank.texts import NARROW

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
LOOK: dict[str, Any] = {
    "title_justify": "left", "title_style": "bold", "header_style": "bold", "box": box.SIMPLE_HEAD, "pad_edge": False,
}  # fmt: skip


def renderables(model: Model) -> Iterator[RenderableType]:
    """Yield what a terminal shows, from top to bottom."""
    reading = Reading(model)
    yield safe(sentences.logged(reading), "dim")
    for target in reading.targets:
        yield _answer(reading, target)
    for row in rows(model.get("comparisons")):
        yield safe(sentences.comparison(reading, row))
    if reading.estimates:
        yield Padding(_Estimates(reading), (1, 0, 0, 0))
    yield from _notes(reading)
    yield from _kinds(reading)
    if rows(model.get("segments")):
        yield Padding(_segments(reading), (1, 0, 0, 0))
    yield from _audit(reading)


def safe(value: Any, style: str = "") -> Text:
    """Return text without markup and without control characters, whatever a column was called."""
    keep, gone = "\N{NO-BREAK SPACE}", "\N{REPLACEMENT CHARACTER}"
    shown = (c if c.isprintable() or c == keep else gone for c in str(value).replace(NARROW, keep))
    return Text("".join(shown), style)


def chip(level: str) -> Text:
    """Return the evidence level as a labelled chip."""
    if level not in sentences.EVIDENCE:
        return Text(" no verdict ", style="reverse")
    return Text(
        f" {sentences.SIGNS[level]} {sentences.EVIDENCE[level][0].upper()} evidence ",
        style=STYLES[level],
    )


def _answer(reading: Reading, target: str) -> RenderableType:
    head = Text.assemble(
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
        shown = Table(title=f"Estimates{unit.words} (★ recommended)", **LOOK)
        shown.add_column("estimator", no_wrap=True)
        names = ("value", "± se", interval, "lift", "rel.", "eff. rows")
        for column in columns:
            shown.add_column(names[column], justify="right", no_wrap=True)
        flagged = bool(numbers) and len(columns) > 2
        if flagged:
            shown.add_column("flags", no_wrap=True)
        for target in self.reading.targets:
            shown.add_row(safe(target, "bold underline"))
            for found in self.reading.of(target):
                flags = " ".join(f"[{numbers[flag]}]" for flag in texts(found.get("flags")))
                last = [safe(flags, "yellow")] if flagged else []
                shown.add_row(*self.row(target, found, unit, columns), *last)
            for name in self.reading.silent(target):
                shown.add_row(safe(self.marked(target, name)), safe("not estimable", "red"))
            shown.add_section()
        return shown

    def row(
        self, target: str, found: Mapping[str, Any], unit: "_Unit", columns: tuple[int, ...]
    ) -> list[Text]:
        """Return the cells of an estimate: the recommended one bold, those of known bias dim."""
        name = str(found.get("estimator"))
        best = name == self.reading.recommended(target)
        style = "bold" if best else "dim" if family(found) == "biased" else ""
        # One column, one number of digits: those that the recommended estimate's errors support.
        first = unit.of(self.reading.best(target)), unit.of(self.reading.lift(target))
        cells = _cells(unit.of(found), unit.of(self.reading.lift(target, name)), *first)
        shown = (self.marked(target, name), *(cells[column] for column in columns))
        return [safe(cell, style) for cell in shown]

    def marked(self, target: str, name: str) -> str:
        """Return an estimator's name, behind a star where it is the recommended one."""
        return f"{'★' if name == self.reading.recommended(target) else ' '} {name}"


#: Of value, error, interval, lift, relative lift and effective rows: all, what most ask for, what
#: fits on a phone.
_COLUMNS = ((0, 1, 2, 3, 4, 5), (0, 2, 3, 4), (0, 2))


def _cells(
    found: Mapping[str, Any],
    lift: Mapping[str, Any],
    best: Mapping[str, Any],
    most: Mapping[str, Any],
) -> tuple[str, ...]:
    own = found.get("stderr")
    error, spread = best.get("stderr") or own, most.get("stderr") or lift.get("stderr")
    return (
        plain(found.get("value"), error),
        # A small error is not rounded to nothing.
        plain(own, min(own, error) if known(own) and known(error) else own),
        span(found.get("low"), found.get("high"), error) or NONE,
        plain(lift.get("value"), spread, sign=True),
        percent(lift.get("relative"), sign=True),
        count(found.get("ess")),
    )


@dataclass(frozen=True, slots=True)
class _Unit:
    """What the amounts of the tables are counted in."""

    size: float
    words: str

    def of(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row with its amounts in this unit; what is no number stays as it is."""
        scaled = {k: row[k] / self.size for k in _AMOUNTS if known(row.get(k))}
        return {**row, **scaled}


_AMOUNTS = ("value", "stderr", "low", "high")
_POWERS = {6: "millions", 9: "billions", 12: "trillions"}


def _unit(reading: Reading) -> _Unit:
    """Return the power of 1000 in which the largest amount has at most three digits before the
    point, from millions and below millionths.
    """
    # One unit for all rows: amounts in different units cannot be compared at a glance.
    every = (one.get(key) for one in reading.estimates for key in ("low", "high", "value"))
    largest = max((abs(value) for value in every if known(value)), default=0.0)
    if largest == 0 or 1e-6 <= largest < 1e6:
        return _Unit(1.0, "")
    power = 3 * math.floor(math.log10(largest) / 3)
    return _Unit(10.0**power, f", in {_POWERS.get(power, f'units of 1e{power}')}")


def _flag_numbers(reading: Reading) -> dict[str, int]:
    every = (found for target in reading.targets for found in reading.of(target))
    distinct = dict.fromkeys(flag for found in every for flag in texts(found.get("flags")))
    return {flag: number for number, flag in enumerate(distinct, start=1)}


def _notes(reading: Reading) -> Iterator[RenderableType]:
    for flag, number in _flag_numbers(reading).items():
        yield Text.assemble((f"[{number}] ", "yellow"), safe(flag))
    reasons = {
        str(r.get("reason")): f"{r.get('estimator')}" for r in rows(reading.model.get("skipped"))
    }
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
    found = sorted(
        rows(reading.model.get("segments")),
        key=lambda s: -float(table(s.get("lift")).get("value") or 0.0),
    )
    shown, unit = found, _unit(reading)
    title = f"Lift by segment{unit.words}"
    # Both ends: who gains most and who loses most are what people look for.
    if len(found) > MOST_SEGMENTS:
        shown = [*found[: MOST_SEGMENTS // 2], *found[-MOST_SEGMENTS // 2 :]]
        title += f" (top and bottom of {len(found)})"
    result = Table(title=title, **LOOK)
    for name in ("target", "segment"):
        result.add_column(name)
    for name in ("rows", "lift", f"{sentences.level(reading)} interval".replace(NARROW, " ")):
        result.add_column(name, justify="right", no_wrap=True)
    for row in shown:
        lift = unit.of(table(row.get("lift")))
        error = lift.get("stderr")
        interval = span(lift.get("low"), lift.get("high"), error, sign=True) or NONE
        label = f"{column_name(row.get('column'))} = {row.get('label')}"
        value = plain(lift.get("value"), error, sign=True)
        cells = (row.get("target"), label, count(row.get("n")), value, interval)
        weak = row.get("evidence") == "insufficient"
        result.add_row(*(safe(cell, "dim" if weak else "") for cell in cells))
    return result


def _audit(reading: Reading) -> Iterator[RenderableType]:
    checks = rows(reading.model.get("audit"))
    if not checks:
        return
    tally = Counter(str(check.get("status")) for check in checks)
    words = {"passed": "passed", "warned": "warned", "failed": "failed", "skipped": "did not apply"}
    told = ", ".join(f"{tally[status]} {word}" for status, word in words.items() if tally[status])
    yield Padding(Text(f"Audit of the log: {told}", style="bold"), (1, 0, 0, 0))
    for check in checks:
        if check.get("status") in ("warned", "failed"):
            sign, style = MARKS[str(check["status"])]
            yield Text.assemble(
                (f"{sign} {check.get('check')}: ", style), safe(check.get("found") or "")
            )
            if check.get("remedy"):
                yield Padding(safe(f"→ {check['remedy']}"), (0, 0, 0, 2))
