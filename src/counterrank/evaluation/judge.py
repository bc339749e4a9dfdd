"""The fourth stage of an evaluation: how far the recommended estimates of a metric can be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from counterrank.checks import Finding
from counterrank.common.messages import ESTIMATED, has
from counterrank.data.columns import shared_contexts, units_are_rows
from counterrank.estimators import Estimate, View
from counterrank.estimators.weights.diagnostics import Support
from counterrank.evaluation.comparisons import (
    compare,
    rivals,
    segment_table,
    usable,
    weighed_like,
)
from counterrank.evaluation.fit import Fit, MetricFits
from counterrank.evaluation.request import PANEL, Options
from counterrank.evaluation.result import Comparison, LogSummary, Segment, Sensitivity, Verdict
from counterrank.evaluation.sensitivity import curve
from counterrank.evaluation.solve import Table, lightest
from counterrank.evaluation.sweep import Group
from counterrank.evaluation.verdict import (
    TargetEvidence,
    no_better,
    of_audit,
    reasons,
    verdict,
)


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What is said of one metric: the estimates that were asked for, and what follows from them.

    `shown` are the estimates of the result, the others only judge them; `recommended` are those of each target,
    `ranges` how far a wrong propensity moves them; `groups` are the recommended estimates of each target in
    groups of rows, `segments` the table of them.
    """

    fits: MetricFits
    estimates: dict[Fit, Estimate]
    shown: tuple[Estimate, ...]
    recommended: dict[str, Estimate]
    ranges: dict[str, Sensitivity]
    verdict: Verdict
    comparisons: tuple[Comparison, ...]
    groups: dict[str, dict[Group, Estimate]]
    segments: tuple[Segment, ...]


def judge(
    fits: MetricFits,
    table: Table,
    findings: Sequence[Finding],
    supports: Mapping[str, Support | None],
    options: Options,
    log: LogSummary,
) -> Judgement:
    """Return estimates, comparisons and groups of one metric, and how far to believe them.

    Parameters
    ----------
    fits
        The fits of the metric.
    table
        Their solutions.
    findings
        What the checks found of the rows.
    supports
        What each target shows that the logger hardly ever does.
    options
        What was asked for.
    log
        The log, by whose rows a target may have been learned.
    """
    estimates = {fit: table.estimate(fit) for fit in fits.fits}
    ranges: dict[str, Sensitivity] = {}
    findings_of: dict[str, list[Finding]] = {}
    for target, fit in fits.recommended.items():
        # Of further metrics the range is needed only where the verdict looks at it.
        if fits.primary or has(fits.first.notes, ESTIMATED):
            ranges |= _sensitivity(fits, table, fit, estimates)
        evidence = _evidence(fits, table, fit, estimates, supports[target], options)
        learned_from = _learned_from(fits, target)
        evidence = replace(
            evidence,
            sign_changes_at=ranges[target].sign_changes_at if target in ranges else None,
            learned_here=learned_from == log.rows_fingerprint,
            learned_elsewhere=bool(learned_from),
        )
        findings_of[target] = [*of_audit(findings, target), *reasons(evidence)]
    groups = {
        target: {label: rows.estimate(fit) for label, rows in table.groups.items()}
        for target, fit in fits.recommended.items()
    }
    several = len(fits.recommended) > 1
    return Judgement(
        fits,
        estimates,
        tuple(estimate for fit, estimate in estimates.items() if not fit.diagnostic_only),
        {target: estimates[fit] for target, fit in fits.recommended.items()},
        ranges,
        verdict(no_better(findings_of, options.baseline)),
        compare(table, fits, options.level, options.looks) if several else (),
        groups if table.groups else {},
        segment_table(groups, options.level, options.looks) if table.groups else (),
    )


def _learned_from(fits: MetricFits, target: str) -> str:
    """Return the fingerprint of the rows that a policy was learned from, if its file holds it."""
    rule = getattr(fits.first.targets.get(target), "rule", None)
    return str(getattr(rule, "learned_from", ""))


def _sensitivity(
    fits: MetricFits, table: Table, fit: Fit, estimates: Mapping[Fit, Estimate]
) -> dict[str, Sensitivity]:
    """Return how the value's range grows with the error of the propensities, by target.

    Nothing without weights by position.
    """
    estimate = estimates[fit]
    weighed = weighed_like(fit, estimates) if estimate.moments is None else None
    by_logger = fits.shared.setdefault("answers about the probe", {})
    view = View(fits.probe, fit.target, by_logger=by_logger)
    weights = None if estimate.not_estimable else (weighed or fit).fitted.weights(view)
    if weights is None:
        return {}
    return {
        fit.target: curve(
            weights,
            view.reward,
            fits.probe.position_weights,
            value=estimate.value,
            logged=table.earned(fits).value,
        )
    }


def _evidence(
    fits: MetricFits,
    table: Table,
    fit: Fit,
    estimates: Mapping[Fit, Estimate],
    supported: Support | None,
    options: Options,
) -> TargetEvidence:
    """Return the evidence on a recommended estimate."""
    estimate, first = estimates[fit], fits.first
    # The same judges in the same order, whichever estimators the user named: the panel always runs.
    judges = {
        rival: estimates[rival]
        for name in PANEL
        for rival in fits.fits
        if rival.name == name and rival.target == fit.target and rival is not fit
    }
    weighed = weighed_like(fit, estimates, judges)
    lightest_weights = lightest(
        fits, table.solutions, fit.target, among=[fit.name, *(rival.name for rival in judges)]
    )
    # Without weights of its own, an estimate is judged by the target's lightest weights.
    borrowed = lightest_weights if weighed is None else estimates[weighed].moments
    return TargetEvidence(
        estimate=estimate,
        logged=table.earned(fits).value,
        outcomes=table.outcomes(fit),
        units=table.units,
        rivals=rivals(fit, judges, table),
        lifts=[
            rival.lift.value
            for judge, rival in judges.items()
            if judge.traits.weighs_alone and not rival.not_estimable and usable(rival)
        ],
        moments=borrowed if estimate.moments is None else estimate.moments,
        lightest=lightest_weights,
        clustered=first.unit is not None,
        shared_contexts=shared_contexts(fits.probe) if units_are_rows(first) else None,
        independent=options.independent_rows,
        borrowed=estimate.moments is None,
        # One position has no other items to be wrong about.
        assumption_free=first.K == 1
        or (estimate.traits is not None and estimate.traits.order(first.K) == first.K),
        practical=options.practical,
        estimated_propensity=has(first.notes, ESTIMATED),
        fresh=options.target_is_fresh,
        trained_until=options.target_trained_until,
        unsupported=() if supported is None else supported.rare_share,
    )
