"""evaluate(): fit what must be fitted, pass over the log once for everything, assemble the result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from counterrank.checks import (
    REWARD_FINDINGS,
    Audit,
    Coverage,
    concluded,
)
from counterrank.common.blas import single_blas_thread
from counterrank.common.errors import ConfigError
from counterrank.common.options import LEVEL, SEED, FurtherOptions, Request
from counterrank.common.texts import suggestion
from counterrank.data.columns import segmentation
from counterrank.data.log import Probabilities
from counterrank.data.source import SampledOnce, Source, reporter
from counterrank.data.validation import no_weight
from counterrank.estimators import Estimator, logged
from counterrank.estimators.behavior import (
    ForestDescription,
)
from counterrank.estimators.weights.diagnostics import Support, weight_report
from counterrank.evaluation.comparisons import path_of
from counterrank.evaluation.exploration import (
    plan_for,
    refuse_deterministic,
    support,
)
from counterrank.evaluation.fit import (
    Fit,
    fit_metrics,
    probe_of,
    refuse_constant,
    sampled_rows,
)
from counterrank.evaluation.freshness import later_rows
from counterrank.evaluation.judge import Judgement, judge
from counterrank.evaluation.metric_table import (
    MetricTable,
    decided,
    guardrail_results,
    metric_results,
)
from counterrank.evaluation.partly_scored import on_scored_rows
from counterrank.evaluation.request import Options, provenance_of, ready_made
from counterrank.evaluation.result import (
    LOGGER,
    Diagnostics,
    Evaluation,
    LogSummary,
    SamplePlan,
)
from counterrank.evaluation.solve import Table, solve
from counterrank.evaluation.sweep import Sweep, SweepSums
from counterrank.evaluation.weights_file import refuse_weights, write_weights
from counterrank.io import opened
from counterrank.metrics import (
    Guardrail,
    Metrics,
    PageFunction,
)
from counterrank.policies import Scored

if TYPE_CHECKING:
    from counterrank.io import LogLike


@single_blas_thread
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
    **further: Unpack[FurtherOptions],
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
    **further
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
    keywords = {name: value for name, value in locals().items() if name not in ("log", "further")}
    request = Request.from_keywords(**keywords, **further)
    reading, base = request.reading(), None if baseline == LOGGER else baseline
    metrics = Metrics.requested(log, reading, rewards, primary, guardrails, request.time)
    options = Options.of_request(request, metrics, reading.get("events"))
    if options.estimate_propensity is not None:
        reading.setdefault("require_propensity", False)
    with opened(
        log,
        with_baseline(targets, base),
        position_weights=position_weights,
        segments=options.carried,
        baseline=base,
        **reading,
    ) as (source, names):
        check_baseline(base, names)
        if options.estimate_propensity is not None:
            no_weight(source.first, "models of propensities")
        options = replace(options, targets=names)
        metrics = metrics.of_log(source.first.rewards)
        work = partial(_evaluated, metrics, ready_made(estimators))
        policies = source.first.targets
        if any(isinstance(policies.get(name), Scored) for name in names):
            return on_scored_rows(source, options, work)
        return work(source, options)


def _evaluated(
    metrics: Metrics,
    estimators: Mapping[str, Estimator],
    source: Source,
    options: Options,
    coverages: Sequence[Coverage] = (),
) -> Evaluation:
    """Return the evaluation of every metric: estimators are fitted, the log is read once, and the sums are solved."""
    if options.later is not None:
        source = later_rows(source, options.later)
    replicas: Sequence[Source] = ()
    if options.estimate_propensity is not None:
        from counterrank.propensity_models import estimated_source

        source, replicas = estimated_source(
            source, str(options.estimate_propensity), targets=options.targets, seed=options.seed
        )
    source = SampledOnce(source, sampled_rows(options, estimators))
    # Before anything is fitted: without any exploration there are no weights, and no pass would
    # help.
    refuse_deterministic(source.first, lambda: probe_of(source, options.seed), options, estimators)
    fits = fit_metrics(source, options, metrics, estimators)
    source.release()
    first = fits[0]
    if options.weights_out is not None:
        refuse_weights(first.fits, options.weights_out)
    sweep = Sweep(
        fits,
        [segmentation(first.probe, name) for name in options.segments],
        first.first.summed_by_unit,
        options.baseline is not None,
    )
    swept = source.reduce(sweep, label="estimating")
    for metric_fits in fits if metrics.named else ():
        refuse_constant(metric_fits.measure, swept.all_rows.sums.mean(logged(metric_fits.metric)))
    # The same fits on resampled units whose propensities were estimated anew.
    unchecked = replace(sweep, cuts=(), checked=False)
    resampled = [replica.reduce(unchecked, label="bootstrap") for replica in replicas]
    reporter().begin("judging", None)
    result = _result(solve(fits, swept, options, resampled), swept, metrics, options, coverages)
    if options.weights_out is not None:
        write_weights(first.source, first.fits, options.weights_out)
    return result


def _result(
    table: Table,
    swept: SweepSums,
    metrics: Metrics,
    options: Options,
    coverages: Sequence[Coverage],
) -> Evaluation:
    """Return the evaluation: that of the primary, with every metric, guardrails and the decision."""
    first, summary = table.metrics[0], _log_summary(table, swept, metrics, options)
    checked_rows = [
        *first.auditor.finish(swept.tallies[0]),
        *(finding for coverage in coverages for finding in coverage.findings()),
    ]
    findings = concluded(checked_rows, options.accept)
    supports = {target: support(first.probe, target) for target in options.targets}
    judgements = {}
    for fits, tallies in zip(table.metrics, swept.tallies, strict=True):
        told = findings
        if not fits.primary:
            of_log = [finding for finding in checked_rows if finding.code not in REWARD_FINDINGS]
            of_reward = fits.auditor.finish(tallies)
            told = concluded([*of_log, *of_reward], options.accept)
        judgements[fits.measure] = judge(fits, table, told, supports, options, summary)
    metric_table = MetricTable(metrics, table, judgements, options)
    results = metric_results(metric_table)
    rails = guardrail_results(metric_table, results)
    primary = next(result for result in results if result.primary)
    main = judgements[first.measure]
    return Evaluation(
        log=summary,
        metrics=results,
        diagnostics=_diagnostics(main, swept, supports),
        behavior=_behavior(first.fits),
        planning=_plans(main, summary, options),
        sensitivity=main.ranges,
        audit=Audit() if options.audit is False else Audit(findings),
        provenance=provenance_of(
            options,
            summary.fingerprint,
            # What was asked for, in order.
            list(dict.fromkeys(fit.name for fit in first.fits if not fit.diagnostic_only)),
        ),
        guardrails=rails,
        decision=decided(primary, rails, metric_table),
        baseline=options.baseline or LOGGER,
    )


def _log_summary(table: Table, swept: SweepSums, metrics: Metrics, options: Options) -> LogSummary:
    """Return the log that was evaluated, and what its own policy earned of the primary."""
    first = table.metrics[0]
    log, earned = first.first, table.metric(metrics.metric(metrics.primary), None)
    assert swept.fingerprint is not None
    ends = [swept.period.low, swept.period.high] if swept.period else []
    return LogSummary(
        n=table.sums.rows.n,
        K=log.K,
        fingerprint=str(swept.fingerprint),
        rows_fingerprint=swept.fingerprint.of_rows,
        value=earned.value,
        stderr=earned.stderr,
        units=table.units,
        sequential=options.sequential,
        position_weights=tuple(log.position_weights.tolist()),
        words={"reward": metrics.primary} if options.rewards else {},
        shorter=bool((first.probe.lengths < log.K).any()),
        events={} if log.events is None else log.events.to_dict(),
        scores=[joined.to_dict() for joined in log.scores],
        period=tuple(str(np.datetime64(int(end), "s")) for end in ends),
    )


def _plans(judgement: Judgement, log: LogSummary, options: Options) -> dict[str, SamplePlan]:
    """Return detectable lifts, rows needed and A/B traffic of each target but the baseline."""
    base, estimates = options.baseline, judgement.recommended
    # A lift over a policy has that one's bias as well.
    of_baseline = 0.0 if base is None else estimates[base].allowance
    return {
        target: plan_for(
            estimate.n,
            estimate.lift.stderr,
            logged=log.value,
            logged_stderr=log.stderr,
            level=options.level,
            practical=options.practical,
            allowance=estimate.allowance + of_baseline,
        )
        for target, estimate in estimates.items()
        if target != base
    }


def _diagnostics(
    judgement: Judgement, swept: SweepSums, supports: Mapping[str, Support | None]
) -> Diagnostics:
    """Return the weights behind each estimate, the path of interaction orders, and the logger's support."""
    shown = {
        fit: estimate for fit, estimate in judgement.estimates.items() if not fit.diagnostic_only
    }
    reports = {
        f"{fit.target}/{fit.name}": weight_report(
            moments, support=supports[fit.target], top=swept.tops.get(fit.fitted.mean_of)
        )
        for fit, estimate in shown.items()
        if (moments := estimate.moments) is not None
    }
    return Diagnostics(
        weights=reports,
        order_path={target: path_of(target, shown) for target in judgement.recommended},
        support={
            target: supported for target, supported in supports.items() if supported is not None
        },
    )


def _behavior(fits: Sequence[Fit]) -> ForestDescription | None:
    """Return the first target's fitted trees in words; those of other targets are under `others`."""
    described: dict[str, ForestDescription] = {}
    for fit in fits:
        model = fit.fitted.behavior_model
        if fit.target not in described and model is not None:
            described[fit.target] = replace(model.describe(), target=fit.target)
    if not described:
        return None
    first, *further = described.values()
    return replace(first, others={description.target: description for description in further})


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
