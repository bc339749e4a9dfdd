"""Many metrics on one page: the decision, a row a metric, who trades what, and the rest behind a choice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from counterrank.report import where
from counterrank.report.charts import Axis, Plot, PlotFrame, Point, Row, RowChart, Series, around
from counterrank.report.numbers import NONE, known, percent, plain
from counterrank.report.parts import (
    Section,
    bullets,
    figure,
    folded,
    grid,
    section,
    style_of,
    table,
    tag,
)
from counterrank.report.reading import Reading
from counterrank.statistics import ellipse
from counterrank.texts import sentence

if TYPE_CHECKING:
    from counterrank.evaluation import GuardrailResult, MetricResult

#: Never colour alone: each status has its own sign.
SIGNS = {"safe": "✓", "broken": "✗", "open": "?"}
ACTIONS = {
    "ship": "Ship {names}",
    "hold": "Do not ship {names}",
    "test": "Run a test of {names} before shipping",
}


def several(reading: Reading) -> bool:
    """Return whether more was asked than one metric over the logging policy."""
    result = reading.result
    return len(result.metrics) > 1 or bool(result.guardrails) or not reading.over_logger


def headline(reading: Reading) -> str:
    """Return the decision in a few words."""
    decision = reading.result.decision
    names = [decision.target] if decision.target else list(decision.targets)
    return ACTIONS.get(decision.action, ACTIONS["test"]).format(names=" and ".join(names))


def reasons(reading: Reading) -> list[str]:
    """Return why, a sentence each."""
    return [sentence(one.text) for one in reading.result.decision.reasons]


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric of one target, as a table shows it."""

    target: str
    metric: str
    primary: bool
    unit: str
    value: str
    lift: str
    relative: str
    interval: str
    together: str
    evidence: str
    guardrail: str
    statuses: tuple[str, ...] = ()


def lines(reading: Reading) -> Iterator[MetricLine]:
    """Yield a line for each target that is no baseline and each metric."""
    for target in reading.candidates:
        for metric in reading.result.metrics:
            yield _line(reading, metric, target)


def _line(reading: Reading, metric: "MetricResult", target: str) -> MetricLine:
    one, joint = metric.estimate(target), metric.joint_of(target)
    lift, rails = one.lift, rails_of(reading, metric.name, target)
    together = NONE
    if joint is not None and known(joint.adjusted_relative_low):
        ends = (joint.adjusted_relative_low, joint.adjusted_relative_high)
        together = " to ".join(percent(end, sign=True) for end in ends)
    low, high = lift.relative_low, lift.relative_high
    return MetricLine(
        target=target,
        metric=metric.name,
        primary=metric.primary,
        unit=metric.unit,
        value=plain(one.value, one.stderr) if one.estimable else "not estimable",
        lift=plain(lift.value, lift.stderr, sign=True) if known(lift.value) else NONE,
        relative=percent(lift.relative, sign=True) if known(lift.relative) else NONE,
        interval=f"{percent(low, sign=True)} to {percent(high, sign=True)}" if known(low) else NONE,
        together=together,
        evidence=metric.verdict.of(target) if one.estimable else "insufficient",
        guardrail="; ".join(_status(rail) for rail in rails),
        statuses=tuple(rail.status for rail in rails),
    )


def rails_of(reading: Reading, metric: str, target: str) -> list["GuardrailResult"]:
    """Return the guardrails of a metric and target."""
    return [
        row for row in reading.result.guardrails if (row.metric, row.target) == (metric, target)
    ]


def _status(rail: "GuardrailResult") -> str:
    where_ = f" ({rail.group})" if rail.group else ""
    return f"{SIGNS[rail.status]} {limit_of(rail)}{where_} {rail.status}"


def limit_of(rail: "GuardrailResult") -> str:
    """Return the limit of a guardrail as people write it."""
    sign = "≤" if "<=" in rail.expression or "≤" in rail.expression else "≥"
    shown = percent(rail.limit, sign=True) if rail.relative else f"{plain(rail.limit)} {rail.unit}"
    return f"{sign} {shown}"


def metrics(reading: Reading) -> Section | None:
    """Return a row for each metric, who trades what, and each metric's positions and segments."""
    if not several(reading):
        return None
    level = percent(reading.level, digits=0)
    aid = (
        f"Thick bars are {level} intervals of one metric, thin ones hold for all metrics together; an "
        "upright mark is the limit of a guardrail. Faded: insufficient evidence."
    )
    drawn = figure(
        f"Lift over {reading.baseline_words}", aid, metrics_drawing(reading).svg(), _table(reading)
    )
    body = grid(drawn) + _guardrails(reading) + _trades(reading) + _others(reading)
    return section("metrics", "Every metric", "", body)


def metrics_drawing(reading: Reading) -> RowChart:
    """Return the relative lift in every metric, for each target that is no baseline."""
    shown: list[Row] = []
    for target in reading.candidates:
        if len(reading.candidates) > 1:
            shown.append(Row(label=target, value=None, heading=True))
        shown += [_row(reading, metric, target) for metric in reading.result.metrics]
    axis = Axis(
        f"lift over {reading.baseline_words}, in %", line=0.0, line_name="no change", signed=True
    )
    return RowChart(shown, axis, "Lift in every metric")


def _row(reading: Reading, metric: "MetricResult", target: str) -> Row:
    line = _line(reading, metric, target)
    one, joint, style = metric.estimate(target), metric.joint_of(target), style_of(reading, target)
    lift = one.lift
    rails = [rail for rail in rails_of(reading, metric.name, target) if rail.relative]
    outer = None
    if joint is not None and known(joint.adjusted_relative_low):
        outer = (100 * joint.adjusted_relative_low, 100 * joint.adjusted_relative_high)
    note = "primary" if metric.primary else line.evidence
    tip = f"{metric.name} {metric.unit}\n{line.value}, lift {line.relative} ({line.interval})\n" + (
        f"{line.evidence} evidence" + (f"\n{line.guardrail}" if line.guardrail else "")
    )
    return Row(
        label=metric.name, note=note, value=_hundred(lift.relative), low=_hundred(lift.relative_low),
        high=_hundred(lift.relative_high), outer=outer, shown=f"{line.relative} {line.guardrail}".strip(),
        tip=tip, look=style.look, shape=style.shape, faded=line.evidence == "insufficient",
        limit=100 * rails[0].limit if rails else None,
    )  # fmt: skip


def _hundred(value: float) -> float | None:
    return 100 * value if known(value) else None


def _table(reading: Reading) -> Markup:
    head = ("policy", "metric", "counted", "value", "lift", "relative", "interval", "all metrics together",
            "evidence", "guardrail")  # fmt: skip
    body = [
        (one.target, one.metric, one.unit, one.value, one.lift, one.relative, one.interval, one.together,
         one.evidence, one.guardrail or NONE)
        for one in lines(reading)
    ]  # fmt: skip
    return table(head, body, texts=3)


def _guardrails(reading: Reading) -> Markup:
    """Return what each guardrail says, a sentence each."""
    found = []
    for row in reading.result.guardrails:
        ends = (percent(row.low, sign=True), percent(row.high, sign=True))
        if not row.relative:
            ends = (plain(row.low, sign=True), plain(row.high, sign=True))
        place = f", {row.column} = {row.group}" if row.column else ""
        shown = f"{ends[0]} to {ends[1]}" if known(row.low) else "no interval"
        found.append(
            f"{SIGNS[row.status]} {row.expression} ({row.target}{place}): {row.status}, {shown} for all "
            f"guardrails together, {row.evidence} evidence"
        )
    return bullets(found)


def trade_drawing(reading: Reading, x: "MetricResult", y: "MetricResult") -> Plot | None:
    """Return relative lifts in two metrics with the regions that hold them together.

    None for fewer than two policies.
    """
    names = [one.name for one in reading.result.metrics]
    series, labels = [], []
    for target in reading.candidates:
        places = [metric.estimate(target).lift.relative for metric in (x, y)]
        joints = [metric.joint_of(target) for metric in (x, y)]
        correlations = reading.result.correlations.get(target)
        if not all(map(known, places)) or None in joints or correlations is None:
            continue
        errors = np.array([one.relative_stderr for one in joints if one is not None])
        rho = correlations[names.index(x.name)][names.index(y.name)]
        with np.errstate(over="ignore"):
            cov = np.outer(errors, errors) * [[1.0, rho], [rho, 1.0]]
        if not np.isfinite(cov).all():
            continue
        centre = 100 * np.array(places)
        edge = centre + 100 * ellipse(cov, reading.level)
        style = style_of(reading, target)
        tip = f"{target}\n{x.name} {percent(places[0], sign=True)}\n{y.name} {percent(places[1], sign=True)}"
        series.append(
            Series(points=[Point(float(a), float(b)) for a, b in edge], look=style.look, dots=False)
        )
        series.append(
            Series(points=[Point(float(centre[0]), float(centre[1]), tip=tip)], look=style.look,
                   shape=style.shape, joined=False)
        )  # fmt: skip
        labels += [f"{target}, {percent(reading.level, digits=0)} region", target]
    if len(series) < 4:
        return None
    points = [point for one in series for point in one.points]
    frame = PlotFrame(
        x=around([p.x for p in points], also=[0.0]), y=around([p.y for p in points], also=[0.0]),
        x_title=f"lift in {x.name}, in %", y_title=f"lift in {y.name}, in %", lines=[(0.0, "")],
        uprights=[(0.0, "")], signed=True, height=260,
    )  # fmt: skip
    return Plot(series, frame, f"{x.name} and {y.name} together", labels)


def trades(reading: Reading) -> list[Plot]:
    """Return the primary against every other metric."""
    found = reading.result.metrics
    primary = next((one for one in found if one.primary), None)
    if primary is None or not reading.result.correlations:
        return []
    drawn = (trade_drawing(reading, primary, other) for other in found if other is not primary)
    return [one for one in drawn if one is not None]


def _trades(reading: Reading) -> Markup:
    plots = trades(reading)
    if not plots:
        return Markup("")
    aid = (
        "Up and to the right is better in both; a region that crosses a line may be on either side."
    )
    figures = [figure(one.name, aid, one.svg() + one.legend()) for one in plots]
    rest = folded("More pairs of metrics", *figures[1:]) if len(figures) > 1 else Markup("")
    return grid(figures[0]) + rest


def reading_of(reading: Reading, metric: "MetricResult") -> Reading:
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


def _others(reading: Reading) -> Markup:
    """Return positions and segments of each further metric, behind a click."""
    parts = []
    for metric in reading.result.metrics:
        if metric.primary or metric.kind == "ratio":
            continue
        own = reading_of(reading, metric)
        made = [where.positions(own) if metric.kind == "position" else None, where.segments(own)]
        bodies = [tag("h3", one.title) + one.body for one in made if one is not None]
        summary = [tag("p", metric.verdict.summary)] if metric.verdict.summary else []
        if bodies or summary:
            parts.append(
                folded(f"{metric.name}: positions, segments and evidence", *summary, *bodies)
            )
    return Markup("").join(parts)


def summary_rows(reading: Reading) -> Sequence[MetricLine]:
    """Return the lines of the table, the primary first for each target."""
    return sorted(
        lines(reading), key=lambda one: (reading.candidates.index(one.target), not one.primary)
    )
