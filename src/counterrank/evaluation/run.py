"""evaluate(): fit what must be fitted, pass over the log once for everything, assemble the result."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.checks import (
    REWARD_FINDINGS,
    Audit,
    Coverage,
    answers_of,
    concluded,
)
from counterrank.data.columns import Segmentation, segmentation
from counterrank.data.log import Probabilities, RankingLog
from counterrank.data.source import SampledOnce, Source
from counterrank.data.validation import no_weight
from counterrank.errors import ConfigError, CounterrankError, LogError
from counterrank.estimators import Estimator
from counterrank.estimators.behavior import (
    BehaviorTree,
    ForestDescription,
    planned_tree,
)
from counterrank.estimators.weights.diagnostics import Support, weight_report
from counterrank.evaluation.comparing import PairedEstimate, inflated, path_of
from counterrank.evaluation.exploration import (
    plan_for,
    refuse_deterministic,
    support,
)
from counterrank.evaluation.freshness import Later, later_rows
from counterrank.evaluation.jobs import Job, named
from counterrank.evaluation.partly_scored import on_scored_rows
from counterrank.evaluation.passing import JointState, Pass
from counterrank.evaluation.provenance import Options, manifest
from counterrank.evaluation.result import LOGGER, Diagnostics, Evaluation, LogSummary, SamplePlan
from counterrank.evaluation.rewards import PROBE_ROWS, JudgedReward, RewardRun, judge
from counterrank.evaluation.segments import SegmentContext
from counterrank.evaluation.several import (
    MetricSet,
    decided,
    guardrail_results,
    metric_results,
)
from counterrank.evaluation.weighing import refuse_weights, write_weights
from counterrank.io import Where, opened
from counterrank.metrics import (
    Guardrail,
    Metrics,
    PageFunction,
)
from counterrank.options import LEVEL, SEED, Request
from counterrank.statistics import mean, means_of
from counterrank.texts import suggestion

if TYPE_CHECKING:
    from counterrank.io import LogLike

#: Rows at which sequential intervals are shortest when no number is given.
SEQUENTIAL_ROWS = 10_000


def evaluate(  # noqa: PLR0913
    log: LogLike,
    targets: Mapping[str, Probabilities | ArrayLike] | Sequence[str] | str | None = None,
    *,
    estimators: Sequence[str | Estimator] | str | None = None,
    position_weights: str | ArrayLike | None = None,
    level: float = LEVEL,
    segments: Sequence[str] | str = (),
    seed: int = SEED,
    audit: bool | None = None,
    independent_rows: bool = False,
    target_is_fresh: bool = False,
    weights_out: str | os.PathLike[str] | None = None,
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None = None,
    primary: str | None = None,
    guardrails: Sequence[str | Guardrail] | str = (),
    baseline: str | None = None,
    **more: Any,
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
        A column or several whose groups are estimated too.
    seed
        Every random stream follows it.
    audit
        False leaves out the checks of the log on which the verdict does not rest.
    independent_rows
        Declares that no two rows belong to one visitor. Without this and without units the evidence
        is directional at best.
    target_is_fresh
        Declares that no target was trained on these rows. Without this or `target_trained_until` the
        evidence is directional at best.
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
        "clicks by device >= -0.02" in every group, "clicks where device = 'mobile' >= -0.02" in one.
    baseline
        The policy that lifts are against: the name of a target, or "logger" (the default).
    **more
        Rarely needed, each by its name: `practical`, the smallest relative lift that matters, 0.01 for
        one per cent; `time`, the column with the time of each ranking; `target_trained_until`, the
        last day or time of the rows that a target was trained on, so that only later rows count;
        `accept`, answers to questions of the audit, 'CODE where CONDITION' each, or with a reason,
        {"code": ..., "where": ..., "reason": ...};
        `sequential`, True for intervals that hold at every look at a growing log, or the number of rows
        at which they are shortest; `estimate_propensity`, for logs without propensities, True or
        "plackett-luce", "logistic", "by-list:COLUMNS";
        `behavior_candidates` and `behavior_mse`, what the behaviour tree of "aips" may choose
        from and minimises, as in `BehaviorTree`; `command`, recorded in the result.
        And what the reader is told about a log that is not in memory yet: `columns`, `context`, `unit`,
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
    # Every argument but the log is a field of the request.
    given = {name: one for name, one in locals().items() if name not in ("log", "more")}
    request = Request.of(**given, **more)
    reading, time, where = request.reading(), request.time, request.where
    behavior, mse = request.behavior_candidates, request.behavior_mse
    if (events := request.events) is not None:
        reading["events"] = events = events.seen_at(time)
        rewards = events.beside(rewards)
    metrics = metrics_of(log, rewards, primary, guardrails)
    segments = (segments,) if isinstance(segments, str) else tuple(segments)
    segments = tuple(dict.fromkeys([*segments, *metrics.columns]))
    tree = None if behavior is None and mse is None else planned_tree(behavior, mse)
    learned, sequential = request.estimate_propensity, request.sequential
    method = "auto" if learned is True else learned or None
    until = request.target_trained_until
    later = None if until is None else Later.of(until, time)
    of_method = [name for name in (method or "").partition(":")[2].split(",") if name]
    carried = [*segments, *of_method, *([time] if time else [])]
    if method is not None:
        reading.setdefault("require_propensity", False)
    wanted, custom = named(estimators)
    base = None if baseline == LOGGER else baseline
    beside = {"rewards": metrics.operands} if metrics.named and not is_read(log) else {}
    with _calling_baseline(base), opened(
        log, with_baseline(targets, base), position_weights=position_weights,
        segments=tuple(dict.fromkeys(carried)), **beside, **reading,
    ) as (source, names):  # fmt: skip
        check_baseline(base, names)
        known = {
            "targets": names,
            "estimators": wanted,
            "segments": segments,
            "estimate_propensity": method,
            "sequential": SEQUENTIAL_ROWS if sequential is True else sequential or None,
            "target_trained_until": None if later is None else later.until,
            "baseline": base,
            "rewards": {one.name: one.text for one in metrics.all_metrics} if metrics.named else {},
            "primary": metrics.primary if metrics.named else None,
            "guardrails": tuple(one.text for one in metrics.guardrails),
            "where": None if where is None else str(Where.of(where)),
            "accept": answers_of(request.accept),
            "events": {} if events is None else events.said,
        }
        options = Options(**{**vars(request), **known})
        if method is not None:
            no_weight(source.first, "models of propensities")

        def work(
            rows: Source, members: tuple[str, ...], coverages: Sequence[Coverage]
        ) -> Evaluation:
            rows = rows if later is None else later_rows(rows, later)
            rows = SegmentContext.added(rows, segments) if segments else rows
            chosen = replace(options, targets=members)
            return _evaluated(
                rows, chosen, custom, metrics, tree, weights_out, request.command, coverages
            )

        # Weights are written by row: one file has the rows of all targets.
        return on_scored_rows(source, names, base, work, together=weights_out is not None)


def _evaluated(
    source: Source,
    options: Options,
    custom: Mapping[str, Estimator],
    metrics: Metrics,
    tree: BehaviorTree | None,
    weights_out: str | os.PathLike[str] | None,
    command: str | None,
    coverages: Sequence[Coverage],
) -> Evaluation:
    """Return the evaluation of every metric: the log is read, weighed, audited and drawn from once."""
    replicas: Sequence[Source] = ()
    if options.estimate_propensity is not None:
        from counterrank.propensity_models import estimated_source

        source, replicas = estimated_source(
            source, str(options.estimate_propensity), targets=options.targets, seed=options.seed
        )
    if metrics.named:
        source = SampledOnce(source)
    runs = [
        RewardRun(source, options, measure, index == 0, metrics.named)
        for index, measure in enumerate(metrics.measures)
    ]
    first = runs[0]
    # Before anything is fitted: without any exploration there are no weights, and no pass would
    # help.
    refuse_deterministic(first.first, lambda: first.probe, options)
    _prepare(runs, custom, tree)
    if weights_out is not None:
        refuse_weights(first.jobs, weights_out)
    cuts = [segmentation(first.probe, name) for name in options.segments]
    total = source.reduce(_pass(runs, cuts), label="estimating")
    for run, part in zip(runs if metrics.named else (), total.parts, strict=False):
        run.refuse_constant(mean(part.totals, 0))
    found = [run.estimates(part) for run, part in zip(runs, total.parts, strict=True)]
    if replicas:
        # The same plans on resampled units whose propensities were estimated anew.
        again = _pass(runs)
        sums = [one.reduce(again, label="bootstrap") for one in replicas]
        for index, run in enumerate(runs):
            others = [run.estimates(one.parts[index]) for one in sums]
            found[index] = [
                replace(one, estimate=inflated(one.estimate, [other.estimate for other in rest]))
                for one, *rest in zip(found[index], *others, strict=True)
            ]
    result = _finish(runs, total, found, metrics, command, coverages)
    if weights_out is not None:
        write_weights(first.source, first.jobs, weights_out)
    return result


def _prepare(
    runs: Sequence[RewardRun], custom: Mapping[str, Estimator], tree: BehaviorTree | None
) -> None:
    """Fit what needs fitting. A short log shows before that a metric does not vary, a long one in the pass."""
    for run in runs:
        if run.named and (run.source.n or PROBE_ROWS + 1) <= PROBE_ROWS:
            some = run.source.sample(PROBE_ROWS, np.random.default_rng(run.options.seed))
            run.refuse_constant(*means_of([some.reward @ some.position_weights], None))
    for run in runs:
        try:
            run.prepare(custom, tree, runs[0])
        except CounterrankError as problem:
            about = f"metric '{run.measure.text}'"
            raise problem if run.primary else problem.about(about) from None


def _pass(runs: Sequence[RewardRun], cuts: Sequence[Segmentation] | None = None) -> Pass:
    """Return the pass over all rewards; without segments and audit where no cuts are given."""
    rewards = [run.passing(audited=cuts is not None) for run in runs]
    paired = runs[0].options.baseline is not None
    return Pass(rewards, cuts or (), runs[0].first.summed_by_unit, paired)


def _finish(
    runs: Sequence[RewardRun],
    total: JointState,
    found: Sequence[Sequence[PairedEstimate]],
    metrics: Metrics,
    command: str | None,
    coverages: Sequence[Coverage],
) -> Evaluation:
    """Return the evaluation: that of the primary, with every metric, guardrails and the decision."""
    first, options = runs[0], runs[0].options
    checked = [
        *first.findings(total.parts[0]),
        *(finding for one in coverages for finding in one.findings()),
    ]
    findings = concluded(checked, options.accept)
    supports = {target: support(first.probe, target) for target in options.targets}
    judged = []
    for run, part, own in zip(runs, total.parts, found, strict=True):
        about = findings if run is first else concluded(
            [*(one for one in checked if one.code not in REWARD_FINDINGS), *run.findings(part)],
            options.accept,
        )  # fmt: skip
        judged.append(judge(run, part, own, about, supports))
    metric_set = MetricSet.of(metrics, judged, total.totals, options)
    results = metric_results(metric_set)
    rails = guardrail_results(metric_set, results)
    primary = next(one for one in results if one.primary)
    main, state, log = judged[0], total.parts[0], first.first
    summary = LogSummary(
        n=state.totals.n,
        K=log.K,
        fingerprint=str(state.fingerprint),
        rows_fingerprint=state.fingerprint.of_rows,
        value=primary.value,
        stderr=primary.stderr,
        units=state.totals.visitors,
        sequential=options.sequential,
        position_weights=tuple(log.position_weights.tolist()),
        words={"reward": primary.name} if options.rewards else {},
        events={} if log.events is None else log.events.to_dict(),
        scores=[joined.to_dict() for joined in log.scores],
    )
    return Evaluation(
        log=summary,
        estimates=main.shown,
        recommended=primary.recommended,
        comparisons=main.comparisons,
        segments=main.segments,
        diagnostics=_diagnostics(main, supports),
        behavior=_behavior(first.jobs),
        verdict=primary.verdict,
        planning=_plans(main, summary),
        sensitivity=main.ranges,
        audit=Audit() if options.audit is False else Audit(findings),
        skipped=first.skipped,
        provenance=manifest(
            options,
            fingerprint=summary.fingerprint,
            estimators=list(dict.fromkeys(job.name for job in first.jobs if not job.silent)),
            command=command,
        ),
        metrics=results,
        guardrails=rails,
        decision=decided(primary, rails, metric_set),
        baseline=options.baseline or LOGGER,
    )


def _plans(judged: JudgedReward, log: LogSummary) -> dict[str, SamplePlan]:
    """Return detectable lifts, rows needed and A/B traffic of each target but the baseline."""
    options = judged.run.options
    base = options.baseline
    # A lift over a policy has that one's bias as well.
    more = 0.0 if base is None else judged.recommended[base].estimate.allowance
    planned = [one.estimate for target, one in judged.recommended.items() if target != base]
    return {
        one.target: plan_for(
            one.n, one.lift.stderr, logged=log.value, logged_stderr=log.stderr, level=options.level,
            practical=options.practical, allowance=one.allowance + more,
        )
        for one in planned
    }  # fmt: skip


def _diagnostics(judged: JudgedReward, supports: Mapping[str, Support | None]) -> Diagnostics:
    run = judged.run
    paths = {target: path_of(target, judged.shown) for target in run.options.targets}
    tops = dict(zip(run.groups, judged.state.tops, strict=True))
    reports = {
        f"{one.job.target}/{one.job.name}": weight_report(
            moments, support=supports[one.job.target], top=tops[one.job.plan.key]
        )
        for one in judged.found
        if (moments := one.estimate.moments) is not None and not one.job.silent
    }
    return Diagnostics(
        weights=reports,
        order_path=paths,
        support={target: one for target, one in supports.items() if one is not None},
    )


def _behavior(jobs: Sequence[Job]) -> ForestDescription | None:
    """Return the first target's fitted trees in words; those of other targets are under `others`."""
    found: dict[str, ForestDescription] = {}
    for job in jobs:
        model = job.plan.behavior_model
        if job.target not in found and model is not None:
            found[job.target] = replace(model.describe(), target=job.target)
    if not found:
        return None
    first, *rest = found.values()
    return replace(first, others={one.target: one for one in rest})


def metrics_of(
    log: Any,
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None,
    primary: str | None,
    guardrails: Sequence[str | Guardrail] | str,
) -> Metrics:
    """Return the metrics that the user named and those that a log in memory has by name."""
    known = getattr(log, "first", log).rewards if is_read(log) else ()
    return Metrics.requested(known, rewards, primary, guardrails)


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


@contextmanager
def _calling_baseline(name: str | None) -> Iterator[None]:
    """Call a policy that the log lacks the baseline, where it is that; the reader knows targets alone."""
    try:
        yield
    except LogError as problem:
        asked = rf"the target policy {re.escape(str(name))}(?=[ ,])"
        said = re.sub(asked, lambda _: f"the baseline {name}", problem.said)
        if said == problem.said:
            raise
        raise LogError(said, remedy=problem.remedy) from None


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
