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
    counts = {each.target: each for each in count_scored(source, names, every=False)}
    if together or not counts:
        rows, coverages = scored_rows(source, names)
        result = work(rows, options, coverages)
        if together or all(each.kept == each.rows for each in coverages):
            return result
        # The first rows of a long log lacked nothing.
        counts = {each.target: each for each in count_scored(source, names, every=True)}
    partly = [n for n, count in counts.items() if n in candidates and count.kept < count.rows]
    others = [name for name in candidates if name not in partly]
    lost = [name for name in partly if counts[name].refused]
    groups = [others, *([name] for name in partly if name not in lost)]
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
    main = max(results, key=lambda one: one.log.n)
    order = sorted(results, key=lambda one: one is not main)
    first = {name: next((one for one in order if name in one.recommended), None) for name in names}
    owner = {name: one for name, one in first.items() if one is not None}
    targets = [one for name, one in owner.items()]
    parts = list(zip(owner, targets, strict=True))
    return replace(
        main,
        estimates=_of_targets(parts, lambda one: one.estimates),
        recommended={name: one.recommended[name] for name, one in parts},
        verdict=_verdict([(name, one.verdict) for name, one in parts], told),
        comparisons=tuple(row for one in order for row in one.comparisons),
        segments=_of_targets(parts, lambda one: one.segments),
        diagnostics=Diagnostics(
            weights={key: row for one in order[::-1] for key, row in one.diagnostics.weights.items()},
            order_path={name: one.diagnostics.order_path[name] for name, one in parts
                        if name in one.diagnostics.order_path},
            support={name: one.diagnostics.support[name] for name, one in parts
                     if name in one.diagnostics.support},
        ),
        planning={name: one.planning[name] for name, one in parts if name in one.planning},
        sensitivity={name: one.sensitivity[name] for name, one in parts if name in one.sensitivity},
        audit=Audit([*_findings([(name, one.audit) for name, one in parts], main.audit), *told]),
        skipped=tuple(dict.fromkeys(row for one in order for row in one.skipped)),
        provenance=replace(
            main.provenance, options={**main.provenance.options, "targets": names}
        ),
        metrics=tuple(
            _metric([(name, one.metrics[index]) for name, one in parts], metric, told)
            for index, metric in enumerate(main.metrics)
        ),
        guardrails=_of_targets(parts, lambda one: one.guardrails),
        decision=_decision(order),
    )  # fmt: skip


def _of_targets(
    parts: Sequence[tuple[str, T]], rows: Callable[[T], Iterable[Row]]
) -> tuple[Row, ...]:
    """Return the rows about each target, from the result that it belongs to."""
    return tuple(
        row for name, one in parts for row in rows(one) if getattr(row, "target", None) == name
    )


def _findings(
    parts: Sequence[tuple[str, Iterable[Finding]]], main: Iterable[Finding]
) -> list[Finding]:
    """Return the findings about the log of the result with most rows, and those about each target."""
    of_log = [row for row in main if row.target is None]
    return [*of_log, *(row for name, rows in parts for row in rows if row.target == name)]


def _verdict(parts: Sequence[tuple[str, Verdict]], told: Sequence[Finding]) -> Verdict:
    levels = {name: one.targets[name] for name, one in parts if name in one.targets}
    summaries = dict.fromkeys([one.summary for _, one in parts] + [row.text for row in told])
    return Verdict(
        level=weakest(*levels.values()) if levels else "none",
        summary=" ".join(filter(None, summaries)),
        targets=levels,
        reasons=tuple(row for name, one in parts for row in one.reasons if row.target == name),
    )


def _metric(
    parts: Sequence[tuple[str, MetricResult]], main: MetricResult, told: Sequence[Finding]
) -> MetricResult:
    unique = list({id(one): one for _, one in parts}.values())
    return replace(
        main,
        estimates=_of_targets(parts, lambda one: one.estimates),
        recommended={name: one.recommended[name] for name, one in parts},
        verdict=_verdict([(name, one.verdict) for name, one in parts], told),
        segments=_of_targets(parts, lambda one: one.segments),
        comparisons=tuple(row for one in unique for row in one.comparisons),
        skipped=tuple(dict.fromkeys(row for one in unique for row in one.skipped)),
    )


def _decision(results: Sequence[Evaluation]) -> ShipDecision:
    """Return the decision about all targets; of several that could be shipped, that with the largest lift."""
    actions = {name: action for one in results for name, action in one.decision.targets.items()}
    action = overall([*actions.values()])
    lows: Mapping[str, float] = {
        one.decision.target: one.estimate(one.decision.target).lift.relative_low
        for one in results
        if one.decision.target is not None
    }
    best = max(lows, key=lambda name: lows[name]) if action == SHIP and lows else None
    every = sorted(results, key=lambda one: one.decision.action != action)
    return ShipDecision(
        action, tuple(row for one in every for row in one.decision.reasons), best, actions
    )
