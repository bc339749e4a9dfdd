"""Targets that do not score every candidate: each is evaluated on the rows that it scores in full.

The targets that score all rows share one evaluation, each of the others has its own, and the results are
put together: a score that is missing costs only the target that lacks it. Two targets are compared where
they share an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from counterrank.checks import Audit, Coverage, count_scored, scored_rows
from counterrank.common.findings import Finding
from counterrank.data.source import Source
from counterrank.evaluation.metric_table import SHIP, overall
from counterrank.evaluation.request import Options
from counterrank.evaluation.result import (
    Diagnostics,
    Evaluation,
    MetricResult,
    ShipDecision,
    Verdict,
    weakest,
)

T = TypeVar("T")
Row = TypeVar("Row")
#: Evaluates the targets of the options on a source, given how many rows each of them scores.
Work = Callable[[Source, Options, Sequence[Coverage]], Evaluation]


def on_scored_rows(source: Source, options: Options, work: Work) -> Evaluation:
    """Return the evaluation of targets, each on the rows that it and the baseline score in full.

    Weights are written by row: one file has the rows that all targets score.
    """
    names, baseline = options.targets, options.baseline
    candidates = [name for name in names if name != baseline]
    together = options.weights_out is not None or len(candidates) == 1
    counts = {scored.target: scored for scored in count_scored(source, names, whole_log=False)}
    if together or not counts:
        rows, coverages = scored_rows(source, names)
        result = work(rows, options, coverages)
        if together or all(scored.scored_rows_count == scored.rows for scored in coverages):
            return result
        # The first rows of a long log lacked nothing.
        counts = {scored.target: scored for scored in count_scored(source, names, whole_log=True)}
    partly = [
        n for n, count in counts.items() if n in candidates and count.scored_rows_count < count.rows
    ]
    complete = [name for name in candidates if name not in partly]
    lost = [name for name in partly if counts[name].refused]
    groups = [complete, *([name] for name in partly if name not in lost)]
    results = []
    for group in filter(None, groups):
        members = tuple(name for name in names if name in group or name == baseline)
        rows, coverages = scored_rows(source, members)
        results.append(work(rows, replace(options, targets=members), coverages))
    if not results:
        raise counts[lost[0]].refusal()
    told = [finding for name in lost for finding in counts[name].findings()]
    return _merged(results, names, told)


def _merged(
    results: Sequence[Evaluation], names: tuple[str, ...], told: Sequence[Finding]
) -> Evaluation:
    """Return one evaluation of all targets; what does not depend on them is that of the most rows."""
    main = max(results, key=lambda result: result.log.n)
    order = sorted(results, key=lambda result: result is not main)
    first = {
        name: next((result for result in order if name in result.recommended), None)
        for name in names
    }
    parts = [(name, result) for name, result in first.items() if result is not None]
    return replace(
        main,
        estimates=_of_targets(parts, lambda result: result.estimates),
        recommended=_by_target(parts, lambda result: result.recommended),
        verdict=_verdict([(name, result.verdict) for name, result in parts], told),
        comparisons=tuple(row for result in order for row in result.comparisons),
        segments=_of_targets(parts, lambda result: result.segments),
        diagnostics=Diagnostics(
            weights={
                key: row
                for result in order[::-1]
                for key, row in result.diagnostics.weights.items()
            },
            order_path=_by_target(parts, lambda result: result.diagnostics.order_path),
            support=_by_target(parts, lambda result: result.diagnostics.support),
        ),
        planning=_by_target(parts, lambda result: result.planning),
        sensitivity=_by_target(parts, lambda result: result.sensitivity),
        audit=Audit(
            [*_findings([(name, result.audit) for name, result in parts], main.audit), *told]
        ),
        skipped=tuple(dict.fromkeys(row for result in order for row in result.skipped)),
        provenance=replace(main.provenance, options={**main.provenance.options, "targets": names}),
        metrics=tuple(
            _metric([(name, result.metrics[index]) for name, result in parts], metric, told)
            for index, metric in enumerate(main.metrics)
        ),
        guardrails=_of_targets(parts, lambda result: result.guardrails),
        decision=_decision(order),
    )


def _by_target(
    parts: Sequence[tuple[str, T]], table: Callable[[T], Mapping[str, Row]]
) -> dict[str, Row]:
    """Return the entry of each target, from the result that it belongs to."""
    return {name: table(result)[name] for name, result in parts if name in table(result)}


def _of_targets(
    parts: Sequence[tuple[str, T]], rows: Callable[[T], Iterable[Row]]
) -> tuple[Row, ...]:
    """Return the rows about each target, from the result that it belongs to."""
    return tuple(
        row
        for name, result in parts
        for row in rows(result)
        if getattr(row, "target", None) == name
    )


def _findings(
    parts: Sequence[tuple[str, Iterable[Finding]]], main: Iterable[Finding]
) -> list[Finding]:
    """Return the findings about the log of the result with most rows, and those about each target."""
    of_log = [row for row in main if row.target is None]
    return [*of_log, *(row for name, rows in parts for row in rows if row.target == name)]


def _verdict(parts: Sequence[tuple[str, Verdict]], told: Sequence[Finding]) -> Verdict:
    levels = {name: verdict.targets[name] for name, verdict in parts if name in verdict.targets}
    summaries = dict.fromkeys(
        [verdict.summary for _, verdict in parts] + [row.text for row in told]
    )
    return Verdict(
        level=weakest(*levels.values()) if levels else "none",
        summary=" ".join(filter(None, summaries)),
        targets=levels,
        reasons=tuple(
            row for name, verdict in parts for row in verdict.reasons if row.target == name
        ),
    )


def _metric(
    parts: Sequence[tuple[str, MetricResult]], main: MetricResult, told: Sequence[Finding]
) -> MetricResult:
    unique = list({id(metric): metric for _, metric in parts}.values())
    return replace(
        main,
        estimates=_of_targets(parts, lambda metric: metric.estimates),
        recommended=_by_target(parts, lambda metric: metric.recommended),
        verdict=_verdict([(name, metric.verdict) for name, metric in parts], told),
        segments=_of_targets(parts, lambda metric: metric.segments),
        comparisons=tuple(row for metric in unique for row in metric.comparisons),
        skipped=tuple(dict.fromkeys(row for metric in unique for row in metric.skipped)),
    )


def _decision(results: Sequence[Evaluation]) -> ShipDecision:
    """Return the decision about all targets; of several that could be shipped, that with the largest lift."""
    actions = {
        name: action for result in results for name, action in result.decision.targets.items()
    }
    action = overall([*actions.values()])
    lows: Mapping[str, float] = {
        result.decision.target: result.estimate(result.decision.target).lift.relative_low
        for result in results
        if result.decision.target is not None
    }
    best = max(lows, key=lambda name: lows[name]) if action == SHIP and lows else None
    ordered = sorted(results, key=lambda result: result.decision.action != action)
    return ShipDecision(
        action, tuple(row for result in ordered for row in result.decision.reasons), best, actions
    )
