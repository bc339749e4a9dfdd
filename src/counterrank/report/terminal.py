"""The report in a terminal: answer, evidence, estimates, flags, segments."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from counterrank.report import sentences
from counterrank.report.numbers import NARROW, count, percent, plain
from counterrank.report.reading import Model, Reading, rows

STYLES = {"reliable": "bold black on green", "directional": "bold black on yellow", "insufficient": "bold white on red"}
MARKS = {
    "passed": ("✓", "green"), "warned": ("!", "yellow"), "failed": ("✗", "red"), "skipped": ("·", "dim"),
    "pass": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red"),
}  # fmt: skip
MOST_SEGMENTS = 14


def renderables(model: Model) -> Iterator[RenderableType]:
    """Yield what a terminal shows, from top to bottom."""
    reading = Reading(model)
    yield _safe(sentences.logged(reading), "dim")
    for target in reading.targets:
        yield _answer(reading, target)
    for row in rows(model.get("comparisons")):
        yield _safe(sentences.comparison(reading, row))
    if reading.estimates:
        yield Padding(_estimates(reading), (1, 0, 0, 0))
    yield from _notes(reading)
    if rows(model.get("segments")):
        yield Padding(_segments(reading), (1, 0, 0, 0))
    yield from _audit(reading)


def _safe(value: Any, style: str = "") -> Text:
    """Return text without markup and without control characters, whatever a column was called."""
    plain_text = str(value).replace(NARROW, "\N{NO-BREAK SPACE}")
    keep = "\N{NO-BREAK SPACE}"
    return Text("".join(c if c.isprintable() or c in keep else "\N{REPLACEMENT CHARACTER}" for c in plain_text), style)


def chip(level: str) -> Text:
    """Return the evidence level as a labelled chip."""
    if level not in sentences.EVIDENCE:
        return Text(" no verdict ", style="reverse")
    return Text(f" {sentences.SIGNS[level]} {sentences.EVIDENCE[level][0].upper()} evidence ", style=STYLES[level])


def _answer(reading: Reading, target: str) -> RenderableType:
    head = Text.assemble(chip(reading.evidence(target)), "  ", _safe(sentences.answer(reading, target), "bold"))
    help_lines = [Padding(_safe(f"→ {line}"), (0, 0, 0, 2)) for line in sentences.settle(reading, target)[:4]]
    return Padding(Group(head, *help_lines), (1, 0, 0, 0))


def _estimates(reading: Reading) -> Table:
    table = Table(title="Estimates (★ recommended)", title_justify="left", title_style="bold", header_style="bold")
    for name in ("target", "estimator"):
        table.add_column(name, no_wrap=True)
    for name in (
        "value",
        "± se",
        f"{sentences.level(reading)} interval".replace(NARROW, " "),
        "lift",
        "relative",
        "eff. rows",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("flags", justify="left")
    numbers = _flag_numbers(reading)
    for target in reading.targets:
        for index, found in enumerate(reading.of(target)):
            table.add_row(*_cells(reading, target, found, first=index == 0, numbers=numbers))
        table.add_section()
    return table


def _cells(
    reading: Reading, target: str, found: Mapping[str, Any], *, first: bool, numbers: Mapping[str, int]
) -> list[Text]:
    error = found.get("stderr")
    lift = reading.lift(target, str(found.get("estimator")))
    style = "bold" if first else ""
    flags = " ".join(f"[{numbers[flag]}]" for flag in _flags(found))
    return [
        _safe(target if first else "", style),
        _safe(f"{'★' if first else ' '} {found.get('estimator')}", style),
        _safe(plain(found.get("value"), error), style),
        _safe(plain(error, error)),
        _safe(f"{plain(found.get('low'), error)} to {plain(found.get('high'), error)}", style),
        _safe(plain(lift.get("value"), lift.get("stderr"), sign=True), style),
        _safe(percent(lift.get("relative"), sign=True), style),
        _safe(count(found.get("ess"))),
        _safe(flags, "yellow"),
    ]


def _flags(found: Mapping[str, Any]) -> list[str]:
    flags = found.get("flags")
    return [str(flag) for flag in flags] if isinstance(flags, list) else []


def _flag_numbers(reading: Reading) -> dict[str, int]:
    distinct = dict.fromkeys(flag for t in reading.targets for found in reading.of(t) for flag in _flags(found))
    return {flag: number for number, flag in enumerate(distinct, start=1)}


def _notes(reading: Reading) -> Iterator[RenderableType]:
    for flag, number in _flag_numbers(reading).items():
        yield Text.assemble((f"[{number}] ", "yellow"), _safe(flag))
    reasons = {str(r.get("reason")): f"{r.get('estimator')}" for r in rows(reading.model.get("skipped"))}
    for reason, name in reasons.items():
        yield Text.assemble((f"{name} was left out: ", "dim"), _safe(reason, "dim"))


def _segments(reading: Reading) -> Table:
    found = sorted(rows(reading.model.get("segments")), key=lambda s: -float((s.get("lift") or {}).get("value") or 0))
    shown = found if len(found) <= MOST_SEGMENTS else [*found[: MOST_SEGMENTS // 2], *found[-MOST_SEGMENTS // 2 :]]
    title = "Lift by segment" + (f" (top and bottom of {len(found)})" if len(shown) < len(found) else "")
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for name, justify in (("target", "left"), ("segment", "left"), ("rows", "right"), ("lift", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column(f"{sentences.level(reading)} interval".replace(NARROW, " "), justify="right")
    for row in shown:
        lift = row.get("lift") or {}
        error = lift.get("stderr")
        interval = f"{plain(lift.get('low'), error, sign=True)} to {plain(lift.get('high'), error, sign=True)}"
        label = f"{str(row.get('column')).removeprefix('x_')} = {row.get('label')}"
        value = plain(lift.get("value"), error, sign=True)
        table.add_row(*map(_safe, (row.get("target"), label, count(row.get("n")), value, interval)))
    return table


def _audit(reading: Reading) -> Iterator[RenderableType]:
    checks = rows(reading.model.get("audit"))
    if not checks:
        return
    passed = sum(check.get("status") == "passed" for check in checks)
    yield Padding(Text(f"Audit of the log: {passed} of {len(checks)} checks passed", style="bold"), (1, 0, 0, 0))
    for check in checks:
        if check.get("status") in ("warned", "failed"):
            sign, style = MARKS[str(check["status"])]
            yield Text.assemble((f"{sign} {check.get('check')}: ", style), _safe(check.get("found") or ""))
            if check.get("remedy"):
                yield Padding(_safe(f"→ {check['remedy']}"), (0, 0, 0, 2))
