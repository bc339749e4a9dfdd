"""Targets that do not score every candidate: each is evaluated on the rows that it scores in full.

The targets that score all rows share one evaluation, each of the others has its own, and the results are
put together: a score that is missing costs only the target that lacks it. Two targets are compared where
they share an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from counterrank.checks import Audit, Coverage, count_scored, scored_rows
from counterrank.common.findings import Finding
from counterrank.common.records import Record
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
    parts = {name: result for name in names for result in order[::-1] if name in result.recommended}
    of_targets = [
        row for name, result in parts.items() for row in result.audit if row.target == name
    ]
    weights = [result.diagnostics.weights for result in order[::-1]]
    diagnostics = {name: result.diagnostics for name, result in parts.items()}
    return replace(
        main,
        **_of_targets(parts, "planning", "sensitivity", "guardrails"),
        diagnostics=Diagnostics(
            {key: report for reports in weights for key, report in reports.items()},
            **_of_targets(diagnostics, "order_path", "support"),
        ),
        audit=Audit([*(row for row in main.audit if row.target is None), *of_targets, *told]),
        provenance=replace(main.provenance, options={**main.provenance.options, "targets": names}),
        metrics=tuple(
            _metric({name: result.metrics[index] for name, result in parts.items()}, metric, told)
            for index, metric in enumerate(main.metrics)
        ),
        decision=_decision(order),
    )


def _of_targets(parts: Mapping[str, Record], *fields: str) -> dict[str, Any]:
    """Return what stands in these fields about each target, from the result that it belongs to.

    A field is a mapping by target, or rows about targets.
    """
    return {
        field: {
            name: record[field][name] for name, record in parts.items() if name in record[field]
        }
        if isinstance(next(iter(parts.values()))[field], Mapping)
        else tuple(
            row for name, record in parts.items() for row in record[field] if row.target == name
        )
        for field in fields
    }


def _metric(
    parts: Mapping[str, MetricResult], main: MetricResult, told: Sequence[Finding]
) -> MetricResult:
    unique = list({id(metric): metric for metric in parts.values()}.values())
    verdicts = {name: metric.verdict for name, metric in parts.items()}
    texts = [*(verdict.summary for verdict in verdicts.values()), *(row.text for row in told)]
    levels = _of_targets(verdicts, "targets")["targets"]
    return replace(
        main,
        **_of_targets(parts, "estimates", "recommended", "segments"),
        verdict=Verdict(
            level=weakest(*levels.values()) if levels else "none",
            summary=" ".join(filter(None, dict.fromkeys(texts))),
            targets=levels,
            **_of_targets(verdicts, "reasons"),
        ),
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
