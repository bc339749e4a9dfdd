"""From sums to the finished Evaluation: segments, diagnostics, verdict, planning, provenance."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.audit import Audit, Finding
from counterrank.diagnostics import (
    FAILED,
    curve,
    effective_rows,
    mean_weight_test,
    plan_for,
    stderr_ratios,
    support,
    weight_report,
)
from counterrank.estimators import Estimate, View, parse
from counterrank.evaluation.comparing import compare, path_of, rivals, weighed_like
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.judging import Evidence, scale_of, verdict
from counterrank.evaluation.options import Options, manifest
from counterrank.evaluation.passing import Pairing, PassState, Totals, pairing
from counterrank.evaluation.result import Evaluation
from counterrank.evaluation.segments import segment_table
from counterrank.log import RankingLog
from counterrank.moments import Moments

if TYPE_CHECKING:
    from counterrank.evaluation.run import Run


def planning(
    chosen: Estimate, probe: RankingLog, options: Options, *, logged: float, logged_stderr: float
) -> dict[str, Any]:
    """Return detectable lifts, rows needed, A/B traffic and the gain from exploration."""
    plan = plan_for(
        chosen.n, chosen.lift.stderr, logged=logged, logged_stderr=logged_stderr, level=options.level,
        practical=options.practical,
    )  # fmt: skip
    basis = parse(chosen.basis)
    return {
        **plan,
        "exploration": stderr_ratios(probe, chosen.target, basis.assumption, basis.order),
    }


def sensitivity(
    chosen: Estimate, job: Job, probe: RankingLog, *, logged: float
) -> dict[str, Any] | None:
    """Return how the value's range grows with the error of the propensities; None without weights
    by position.
    """
    contributions = getattr(job.plan, "contributions", None)
    if contributions is None or not chosen.estimable:
        return None
    view = View(probe, chosen.target)
    weights = contributions(view)[1]
    return curve(weights, view.reward, probe.position_weights, value=chosen.value, logged=logged)


#: The flag of a log whose propensities were not logged.
ESTIMATED = "estimated-propensity"


def assemble(
    run: "Run", total: PassState, estimates: tuple[Estimate, ...], *, command: str | None = None
) -> Evaluation:
    """Return the finished evaluation."""
    options, first = run.options, run.first
    logged, logged_stderr = _logged(total.totals)
    pairs = pairing(run.jobs, run.states(total), total.totals)
    findings = run.findings(total)
    estimates = _possible(run, total, estimates)
    asked = tuple(e for j, e in zip(run.jobs, estimates, strict=True) if not j.silent)
    chosen = [
        (j, e)
        for j, e in zip(run.jobs, estimates, strict=True)
        if run.recommended[j.target] == j.name
    ]
    supports = {target: support(run.probe, target) for target in options.targets}
    ranges = {
        e.target: sensitivity(e, _weighing(run, j, e, estimates), run.probe, logged=logged)
        for j, e in chosen
    }
    evidence = [
        _evidence(
            run, pairs, job, one, estimates, supports[one.target], ranges[one.target], findings
        )
        for job, one in chosen
    ]
    return Evaluation(
        log={
            "n": total.totals.n,
            "K": first.K,
            "fingerprint": str(total.fingerprint),
            "rows_fingerprint": total.fingerprint.of_rows,
            "value": logged,
            "stderr": logged_stderr,
            "units": total.totals.units,
            "sequential": options.sequential,
            "position_weights": first.position_weights,
        },
        estimates=asked,
        recommended=run.recommended,
        comparisons=compare(
            run.jobs, estimates, pairs, run.recommended, options.level, options.looks
        ),
        segments=segment_table(total.segments, run.main, run.recommended, options.looks),
        diagnostics=_diagnostics(run, total, estimates, supports),
        behavior=_behavior(run.jobs),
        verdict=verdict(evidence),
        planning={
            e.target: planning(e, run.probe, options, logged=logged, logged_stderr=logged_stderr)
            for _, e in chosen
        },
        sensitivity={target: found for target, found in ranges.items() if found is not None},
        audit=Audit() if options.audit is False else Audit.of(findings),
        skipped=run.skipped,
        provenance=manifest(
            options,
            fingerprint=str(total.fingerprint),
            estimators=list(dict.fromkeys(job.name for job in run.jobs if not job.silent)),
            command=command,
        ),
    )


def _logged(totals: Totals) -> tuple[float, float]:
    only = np.eye(len(totals.sums))[0]
    return float(totals.sums[0] / totals.n), float(np.sqrt(totals.variance(only)))


def _possible(run: "Run", total: PassState, estimates: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """Return the estimates, without those recommended values that no rewards of this log could come
    to.
    """
    # A mean of rewards lies between the least and the most a ranking earned; weights on a wrong
    # scale lead outside, whatever their standard error says.
    low, high = total.rewards.of_value(run.first.position_weights)
    slack = 1e-9 * max(abs(low), abs(high))
    result = []
    for job, one in zip(run.jobs, estimates, strict=True):
        inside = not one.estimable or low - slack <= one.value <= high + slack
        if not inside and run.recommended[job.target] == job.name:
            light = _lightest(one.target, estimates)
            hint = "" if light is None else scale_of(mean_weight_test(light).mean)
            one = one.without_evidence(
                f"{one.value:.4g} a ranking is impossible where rewards allow {low:.4g} to "
                f"{high:.4g}{hint}"
            )
        result.append(one)
    return tuple(result)


def _lightest(target: str, estimates: Sequence[Estimate]) -> Moments | None:
    """Return the moments of the lightest weights of a target: those with the most effective rows."""
    plain = (
        e
        for e in estimates
        if e.target == target and e.moments is not None and parse(e.estimator).plain
    )
    found = [one.moments for one in plain if one.moments is not None]
    return max(found, key=effective_rows, default=None)


def _weighing(run: "Run", job: Job, one: Estimate, estimates: Sequence[Estimate]) -> Job:
    like = None if one.moments is not None else weighed_like(one, estimates)
    return job if like is None else run.jobs[like]


def _evidence(
    run: "Run", pairs: Pairing, job: Job, one: Estimate, estimates: Sequence[Estimate],
    supported: dict[str, Any] | None, ranged: dict[str, Any] | None, findings: Sequence[Finding],
) -> Evidence:  # fmt: skip
    like = weighed_like(one, estimates)
    lightest = _lightest(one.target, estimates)
    # What rests on no weights that were summed is judged by the lightest there are.
    others = lightest if like is None else estimates[like].moments
    return Evidence(
        estimate=one,
        logged=_logged(pairs.totals)[0],
        units=pairs.totals.units,
        outcomes=pairs.effective_outcomes(job),
        rivals=rivals(one, estimates, run.jobs, pairs),
        moments=one.moments if one.moments is not None else others,
        lightest=lightest,
        clustered=run.first.unit is not None,
        independent=run.options.independent_rows,
        borrowed=one.moments is None,
        # One position has no other items to be wrong about.
        assumption_free=run.first.K == 1
        or parse(one.basis).interactions(run.first.K) == run.first.K,
        unsupported=() if supported is None else supported["rare_share"],
        practical=run.options.practical,
        estimated_propensity=any(note.startswith(ESTIMATED) for note in run.first.notes),
        failed_audit=[finding for finding in findings if finding.status is FAILED],
        sign_changes_at=None if ranged is None else ranged["sign_changes_at"],
    )


def _diagnostics(
    run: "Run",
    total: PassState,
    estimates: Sequence[Estimate],
    supports: dict[str, dict[str, Any] | None],
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    tops = dict(zip(run.groups, total.tops, strict=True))
    for job, one in zip(run.jobs, estimates, strict=True):
        if one.moments is None or job.silent:
            continue
        report = weight_report(one.moments, support=supports[one.target]).to_dict()
        top = tops[job.plan.key]
        if top is not None:
            rows = zip(top.rows.tolist(), top.totals.tolist(), strict=True)
            report["top_rows"] = [{"row": row, "total": value} for row, value in rows]
        found[f"{one.target}/{one.estimator}"] = report
    asked = [one for job, one in zip(run.jobs, estimates, strict=True) if not job.silent]
    found["order_path"] = {target: path_of(target, asked) for target in run.options.targets}
    found["support"] = {target: one for target, one in supports.items() if one is not None}
    return found


def _behavior(jobs: Sequence[Job]) -> dict[str, Any] | None:
    """Return the first target's fitted trees in words, and those of the other targets under
    `others`.
    """
    found: dict[str, dict[str, Any]] = {}
    for job in jobs:
        model = getattr(job.plan, "behavior_model", None)
        if job.target not in found and model is not None and hasattr(model, "describe"):
            found[job.target] = model.describe()
    if not found:
        return None
    first, *rest = found
    return {**found[first], "target": first, "others": {target: found[target] for target in rest}}
