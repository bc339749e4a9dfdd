"""evaluate(): fit what must be fitted, pass over the log once for everything, assemble the result."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from counterrank.audit import (
    CHECKS,
    OF_REWARDS,
    REWARD_FINDINGS,
    VITAL,
    Audit,
    Auditor,
    Check,
    Finding,
    auditor_of,
)
from counterrank.behavior import (
    BehaviorTree,
    Candidate,
    ForestDescription,
    MSEEstimate,
    planned_tree,
)
from counterrank.data.grouping import grouping_of
from counterrank.data.log import Probabilities, RankingLog
from counterrank.data.source import MappedSource, MemorySource, SampledOnce, Source, mapped
from counterrank.data.validation import refuse_scale
from counterrank.data.visitors import shared_contexts, units_are_rows
from counterrank.errors import ConfigError, CounterrankError
from counterrank.estimators import Estimate, Estimator, View, nothing_known, parse
from counterrank.evaluation.exploration import (
    plan_for,
    refuse_deterministic,
    stderr_ratios,
    support,
)
from counterrank.evaluation.freshness import Later, later_rows
from counterrank.evaluation.jobs import (
    PANEL,
    TREE,
    Job,
    grouped,
    make_jobs,
    named,
    recommended,
    weightless,
)
from counterrank.evaluation.judging import (
    TargetEvidence,
    compare,
    path_of,
    rivals,
    scale_of,
    usable,
    verdict,
    weighed_like,
)
from counterrank.evaluation.passing import (
    Cut,
    JointPass,
    JointState,
    Pairing,
    Pass,
    PassState,
    RowTotals,
    at_any_time,
    cuts_of,
    group_estimates,
    inflated,
    pairing,
    segment_table,
)
from counterrank.evaluation.provenance import Options, manifest
from counterrank.evaluation.result import LOGGER, Evaluation
from counterrank.evaluation.sensitivity import curve
from counterrank.evaluation.several import (
    Estimated,
    Together,
    against,
    correlations,
    decision,
    guardrail_results,
    metric_results,
)
from counterrank.evaluation.tables import (
    Comparison,
    Diagnostics,
    LogSummary,
    SamplePlan,
    Segment,
    Sensitivity,
    Skipped,
    Verdict,
    weakest,
)
from counterrank.evaluation.weighing import refuse_weights, write_weights
from counterrank.messages import ESTIMATED, has
from counterrank.metrics import (
    SINGLE,
    Guardrail,
    Measure,
    Metrics,
    PageFunction,
    constant,
    measured,
    refuse_constant,
)
from counterrank.texts import suggestion
from counterrank.weights.diagnostics import (
    Support,
    effective_rows,
    mean_weight_test,
    weight_report,
)
from counterrank.weights.moments import Moments
from counterrank.weights.thresholds import FAILED

if TYPE_CHECKING:
    from counterrank.io import LogLike, OpenOptions


def planning(
    chosen: Estimate, probe: RankingLog, options: Options, *, logged: float, logged_stderr: float
) -> SamplePlan:
    """Return detectable lifts, rows needed, A/B traffic and the gain from exploration."""
    plan = plan_for(
        chosen.n, chosen.lift.stderr, logged=logged, logged_stderr=logged_stderr, level=options.level,
        practical=options.practical, allowance=chosen.allowance or 0.0,
    )  # fmt: skip
    basis = parse(chosen.basis)
    explored = stderr_ratios(probe, chosen.target, basis.assumption, basis.order)
    return replace(plan, exploration=explored)


def sensitivity(
    chosen: Estimate, job: Job, probe: RankingLog, *, logged: float
) -> Sensitivity | None:
    """Return how the value's range grows with the error of the propensities.

    None without weights by position.
    """
    contributions = getattr(job.plan, "contributions", None)
    if contributions is None or not chosen.estimable:
        return None
    view = View(probe, chosen.target)
    weights = contributions(view)[1]
    return curve(weights, view.reward, probe.position_weights, value=chosen.value, logged=logged)


@dataclass(frozen=True)
class Judgement:
    """What was made of the estimates of one reward."""

    estimates: tuple[Estimate, ...]
    chosen: list[tuple[Job, Estimate]]
    ranges: dict[str, Sensitivity | None]
    verdict: Verdict
    comparisons: tuple[Comparison, ...]
    segments: tuple[Segment, ...]


def judge(
    run: Run,
    total: PassState,
    estimates: tuple[Estimate, ...],
    findings: Sequence[Finding],
    supports: Mapping[str, Support | None],
) -> Judgement:
    """Return estimates, comparisons and segments of one reward, and how far to believe them."""
    options, first = run.options, run.first
    logged = _logged(total.totals)[0]
    pairs = pairing(run.jobs, run.states(total), total.totals)
    estimates = _possible(run, total, estimates)
    chosen = [
        (j, e)
        for j, e in zip(run.jobs, estimates, strict=True)
        if run.recommended[j.target] == j.name
    ]
    # Of further rewards the range is asked only where the verdict looks at it.
    asked = run.primary or has(first.notes, ESTIMATED)
    ranges = {
        e.target: sensitivity(e, _weighing(run, j, e, estimates), run.probe, logged=logged)
        if asked
        else None
        for j, e in chosen
    }
    evidence = [
        _evidence(
            run, pairs, job, one, estimates, supports[one.target], ranges[one.target], findings
        )
        for job, one in chosen
    ]
    rows = total.fingerprint.of_rows
    learned = {one.target for _, one in chosen if _learned_from(first, one.target) == rows}
    evidence = [replace(one, learned_here=one.estimate.target in learned) for one in evidence]
    return Judgement(
        estimates,
        chosen,
        ranges,
        verdict(evidence),
        compare(run.jobs, estimates, pairs, run.recommended, options.level, options.looks),
        segment_table(total, run.main, run.recommended, options.looks, run.baseline),
    )


def assemble(
    run: Run,
    total: PassState,
    judged: Judgement,
    findings: Sequence[Finding],
    supports: Mapping[str, Support | None],
    *,
    command: str | None = None,
) -> Evaluation:
    """Return the finished evaluation of one reward."""
    options, first, estimates, chosen = run.options, run.first, judged.estimates, judged.chosen
    logged, logged_stderr = _logged(total.totals)
    asked = tuple(e for j, e in zip(run.jobs, estimates, strict=True) if not j.silent)
    return Evaluation(
        log=LogSummary(
            n=total.totals.n,
            K=first.K,
            fingerprint=str(total.fingerprint),
            rows_fingerprint=total.fingerprint.of_rows,
            value=logged,
            stderr=logged_stderr,
            units=total.totals.units,
            sequential=options.sequential,
            position_weights=tuple(first.position_weights.tolist()),
        ),
        estimates=asked,
        recommended=run.recommended,
        comparisons=judged.comparisons,
        segments=judged.segments,
        diagnostics=_diagnostics(run, total, estimates, supports),
        behavior=_behavior(run.jobs),
        verdict=judged.verdict,
        planning={
            e.target: planning(e, run.probe, options, logged=logged, logged_stderr=logged_stderr)
            for e in _with_both_biases(chosen, run.baseline)
        },
        sensitivity={target: found for target, found in judged.ranges.items() if found is not None},
        audit=Audit() if options.audit is False else Audit(findings),
        skipped=run.skipped,
        provenance=manifest(
            options,
            fingerprint=str(total.fingerprint),
            estimators=list(dict.fromkeys(job.name for job in run.jobs if not job.silent)),
            command=command,
        ),
    )


def _with_both_biases(
    chosen: Sequence[tuple[Job, Estimate]], baseline: str | None
) -> list[Estimate]:
    """Return the estimates that are planned for; a lift over a policy has that one's bias as well."""
    base = next((e.allowance for _, e in chosen if e.target == baseline), 0.0)
    return [replace(e, allowance=e.allowance + base) for _, e in chosen if e.target != baseline]


def _logged(totals: RowTotals) -> tuple[float, float]:
    only = np.eye(len(totals.sums))[0]
    return float(totals.sums[0] / totals.n), float(np.sqrt(totals.variance(only)))


def _possible(run: Run, total: PassState, estimates: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """Return the estimates, without recommended values that no rewards of this log could add up to."""
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


def _weighing(run: Run, job: Job, one: Estimate, estimates: Sequence[Estimate]) -> Job:
    like = None if one.moments is not None else weighed_like(one, estimates)
    return job if like is None else run.jobs[like]


def _evidence(
    run: Run, pairs: Pairing, job: Job, one: Estimate, estimates: Sequence[Estimate],
    supported: Support | None, ranged: Sensitivity | None, findings: Sequence[Finding],
) -> TargetEvidence:  # fmt: skip
    # The same judges in the same order whatever was asked for: the panel is always run.
    ranks = {name: rank for rank, name in enumerate(PANEL)}
    order = sorted(
        (i for i, other in enumerate(run.jobs) if other is job or other.name in ranks),
        key=lambda i: ranks.get(run.jobs[i].name, -1),
    )
    jobs, found = [run.jobs[i] for i in order], [estimates[i] for i in order]
    like = weighed_like(one, found)
    lightest = _lightest(one.target, found)
    # What rests on no weights that were summed is judged by the lightest there are.
    others = lightest if like is None else found[like].moments
    return TargetEvidence(
        estimate=one,
        logged=_logged(pairs.totals)[0],
        units=pairs.totals.units,
        outcomes=pairs.effective_outcomes(job),
        rivals=rivals(one, found, jobs, pairs),
        lifts=[
            other.lift.value
            for other in found
            if other.target == one.target
            and other.estimator != one.estimator
            and parse(other.estimator).plain
            and other.estimable
            and usable(other)
        ],
        moments=one.moments if one.moments is not None else others,
        lightest=lightest,
        clustered=run.first.unit is not None,
        shared_contexts=run.shared_contexts,
        independent=run.options.independent_rows,
        borrowed=one.moments is None,
        # One position has no other items to be wrong about.
        assumption_free=run.first.K == 1
        or parse(one.basis).interactions(run.first.K) == run.first.K,
        unsupported=() if supported is None else supported.rare_share,
        practical=run.options.practical,
        estimated_propensity=has(run.first.notes, ESTIMATED),
        failed_audit=[
            finding
            for finding in findings
            if finding.status is FAILED and finding.target in (None, one.target)
        ],
        sign_changes_at=None if ranged is None else ranged.sign_changes_at,
        fresh=run.options.target_is_fresh,
        trained_until=run.options.target_trained_until,
    )


def _learned_from(first: RankingLog, target: str) -> str | None:
    """Return the fingerprint of the rows that a learned policy was learned from, where it says so."""
    return getattr(getattr(first.targets.get(target), "rule", None), "learned_from", None)


def _diagnostics(
    run: Run,
    total: PassState,
    estimates: Sequence[Estimate],
    supports: Mapping[str, Support | None],
) -> Diagnostics:
    found = {}
    tops = dict(zip(run.groups, total.tops, strict=True))
    for job, one in zip(run.jobs, estimates, strict=True):
        if one.moments is None or job.silent:
            continue
        found[f"{one.target}/{one.estimator}"] = weight_report(
            one.moments, support=supports[one.target], top=tops[job.plan.key]
        )
    asked = [one for job, one in zip(run.jobs, estimates, strict=True) if not job.silent]
    return Diagnostics(
        weights=found,
        order_path={target: path_of(target, asked) for target in run.options.targets},
        support={target: one for target, one in supports.items() if one is not None},
    )


def _behavior(jobs: Sequence[Job]) -> ForestDescription | None:
    """Return the first target's fitted trees in words; those of other targets are under `others`."""
    found: dict[str, ForestDescription] = {}
    for job in jobs:
        model = getattr(job.plan, "behavior_model", None)
        if job.target not in found and isinstance(model, BehaviorTree):
            found[job.target] = replace(model.describe(), target=job.target)
    if not found:
        return None
    first, *rest = found.values()
    return replace(first, others={one.target: one for one in rest})


#: Rows looked at where all of them are not needed: cuts of segments, support, exploration,
#: sensitivity.
PROBE_ROWS = 20_000
#: Rows at which sequential intervals are shortest when no number is given.
SEQUENTIAL_ROWS = 10_000


def evaluate(  # noqa: PLR0913
    log: LogLike,
    targets: Mapping[str, Probabilities | ArrayLike] | Sequence[str] | str | None = None,
    *,
    estimators: Sequence[str | Estimator] | str | None = None,
    position_weights: str | ArrayLike | None = None,
    level: float = 0.95,
    segments: Sequence[str] | str = (),
    seed: int = 0,
    practical: float | None = None,
    estimate_propensity: bool | str = False,
    audit: bool | None = None,
    time: str | None = None,
    independent_rows: bool = False,
    target_is_fresh: bool = False,
    target_trained_until: str | date | float | None = None,
    sequential: bool | int = False,
    item_groups: Sequence[str] | str = (),
    behavior_candidates: str | Sequence[str | ArrayLike | Candidate] | None = None,
    behavior_mse: str | MSEEstimate | None = None,
    weights_out: str | os.PathLike[str] | None = None,
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None = None,
    primary: str | None = None,
    guardrails: Sequence[str | Guardrail] | str = (),
    baseline: str | None = None,
    command: str | None = None,
    **reading: Unpack[OpenOptions],
) -> Evaluation:
    """Return what each target policy would have earned on this log, and how far to believe it.

    Parameters
    ----------
    log
        A `RankingLog`, a pandas, polars or pyarrow table, a path, a Spark or Dask frame, or a source.
    targets
        The policies to evaluate: names mapped to arrays, `Propensity` or `Policy`, or the names of
        columns of the log. None takes the targets that the log carries.
    estimators
        Names such as "ips" or "auto", or estimator objects. What is named must be able to run; of
        "all" and of the defaults, what cannot is listed under `skipped`.
    position_weights
        Weights of the positions in the value: K numbers, "uniform" or "dcg".
    level
        Confidence of the intervals.
    segments
        A column or several whose groups are estimated too; "tree" for those of the behaviour tree.
    seed
        Every random stream follows it.
    practical
        The smallest relative lift that matters, 0.01 for one per cent.
    estimate_propensity
        For logs without propensities: True, or the method: "plackett-luce", "logistic", "boosting",
        "frequency:COLUMNS", "by-list:COLUMNS".
    audit
        False leaves out the checks of the log on which the verdict does not rest.
    time
        The column with the time of each ranking.
    independent_rows
        Declares that no two rows belong to one visitor. Without this and without units the evidence
        is directional at best.
    target_is_fresh
        Declares that no target was trained on these rows. Without this or `target_trained_until` the
        evidence is directional at best.
    target_trained_until
        The last day, or time, of the rows that a target was trained on; only later rows count.
    sequential
        True gives intervals that hold at every look at a growing log; a number says at how many rows
        they should be shortest, the same at every look.
    item_groups
        Columns of the items (`items=FILE`) whose values make groups; weights then compare groups.
    behavior_candidates
        What the behaviour tree of "aips" may choose from: the name of a set such as "paper" or
        "generated", a JSON file, or a list of names, masks and candidates.
    behavior_mse
        What that tree minimises: "pairs" (the default), "pasif" or "su".
    weights_out
        A Parquet file to write the weights to, row by row, of every estimator that is weights alone.
    rewards
        Metrics by name: a reward of the log or a column, an expression such as "any(click)" or
        "revenue / click", or `page_metric(function, of=NAME)`. A log with named rewards has each of
        them as a metric already.
    primary
        The metric that decides; by default the first.
    guardrails
        What must not happen: "revenue >= -0.01" (a relative lift), "revenue >= -0.05 EUR" (absolute),
        "clicks by device >= -0.02".
    baseline
        The policy that lifts are against: the name of a target, or "logger" (the default).
    command
        Recorded in the result.
    **reading
        What the reader is told about a log that is not in memory yet: `columns`, `context`, `unit`,
        `logger`, `policies`, ... as in `counterrank.io.ReadOptions`; `format`; `engine`, "local",
        "dask" or "spark"; `where`, a condition that keeps some rows, "country = 'DE'".

    Returns
    -------
    Evaluation
        Estimates with intervals, lifts against the baseline, diagnostics and the verdict; with several
        metrics, what was found of each, the guardrails and the decision.

    Raises
    ------
    CounterrankError
        The log, a target or an option cannot be used; the message says where and what to do.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=[[.5, .5]] * 100)
    >>> result = cr.evaluate(log, {"new": [[.5, .5]] * 100}, estimators=["ips"])
    >>> result.estimate("new", "ips").value
    1.0
    """
    from counterrank.io import Where, opened

    kept = reading.get("where")
    metrics = metrics_of(log, rewards, primary, guardrails)
    segments = (segments,) if isinstance(segments, str) else tuple(segments)
    if metrics is not None:
        segments = tuple(dict.fromkeys([*segments, *metrics.columns]))
    groups = tuple(
        name.strip()
        for name in (item_groups.split(",") if isinstance(item_groups, str) else item_groups)
        if name.strip()
    )
    tree = planned_tree(behavior_candidates, behavior_mse)
    method = _method(estimate_propensity)
    later = None if target_trained_until is None else Later.of(target_trained_until, time)
    carried = tuple(
        dict.fromkeys(
            [*(s for s in segments if s != TREE), *_columns(method), *([time] if time else [])]
        )
    )
    if method is not None:
        reading.setdefault("require_propensity", False)
    wanted, custom = named(estimators)
    against_whom = None if baseline in (None, LOGGER) else baseline
    targets = with_baseline(targets, against_whom)
    beside = {} if metrics is None or is_read(log) else {"rewards": metrics.operands}
    with opened(
        log, targets, position_weights=position_weights, segments=carried, **beside, **reading
    ) as (source, names):
        check_baseline(against_whom, names)
        options = Options(
            names,
            wanted,
            level,
            segments,
            seed,
            practical,
            method,
            audit,
            time,
            independent_rows,
            _looks(sequential),
            target_is_fresh,
            None if later is None else later.until,
            groups,
            behavior_candidates
            if behavior_candidates is None or isinstance(behavior_candidates, str)
            else f"{len(behavior_candidates)} given",
            behavior_mse
            if behavior_mse is None or isinstance(behavior_mse, str)
            else behavior_mse.name,
            against_whom,
            {} if metrics is None else {one.name: one.text for one in metrics.every},
            None if metrics is None else metrics.primary,
            () if metrics is None else tuple(one.text for one in metrics.guardrails),
            where=None if kept is None else str(Where.of(kept)),
        )
        if later is not None:
            source = later_rows(source, later)
        if groups:
            source = mapped(source, grouping_of(source.first.item_features, groups))
        return evaluate_source(
            source, options, custom, command=command, tree=tree, weights_out=weights_out,
            metrics=metrics,
        )  # fmt: skip


def metrics_of(
    log: Any,
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None,
    primary: str | None,
    guardrails: Sequence[str | Guardrail] | str,
) -> Metrics | None:
    """Return the metrics that were asked for and those that a log in memory has by name.

    None for a log with one reward that nobody named.
    """
    known = (
        list(log.rewards if isinstance(log, RankingLog) else log.first.rewards)
        if is_read(log)
        else []
    )
    given: dict[str, str | tuple[PageFunction, str]] = {name: name for name in known}
    if rewards is not None:
        given |= dict(rewards) if isinstance(rewards, Mapping) else {name: name for name in rewards}
    if not given and primary is None and not guardrails:
        return None
    return Metrics.of(given or {SINGLE: SINGLE}, primary, guardrails)


def is_read(log: Any) -> bool:
    """Return whether a log has been opened, so that no option changes what it holds."""
    return isinstance(log, RankingLog) or (hasattr(log, "reduce") and hasattr(log, "first"))


def with_baseline(targets: Any, baseline: str | None) -> Any:
    """Return the targets with the baseline among them."""
    if baseline is None or targets is None:
        return targets
    if isinstance(targets, Mapping):
        return targets if baseline in targets else {**targets, baseline: baseline}
    names = (targets,) if isinstance(targets, str) else tuple(targets)
    return names if baseline in names else (*names, baseline)


def check_baseline(baseline: str | None, names: Sequence[str]) -> None:
    """Raise unless the baseline is a target, and not the only one."""
    if baseline is None:
        return
    if baseline not in names:
        raise ConfigError(
            f"the baseline '{baseline}' is no target of this log{suggestion(baseline, names)}; targets "
            f"are {', '.join(names)}, and '{LOGGER}' is the policy that served the log"
        )
    if len(names) == 1:
        raise ConfigError(
            f"the baseline '{baseline}' is the only target; name another one to compare with it"
        )


def evaluate_source(
    source: Source,
    options: Options,
    custom: Mapping[str, Estimator] | None = None,
    *,
    command: str | None = None,
    tree: BehaviorTree | None = None,
    weights_out: str | os.PathLike[str] | None = None,
    metrics: Metrics | None = None,
) -> Evaluation:
    """Return the evaluation of a source that knows its targets by name."""
    replicas: Sequence[Source] = ()
    if options.estimate_propensity is not None:
        from counterrank.propensity_models import estimated_source

        source, replicas = estimated_source(
            source, options.estimate_propensity, targets=options.targets, seed=options.seed
        )
    return evaluate_metrics(
        source, replicas, options, custom or {}, metrics=metrics, command=command, tree=tree,
        weights_out=weights_out,
    )  # fmt: skip


def evaluate_metrics(
    source: Source, replicas: Sequence[Source], options: Options, custom: Mapping[str, Estimator], *,
    metrics: Metrics | None, command: str | None, tree: BehaviorTree | None,
    weights_out: str | os.PathLike[str] | None,
) -> Evaluation:  # fmt: skip
    """Return the evaluation of every metric: read, weighed, audited and drawn from once."""
    single = metrics is None
    metrics = Metrics.of({SINGLE: SINGLE}) if metrics is None else metrics
    if not single:
        source = SampledOnce(source)
    measures = [_unchanged] if single else [_measuring(measure) for measure in metrics.measures]
    runs = [
        Run(
            source if single else MappedSource(source, change),
            options,
            primary=index == 0,
            logged=measure.function is None,
        )
        for index, (measure, change) in enumerate(zip(metrics.measures, measures, strict=True))
    ]
    first = runs[0]
    asked = [parse(name) for name in options.estimators]
    by_model = bool(asked) and all(name.model_alone for name in asked)
    # Before anything is fitted: without any exploration there are no weights, and no pass would
    # help.
    refuse_deterministic(first.first, lambda: first.probe, options.targets, by_model=by_model)
    # A short log shows before anything is fitted that a metric does not vary, a long one in the pass.
    if not single and (source.n or PROBE_ROWS + 1) <= PROBE_ROWS:
        probe = source.sample(PROBE_ROWS, np.random.default_rng(options.seed))
        refuse_constant(probe, metrics.measures)
    for run, measure in zip(runs, metrics.measures, strict=True):
        try:
            run.prepare(custom, tree)
        except CounterrankError as problem:
            raise problem if run.primary else problem.about(f"metric '{measure.text}'") from None
    if weights_out is not None:
        refuse_weights(first.jobs, weights_out)
    total = _sums(runs, measures, source)
    if not single:
        _refuse_flat(total, metrics)
    estimates = [run.estimates(part) for run, part in zip(runs, total.parts, strict=True)]
    if replicas:
        # The same plans on resampled units whose propensities were estimated anew.
        sums = [_sums(runs, measures, one, label="bootstrap", segments=False) for one in replicas]
        estimates = [
            inflated(found, [run.estimates(one.parts[index]) for one in sums])
            for index, (run, found) in enumerate(zip(runs, estimates, strict=True))
        ]
    result = _finish(runs, total, estimates, metrics, command)
    if weights_out is not None:
        write_weights(first.source, first.jobs, weights_out)
    return result


def _finish(
    runs: Sequence[Run],
    total: JointState,
    estimates: Sequence[tuple[Estimate, ...]],
    metrics: Metrics,
    command: str | None,
) -> Evaluation:
    """Return the evaluation: that of the primary, with every metric, guardrails and the decision."""
    first, options = runs[0], runs[0].options
    findings = first.findings(total.parts[0])
    supports = {target: support(first.probe, target) for target in options.targets}
    found: dict[Measure, Estimated] = {}
    for run, part, own, measure in zip(runs, total.parts, estimates, metrics.measures, strict=True):
        timed = tuple(at_any_time(one, options.looks) for one in own)
        about = findings if run is first else [
            *(one for one in findings if one.check not in REWARD_FINDINGS), *run.findings(part)
        ]  # fmt: skip
        judged = judge(run, part, timed, about, supports)
        if run is first:
            whole = assemble(run, part, judged, findings, supports, command=command)
        found[measure] = Estimated(
            measure, run.jobs, judged.estimates, run.recommended, run.states(part),
            [group[0].plan.key for group in run.main], run.first.page_reward,
            _no_better(judged.verdict, run.baseline), judged.segments, judged.comparisons,
            run.skipped, run.group_estimates(part),
        )  # fmt: skip
    all_of = Together.of(
        found, total.totals, options.targets, first.baseline, options.level, options.looks
    )
    results = metric_results(metrics, all_of)
    rails = guardrail_results(metrics, results, all_of)
    primary = next(one for one in results if one.primary)
    if options.rewards:
        whole = whole.called(reward=primary.name)
    return replace(
        whole,
        verdict=primary.verdict,
        metrics=results,
        guardrails=rails,
        decision=decision(metrics, primary, rails, all_of),
        baseline=first.baseline or LOGGER,
        correlations=correlations(metrics, all_of) if len(results) > 1 else {},
    )


def _no_better(found: Verdict, baseline: str | None) -> Verdict:
    """Return a verdict in which no target is better known than the baseline it is compared with."""
    if baseline is None:
        return found
    base = found.of(baseline)
    levels = {target: weakest(level, base) for target, level in found.targets.items()}
    more = "".join(
        f" The evidence on '{target}' is no better than that on the baseline '{baseline}', {base}."
        for target, level in levels.items()
        if level != found.of(target)
    )
    lowest = weakest(*levels.values())
    return replace(found, level=lowest, targets=levels, summary=found.summary + more)


def _unchanged(batch: RankingLog) -> RankingLog:
    return batch


def _measuring(measure: Measure) -> Callable[[RankingLog], RankingLog]:
    return partial(measured, measure=measure)


def _sums(
    runs: Sequence[Run], measures: Sequence[Callable[[RankingLog], RankingLog]], source: Source, *,
    label: str = "estimating", segments: bool = True,
) -> JointState:  # fmt: skip
    """Return the sums of every measure over all rows of a source."""
    passes = [run.passing(segments=segments) for run in runs]
    return source.reduce(JointPass(passes, measures), label=label)


def _refuse_flat(total: JointState, metrics: Metrics) -> None:
    """Raise where a measure was the same in every ranking."""
    for part, measure in zip(total.parts, metrics.measures, strict=True):
        if part.totals.n > 1 and _logged(part.totals)[1] == 0.0:
            raise constant(measure.text, float(part.totals.sums[0] / part.totals.n))


def _squarable(batch: RankingLog) -> RankingLog:
    refuse_scale(batch.reward, small=False)
    return batch


class _Looked(MappedSource):
    """A source that refuses rewards which cannot be squared as soon as it meets them."""

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return a sample that models can be fitted on."""
        found = super().sample(rows, rng)
        # A batch may hold small rewards only; so many rows of a log that also has others do not.
        refuse_scale(found.reward)
        return found


@dataclass
class Run:
    """One evaluation under way: the source, what will run on it, and a sample of rows to look at."""

    source: Source
    options: Options
    #: Whether this is the reward that everything is said of.
    primary: bool = True
    #: Whether it is a column of the log, not a function of one: then its numbers are audited.
    logged: bool = True
    jobs: Sequence[Job] = ()
    skipped: tuple[Skipped, ...] = ()
    auditor: Auditor | None = None
    cuts: Sequence[Cut] = ()

    @cached_property
    def first(self) -> RankingLog:
        """A small batch."""
        return self.source.first

    @property
    def baseline(self) -> str | None:
        """The policy that lifts are over; None: the logger."""
        return self.options.baseline

    @cached_property
    def probe(self) -> RankingLog:
        """A sample of rows; the same for the same seed."""
        return self.source.sample(PROBE_ROWS, np.random.default_rng(self.options.seed))

    @cached_property
    def shared_contexts(self) -> int | None:
        """How many contexts rows share although nearly each has a unit of its own."""
        # A sample is a pass over a log that does not fit: only where the start gives reason to ask.
        return shared_contexts(self.probe) if units_are_rows(self.first) else None

    @cached_property
    def groups(self) -> dict[Hashable, list[Job]]:
        """The jobs by shared state."""
        return grouped(self.jobs)

    @cached_property
    def recommended(self) -> dict[str, str]:
        """The recommended estimator of each target."""
        return recommended(self.jobs)

    @cached_property
    def main(self) -> list[list[Job]]:
        """The groups with a recommended estimator, for which segments are summed."""
        return [
            group
            for group in self.groups.values()
            if any(self.recommended[j.target] == j.name for j in group)
        ]

    def prepare(self, custom: Mapping[str, Estimator], tree: BehaviorTree | None = None) -> None:
        """Fit what needs fitting, and get the audit ready for the pass."""
        if isinstance(self.source, MemorySource):
            refuse_scale(self.probe.reward)
        else:
            # A sample of a file is a pass over it: no look of our own before the larger one that a tree
            # or a model is fitted on, of which it is then a part.
            self.source = _Looked(self.source, _squarable)
        self.jobs, self.skipped = make_jobs(
            self.source, self.options, custom, tree, required=self.primary
        )
        self.cuts = cuts_of(
            self.options.segments, lambda: self.probe, [job.plan for job in self.jobs]
        )
        columns = [name for name in self.options.segments if name != TREE]
        self.auditor = auditor_of(
            self.source, self.probe, self.options.targets, segments=columns or None, time=self.options.time,
            checks=self._checks(),
            weighed=not weightless(job.name for job in self.jobs),
        )  # fmt: skip

    def _checks(self) -> tuple[Check, ...]:
        """Return what the audit looks at: of a further reward, only that reward."""
        if not self.primary:
            return OF_REWARDS if self.logged else ()
        return VITAL if self.options.audit is False else CHECKS

    def findings(self, total: PassState) -> list[Finding]:
        """Return what the audit found in the same pass."""
        assert self.auditor is not None
        return self.auditor.finish(total.audit)

    def passing(self, *, segments: bool = True) -> Pass:
        """Return the function that sums over batches."""
        cuts, auditor = (self.cuts, self.auditor) if segments else ((), None)
        by_unit = self.first.unit is not None
        return Pass(
            list(self.groups.values()), self.main, cuts, by_unit, auditor,
            self.baseline is not None, self.primary,
        )  # fmt: skip

    def group_estimates(self, total: PassState) -> dict[tuple[str, str, str], Estimate]:
        """Return the recommended estimates by target, column and label of a group."""
        found = group_estimates(
            total, self.main, self.recommended, self.options.looks, self.baseline
        )
        return {(job.target, *key): one for job, rows in found for key, one in rows.items()}

    def states(self, total: PassState) -> dict[Hashable, Any]:
        """Return the state of each plan key."""
        return dict(zip(self.groups, total.states, strict=True))

    def estimates(self, total: PassState) -> tuple[Estimate, ...]:
        """Return the estimate of each job, also of jobs that were not asked for.

        The latter cannot stop the evaluation.
        """
        states = self.states(total)
        notes = self.first.notes
        found = tuple(
            _finished(job, states[job.plan.key], notes, total.totals.n) for job in self.jobs
        )
        if self.baseline is None:
            return found
        return against(self.jobs, found, pairing(self.jobs, states, total.totals), self.baseline)


def _finished(job: Job, state: Any, notes: tuple[str, ...], n: int) -> Estimate:
    try:
        estimate = job.plan.estimate(state)
    except CounterrankError as problem:
        if not job.silent:
            raise
        return nothing_known(job.target, job.name, n, str(problem))
    return replace(estimate, estimator=job.name, flags=(*notes, *estimate.flags))


def _looks(given: bool | int) -> int | None:
    if isinstance(given, bool):
        return SEQUENTIAL_ROWS if given else None
    return given


def _method(given: bool | str) -> str | None:
    if isinstance(given, bool):
        return "auto" if given else None
    return given


def _columns(method: str | None) -> list[str]:
    return [part for part in (method or "").partition(":")[2].split(",") if part]
