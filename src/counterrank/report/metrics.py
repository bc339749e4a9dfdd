"""The scorecard of metrics, and guardrails in a table of their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from counterrank.report.answer import RESULTS, counted, limit_of, outcome, relative_ends, width
from counterrank.report.charts import Axis, AxisScale, Row, RowChart, around
from counterrank.report.document import BRIEF, SIGNS, Block, Chip, Figure, Meter, Table, section
from counterrank.report.numbers import NONE, known, percent, plain, span
from counterrank.report.reading import Reading, column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterrank.evaluation import GuardrailResult, MetricResult


def metrics(reading: Reading) -> list[Block]:
    """Return a row for each metric with a column for each policy, and the guardrails."""
    return section("Metrics", "metrics", _scorecard(reading), _guardrails(reading))


def _scorecard(reading: Reading) -> Table:
    scale = _scale(reading)
    rows = []
    for metric in _primary_first(reading):
        name = (
            f"{metric.name} (primary)"
            if metric.primary and len(reading.result.metrics) > 1
            else metric.name
        )
        base = metric.value if reading.over_logger else _value_of(metric, reading.result.baseline)
        cells = [_cell(reading, metric, target, scale) for target in reading.candidates]
        rows.append((name, f"{plain(base, metric.stderr)} {metric.unit}", *cells))
    head = ("metric", reading.baseline_words, *reading.candidates)
    signs = ", ".join(f"{SIGNS[found]} {words}" for found, words in RESULTS.items())
    caption = f"Lift over {reading.baseline_words}: {signs}"
    # One metric is what the table of estimates says already.
    return Table(caption, head, rows, texts=1, detail=BRIEF if reading.several else BRIEF + 1)


def _primary_first(reading: Reading) -> list[MetricResult]:
    return sorted(reading.result.metrics, key=lambda one: not one.primary)


def _value_of(metric: MetricResult, target: str) -> float:
    return metric.estimate(target).value


def _scale(reading: Reading) -> AxisScale:
    """Return one scale of relative lifts for all bars."""
    lifts = [m.estimate(t).lift for m in reading.result.metrics for t in reading.candidates]
    every = [v for one in lifts for v in (one.relative_low, one.relative_high) if known(v)]
    # An interval of several hundred per cent would leave the others without length.
    return around([min(max(v, -1.0), 1.0) for v in every], also=[0.0])


def _cell(reading: Reading, metric: MetricResult, target: str, scale: AxisScale) -> Meter | str:
    one = metric.estimate(target)
    lift, grade = one.lift, metric.verdict.of(target) if one.estimable else "insufficient"
    if not one.estimable or not known(lift.value):
        return f"not estimable, {grade}"
    found = SIGNS[outcome(lift, lower_is_better=metric.lower_is_better)]
    if not known(lift.relative_low):
        reach = span(lift.low, lift.high, width(lift), sign=True)
        return f"{found} {plain(lift.value, width(lift), sign=True)} ({reach}, {grade})"
    return Meter(
        f"{found} {percent(lift.relative, sign=True)}", lift.relative, lift.relative_low, lift.relative_high,
        scale, reading.mark(target).look, note=f"{relative_ends(lift)}, {grade}",
    )  # fmt: skip


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
        "Guardrails, with intervals adjusted for all of a policy's",
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


def metrics_figure(reading: Reading) -> Figure | None:
    """Return the relative lift in every metric, with intervals for each and for all together."""
    if len(reading.result.metrics) < 2:
        return None
    shown: list[Row] = []
    for target in reading.candidates:
        if len(reading.candidates) > 1:
            shown.append(Row(label=target, value=None, heading=True))
        shown += [_row(reading, metric, target) for metric in _primary_first(reading)]
    axis = Axis(
        f"lift over {reading.baseline_words}, in %", line=0.0, line_name="no change", signed=True
    )
    aid = (
        f"Thick bars are {percent(reading.level, digits=0)} intervals of one metric, thin ones hold for all "
        "metrics together. Dashed: insufficient evidence."
    )
    return Figure(
        "metrics",
        "Every metric, one at a time and together",
        aid,
        RowChart(shown, axis, "Lift in every metric"),
    )


def _row(reading: Reading, metric: MetricResult, target: str) -> Row:
    one, joint, mark = metric.estimate(target), metric.joint_of(target), reading.mark(target)
    lift, grade = one.lift, metric.verdict.of(target)
    outer = None
    if joint is not None and known(joint.adjusted_relative_low):
        outer = (100 * joint.adjusted_relative_low, 100 * joint.adjusted_relative_high)
    shown = percent(lift.relative, sign=True)
    return Row(
        label=metric.name, note="primary" if metric.primary else metric.unit, value=_hundred(lift.relative),
        low=_hundred(lift.relative_low), high=_hundred(lift.relative_high), outer=outer, shown=shown,
        tip=f"{metric.name} {metric.unit}\n{shown} ({relative_ends(lift)})\n{grade}", look=mark.look,
        shape=mark.shape, faded=grade == "insufficient",
    )  # fmt: skip


def _hundred(value: float) -> float | None:
    return 100 * value if known(value) else None


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
