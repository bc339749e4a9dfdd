"""evaluate(): fit what must be fitted, pass over the log once for everything, assemble the result."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from counterrank.audit import CHECKS, VITAL, Audit, Auditor, Finding, auditor_of
from counterrank.behavior import (
    BehaviorTree,
    Candidate,
    ForestDescription,
    MSEEstimate,
    planned_tree,
)
from counterrank.data.grouping import grouping_of
from counterrank.data.log import Probabilities, RankingLog
from counterrank.data.source import Source, mapped
from counterrank.data.validation import refuse_scale
from counterrank.data.visitors import shared_contexts, units_are_rows
from counterrank.errors import CounterrankError
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
    Evidence,
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
    Pairing,
    PassState,
    Totals,
    at_any_time,
    cuts_of,
    inflated,
    make_partial,
    pairing,
    segment_table,
)
from counterrank.evaluation.provenance import Options, manifest
from counterrank.evaluation.result import Evaluation
from counterrank.evaluation.sensitivity import curve
from counterrank.evaluation.tables import (
    Diagnostics,
    LogSummary,
    SamplePlan,
    Sensitivity,
    Skipped,
)
from counterrank.evaluation.weighing import refuse_weights, write_weights
from counterrank.messages import ESTIMATED, has
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
    """Return how the value's range grows with the error of the propensities; None without weights
    by position.
    """
    contributions = getattr(job.plan, "contributions", None)
    if contributions is None or not chosen.estimable:
        return None
    view = View(probe, chosen.target)
    weights = contributions(view)[1]
    return curve(weights, view.reward, probe.position_weights, value=chosen.value, logged=logged)


def assemble(
    run: Run, total: PassState, estimates: tuple[Estimate, ...], *, command: str | None = None
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
    rows = total.fingerprint.of_rows
    learned = {one.target for _, one in chosen if _learned_from(first, one.target) == rows}
    evidence = [replace(one, learned_here=one.estimate.target in learned) for one in evidence]
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
        audit=Audit() if options.audit is False else Audit(findings),
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


def _possible(run: Run, total: PassState, estimates: Sequence[Estimate]) -> tuple[Estimate, ...]:
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


def _weighing(run: Run, job: Job, one: Estimate, estimates: Sequence[Estimate]) -> Job:
    like = None if one.moments is not None else weighed_like(one, estimates)
    return job if like is None else run.jobs[like]


def _evidence(
    run: Run, pairs: Pairing, job: Job, one: Estimate, estimates: Sequence[Estimate],
    supported: Support | None, ranged: Sensitivity | None, findings: Sequence[Finding],
) -> Evidence:  # fmt: skip
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
    return Evidence(
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
    """Return the first target's fitted trees in words, and those of the other targets under
    `others`.
    """
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
    command
        Recorded in the result.
    **reading
        What the reader is told about a log that is not in memory yet: `columns`, `context`, `unit`,
        `logger`, `policies`, ... as in `counterrank.io.ReadOptions`; `format`; `engine`, "local",
        "dask" or "spark"; `where`, a condition that keeps some rows, "country = 'DE'".

    Returns
    -------
    Evaluation
        Estimates with intervals, lifts against the logging policy, diagnostics and the verdict.

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
    from counterrank.io import opened

    segments = (segments,) if isinstance(segments, str) else tuple(segments)
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
    with opened(log, targets, position_weights=position_weights, segments=carried, **reading) as (
        source,
        names,
    ):
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
        )
        if later is not None:
            source = later_rows(source, later)
        if groups:
            source = mapped(source, grouping_of(source.first.item_features, groups))
        return evaluate_source(
            source, options, custom, command=command, tree=tree, weights_out=weights_out
        )


def evaluate_source(
    source: Source,
    options: Options,
    custom: Mapping[str, Estimator] | None = None,
    *,
    command: str | None = None,
    tree: BehaviorTree | None = None,
    weights_out: str | os.PathLike[str] | None = None,
) -> Evaluation:
    """Return the evaluation of a source that knows its targets by name."""
    replicas: Sequence[Source] = ()
    if options.estimate_propensity is not None:
        from counterrank.propensity_models import estimated_source

        source, replicas = estimated_source(
            source, options.estimate_propensity, targets=options.targets, seed=options.seed
        )
    run = Run(source, options)
    asked = [parse(name) for name in options.estimators]
    by_model = bool(asked) and all(name.model_alone for name in asked)
    # Before anything is fitted: without any exploration there are no weights, and no pass would
    # help.
    refuse_deterministic(run.first, lambda: run.probe, options.targets, by_model=by_model)
    refuse_scale(run.probe.reward)
    run.prepare(custom or {}, tree)
    if weights_out is not None:
        refuse_weights(run.jobs, weights_out)
    total = run.sums(source)
    estimates = run.estimates(total)
    if replicas:
        # The same plans on resampled units whose propensities were estimated anew.
        sums = (run.sums(replica, label="bootstrap", segments=False) for replica in replicas)
        estimates = inflated(estimates, [run.estimates(one) for one in sums])
    estimates = tuple(at_any_time(one, options.looks) for one in estimates)
    result = assemble(run, total, estimates, command=command)
    if weights_out is not None:
        write_weights(source, run.jobs, weights_out)
    return result


@dataclass
class Run:
    """One evaluation under way: the source, what will run on it, and a sample of rows to look at."""

    source: Source
    options: Options
    jobs: Sequence[Job] = ()
    skipped: tuple[Skipped, ...] = ()
    auditor: Auditor | None = None
    cuts: Sequence[Cut] = ()

    @cached_property
    def first(self) -> RankingLog:
        """A small batch."""
        return self.source.first

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
        self.jobs, self.skipped = make_jobs(self.source, self.options, custom, tree)
        self.cuts = cuts_of(
            self.options.segments, lambda: self.probe, [job.plan for job in self.jobs]
        )
        columns = [name for name in self.options.segments if name != TREE]
        self.auditor = auditor_of(
            self.source, self.probe, self.options.targets, segments=columns or None, time=self.options.time,
            checks=VITAL if self.options.audit is False else CHECKS,
            weighed=not weightless(job.name for job in self.jobs),
        )  # fmt: skip

    def findings(self, total: PassState) -> list[Finding]:
        """Return what the audit found in the same pass."""
        assert self.auditor is not None
        return self.auditor.finish(total.audit)

    def sums(
        self, source: Source, *, label: str = "estimating", segments: bool = True
    ) -> PassState:
        """Return the sums over all rows of a source."""
        by_unit = self.first.unit is not None
        cuts, auditor = (self.cuts, self.auditor) if segments else ((), None)
        partial = make_partial(
            list(self.groups.values()), self.main, cuts, by_unit=by_unit, auditor=auditor
        )
        return source.reduce(partial, label=label)

    def states(self, total: PassState) -> dict[Hashable, Any]:
        """Return the state of each plan key."""
        return dict(zip(self.groups, total.states, strict=True))

    def estimates(self, total: PassState) -> tuple[Estimate, ...]:
        """Return the estimate of each job, silent ones too; what was not asked for cannot stop the
        evaluation.
        """
        states = self.states(total)
        notes = self.first.notes
        return tuple(
            _finished(job, states[job.plan.key], notes, total.totals.n) for job in self.jobs
        )


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
