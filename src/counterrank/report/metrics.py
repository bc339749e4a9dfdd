"""The scorecard of metrics, and guardrails in a table of their own."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from counterrank.report.answer import RESULTS, counted, limit_of, outcome
from counterrank.report.charts import NO_CHANGE, AxisScale, Row, RowChart, around, interval_row
from counterrank.report.document import (
    BRIEF,
    SIGNS,
    VERBOSE,
    Block,
    Chip,
    Figure,
    Meter,
    Table,
    section,
)
from counterrank.report.numbers import NONE, known, percent, plain, span
from counterrank.report.reading import Reading, column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterrank.evaluation import GuardrailResult, MetricResult


def metrics(reading: Reading) -> list[Block]:
    """Return a row for each metric with a column for each policy, and the guardrails."""
    return section("Metrics", "metrics", _scorecard(reading), _guardrails(reading))


def _named(reading: Reading) -> list[tuple[str, str, MetricResult]]:
    """Return every metric with its name and unit in words, the primary first."""
    reward, ranking = reading.reward, reading.ranking
    return [
        (
            reward if one.primary else one.name,
            f"per {ranking}" if one.unit == "per ranking" else one.unit,
            one,
        )
        for one in sorted(reading.result.metrics, key=lambda one: not one.primary)
    ]


def _scorecard(reading: Reading) -> Table:
    named, result = _named(reading), reading.result
    lifts = [one.estimate(target).lift for _, _, one in named for target in reading.candidates]
    ends = [v for one in lifts for v in (one.relative_low, one.relative_high) if known(v)]
    # An interval of several hundred per cent would leave the others without length.
    scale = around([min(max(v, -1.0), 1.0) * 100 for v in ends], also=[0.0])
    rows = []
    for name, unit, one in named:
        told = f"{name} (primary)" if one.primary and len(named) > 1 else name
        base = one.value if reading.over_logger else one.estimate(result.baseline).value
        cells = (_cell(reading, one, target, scale) for target in reading.candidates)
        rows.append((told, f"{plain(base, one.stderr)} {unit}", *cells))
    signs = ", ".join(f"{SIGNS[found]} {words}" for found, words in RESULTS.items())
    # One metric over the logger is what the table of estimates says already.
    several = len(named) > 1 or result.guardrails or not reading.over_logger
    return Table(
        f"Lift over {reading.baseline}: {signs}", ("metric", reading.baseline, *reading.candidates),
        rows, detail=BRIEF if several else VERBOSE,
    )  # fmt: skip


def _cell(reading: Reading, metric: MetricResult, target: str, scale: AxisScale) -> Meter | str:
    one = metric.estimate(target)
    lift, grade = one.lift, metric.verdict.of(target) if one.estimable else "insufficient"
    if not one.estimable or not known(lift.value):
        return f"not estimable, {grade}"
    relative = known(lift.relative_low)
    row = interval_row(target, lift, reading.mark(target), relative=relative)
    sign = SIGNS[outcome(lift, lower_is_better=metric.lower_is_better)]
    found = Meter(replace(row, shown=f"{sign} {row.shown}", note=f"{row.reach}, {grade}"), scale)
    return found if relative else str(found)


def _guardrails(reading: Reading) -> Table:
    """Return a row for each guardrail and policy; groups of one guardrail share a row."""
    rows = []
    every = reading.result.guardrails
    for (target, _), members in groupby(every, key=lambda one: (one.target, one.expression)):
        rails = list(members)
        worst = min(rails, key=lambda one: ("broken", "open", "safe").index(one.status))
        where = f" in {worst.group}" if worst.column else ""
        name = (
            f"{worst.metric} by {column_name(worst.column)}: {_groups(rails)}"
            if worst.column
            else worst.metric
        )
        reach = _reach(worst) + where
        rows.append(
            (target, name, limit_of(worst), reach, Chip(worst.status, worst.status), worst.evidence)
        )
    head = ("policy", "metric", "limit", "interval", "status", "measurement")
    return Table(
        "Guardrails (intervals hold for all guardrails of a policy together)",
        head,
        rows,
        texts=2,
        minor=(5,),
        detail=BRIEF,
    )


def _reach(rail: GuardrailResult) -> str:
    if not known(rail.low):
        return NONE
    if rail.relative:
        return f"{percent(rail.low, sign=True)} to {percent(rail.high, sign=True)}"
    return span(rail.low, rail.high, (rail.high - rail.low) / 4, sign=True)


def _groups(rails: Sequence[GuardrailResult]) -> str:
    """Return how many groups are safe, and the names of those that are not."""
    others = [rail for rail in rails if rail.status != "safe"]
    total = counted(len(rails), column_name(rails[0].column))
    told = f"{len(rails) - len(others)} of {total} safe"
    return (
        told
        + "".join(f"; {rail.group} {rail.status}" for rail in others[:4])
        + ("; …" if others[4:] else "")
    )


def lifts(reading: Reading) -> Figure:
    """Return the lift of every policy in every metric, in per cent where that means something.

    With several metrics, thin bars are intervals that hold for all of them together.
    """
    named, rows = _named(reading), list[Row]()
    several, practical = len(named) > 1, reading.result.provenance.options.practical
    shares = several or all(known(reading.lift(t).relative_low) for t in reading.candidates)
    for target in reading.candidates:
        rows += [Row(label=target, heading=True)] if several else []
        for name, unit, one in named:
            lift, grade = one.estimate(target).lift, one.verdict.of(target)
            wide = (lift.adjusted_relative_low, lift.adjusted_relative_high)
            low, high = (100 * end if known(end) else math.nan for end in wide)
            rows.append(
                interval_row(
                    name if several else target, lift, reading.mark(target), relative=shares, more=[grade],
                    note="primary" if several and one.primary else unit, outer=(low, high),
                    faded=grade == "insufficient",
                )
            )  # fmt: skip
    aid, lines = f"Bars are {reading.level_words} intervals.", list(NO_CHANGE)
    if several:
        aid += " Thin ones hold for all metrics together. Dashed: insufficient evidence."
    if shares and practical is not None:
        aid += (
            f" Between the dashed lines lifts are below {percent(practical)}, too small to matter."
        )
        lines += [(100 * practical, ""), (-100 * practical, "")]
    title = "lift in %" if shares else f"lift in {reading.unit}"
    chart = RowChart(rows, title, "Lifts of all policies", lines)
    return Figure("lifts", f"Lift over {reading.baseline}", aid, chart)


def reading_of(reading: Reading, metric: MetricResult) -> Reading:
    """Return the evaluation as if a metric were its only one."""
    result = reading.result
    log = replace(result.log, value=metric.value, stderr=metric.stderr,
                  words={**result.log.words, "reward": metric.name})  # fmt: skip
    return Reading(
        replace(
            result, log=log, estimates=metric.estimates, recommended=metric.recommended,
            segments=metric.segments, comparisons=metric.comparisons, verdict=metric.verdict,
            sensitivity={}, planning={},
        )
    )  # fmt: skip
