"""One reward of an evaluation: what runs on it, its estimates, and how far to believe them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from counterrank.audit import (
    CHECKS,
    OF_REWARDS,
    VITAL,
    Auditor,
    Check,
    Finding,
    auditor_of,
)
from counterrank.data.columns import Segmentation, segmentation
from counterrank.data.log import RankingLog
from counterrank.data.source import MappedSource, MemorySource, Source
from counterrank.data.validation import refuse_scale
from counterrank.data.visitors import shared_contexts, units_are_rows
from counterrank.errors import CounterrankError
from counterrank.estimators import Estimate, Estimator, View, nothing_known, parse
from counterrank.estimators.behavior import BehaviorTree
from counterrank.estimators.weights.diagnostics import Support, effective_rows, mean_weight_test
from counterrank.estimators.weights.moments import Moments
from counterrank.evaluation.comparing import (
    Pairing,
    against,
    compare,
    pairing,
    rivals,
    usable,
    weighed_like,
)
from counterrank.evaluation.jobs import (
    PANEL,
    PREFERENCE,
    Job,
    make_jobs,
    weightless,
)
from counterrank.evaluation.judging import (
    TargetEvidence,
    no_better,
    of_audit,
    reasons,
    scale_of,
    verdict,
)
from counterrank.evaluation.passing import Pass, PassState
from counterrank.evaluation.provenance import Options
from counterrank.evaluation.segments import Group, group_estimates, segment_table
from counterrank.evaluation.sensitivity import curve
from counterrank.evaluation.tables import (
    Comparison,
    Segment,
    Sensitivity,
    Verdict,
)
from counterrank.messages import ESTIMATED, has

#: Rows looked at where all of them are not needed: cuts of segments, support, exploration,
#: sensitivity.
PROBE_ROWS = 20_000


@dataclass
class RewardRun:
    """The evaluation of one reward under way: its source, what runs on it, and a sample of its rows."""

    source: Source
    options: Options
    #: Whether this is the primary metric.
    primary: bool = True
    #: Whether it is a column of the log, not a function of one: then its numbers are audited.
    logged: bool = True
    jobs: Sequence[Job] = ()
    skipped: tuple[Finding, ...] = ()
    auditor: Auditor | None = None
    cuts: Sequence[Segmentation] = ()
    #: What was prepared for models and does not depend on the reward.
    shared: dict[Hashable, Any] = field(default_factory=dict)

    @cached_property
    def first(self) -> RankingLog:
        """A small batch."""
        return self.source.first

    @cached_property
    def probe(self) -> RankingLog:
        """A sample of rows, each with the same chance; the same for the same seed."""
        found = self.source.sample(PROBE_ROWS, np.random.default_rng(self.options.seed))
        return found.evenly_kept()

    @cached_property
    def shared_contexts(self) -> int | None:
        """How many contexts rows share although nearly each has a unit of its own."""
        # A sample is a pass over a log that does not fit: only where the start gives reason to ask.
        return shared_contexts(self.probe) if units_are_rows(self.first) else None

    @cached_property
    def groups(self) -> dict[Hashable, list[Job]]:
        """The jobs by the state they share; the most detailed plan of a group makes it for all."""
        groups: dict[Hashable, list[Job]] = {}
        for job in sorted(self.jobs, key=lambda job: -job.plan.detail):
            groups.setdefault(job.plan.key, []).append(job)
        return {job.plan.key: groups[job.plan.key] for job in self.jobs}

    @cached_property
    def recommended(self) -> dict[str, str]:
        """The recommended estimator of each target."""
        named: dict[str, list[str]] = {}
        for job in self.jobs:
            if not job.silent:
                named.setdefault(job.target, []).append(job.name)
        return {
            target: next((name for name in PREFERENCE if name in names), names[0])
            for target, names in named.items()
        }

    @cached_property
    def main(self) -> list[list[Job]]:
        """The groups with a recommended estimator, for which segments are summed."""
        return [
            group
            for group in self.groups.values()
            if any(self.recommended[j.target] == j.name for j in group)
        ]

    def prepare(
        self, custom: Mapping[str, Estimator], tree: BehaviorTree | None, primary: RewardRun
    ) -> None:
        """Fit what needs fitting, and get the audit ready for the pass; `primary` was prepared before."""
        if isinstance(self.source, MemorySource):
            refuse_scale(self.probe.reward)
        else:
            # A sample of a file is a pass over it: no look of our own before the larger one that a tree
            # or a model is fitted on, of which it is then a part.
            self.source = _SquarableSource(self.source, _squarable)
        self.jobs, self.skipped = make_jobs(
            self.source, self.options, custom, tree, required=self.primary, shared=primary.shared
        )
        self.cuts = [segmentation(self.probe, name) for name in self.options.segments]
        self.auditor = auditor_of(
            self.source, self.probe, self.options.targets,
            segments=self.options.segments or None, time=self.options.time,
            checks=self._checks(),
            weighed=not weightless(job.name for job in self.jobs), like=primary.auditor,
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
        by_unit = self.first.summed_by_unit
        return Pass(
            list(self.groups.values()), self.main, cuts, by_unit, auditor,
            self.options.baseline is not None, self.primary,
        )  # fmt: skip

    def states(self, total: PassState) -> dict[Hashable, Any]:
        """Return the state of each plan key."""
        return dict(zip(self.groups, total.states, strict=True))

    def estimates(self, total: PassState) -> tuple[Estimate, ...]:
        """Return the estimate of each job, also of jobs that nobody named.

        The latter cannot stop the evaluation.
        """
        states = self.states(total)
        notes = self.first.notes
        found = tuple(
            _finished(job, states[job.plan.key], notes, total.totals.n) for job in self.jobs
        )
        if self.options.baseline is None:
            return found
        pairs = pairing(self.jobs, states, total.totals)
        return against(self.jobs, found, pairs, self.options.baseline)


def _finished(job: Job, state: Any, notes: tuple[str, ...], n: int) -> Estimate:
    try:
        estimate = job.plan.estimate(state)
    except CounterrankError as problem:
        if not job.silent:
            raise
        return nothing_known(job.target, job.name, n, str(problem))
    return replace(estimate, estimator=job.name, flags=(*notes, *estimate.flags))


def _squarable(batch: RankingLog) -> RankingLog:
    refuse_scale(batch.reward, small=False)
    return batch


class _SquarableSource(MappedSource):
    """A source that refuses rewards which cannot be squared as soon as it meets them."""

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return a sample that models can be fitted on."""
        found = super().sample(rows, rng)
        # A batch may hold small rewards only; so many rows of a log that also has others do not.
        refuse_scale(found.reward)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class JudgedReward:
    """What was found of one reward: an estimate of each job, and what follows from them."""

    run: RewardRun
    state: PassState
    estimates: tuple[Estimate, ...]
    #: How far a wrong propensity moves the recommended estimate of each target.
    ranges: dict[str, Sensitivity | None]
    verdict: Verdict
    comparisons: tuple[Comparison, ...]
    #: The recommended estimates of each target in groups of rows, and the table of them.
    groups: dict[str, dict[Group, Estimate]]
    segments: tuple[Segment, ...]

    def recommended(self, target: str) -> tuple[Job, Estimate]:
        """Return the recommended estimate of a target, and its job."""
        return next(
            (job, one)
            for job, one in zip(self.run.jobs, self.estimates, strict=True)
            if (job.target, job.name) == (target, self.run.recommended[target])
        )

    @property
    def shown(self) -> tuple[Estimate, ...]:
        """The estimates of the result; the others only judge them."""
        return tuple(
            one for job, one in zip(self.run.jobs, self.estimates, strict=True) if not job.silent
        )


def judge(
    run: RewardRun,
    state: PassState,
    estimates: Sequence[Estimate],
    findings: Sequence[Finding],
    supports: Mapping[str, Support | None],
) -> JudgedReward:
    """Return estimates, comparisons and segments of one reward, and how far to believe them."""
    options, looks = run.options, run.options.looks
    states = run.states(state)
    pairs = pairing(run.jobs, states, state.totals)
    estimates = _possible(run, state, estimates)
    # Of further rewards the range is needed only where the verdict looks at it.
    ranged = run.primary or has(run.first.notes, ESTIMATED)
    ranges: dict[str, Sensitivity | None] = {}
    found: dict[str, list[Finding]] = {}
    for job, one in zip(run.jobs, estimates, strict=True):
        if run.recommended[job.target] != job.name:
            continue
        ranges[job.target] = _sensitivity(run, job, one, estimates, pairs) if ranged else None
        evidence = _evidence(run, state, pairs, job, one, estimates, supports, ranges)
        found[job.target] = [*of_audit(findings, job.target), *reasons(evidence)]
    groups = group_estimates(
        states, state.segments, state.paired, run.main, run.recommended, options.baseline
    )
    return JudgedReward(
        run,
        state,
        estimates,
        ranges,
        verdict(no_better(found, options.baseline)),
        compare(run.jobs, estimates, pairs, run.recommended, options.level, looks),
        groups,
        segment_table(groups, run.recommended),
    )


def _possible(
    run: RewardRun, state: PassState, estimates: Sequence[Estimate]
) -> tuple[Estimate, ...]:
    """Return the estimates, without recommended values that no rewards of this log could add up to."""
    # A mean of rewards lies between the least and the most a ranking earned; weights on a wrong
    # scale lead outside, whatever their standard error says.
    low, high = state.rewards.of_value(run.first.position_weights)
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
        one.moments
        for one in estimates
        if one.target == target and one.moments is not None and parse(one.estimator).plain
    )
    return max(plain, key=effective_rows, default=None)


def _sensitivity(
    run: RewardRun, job: Job, one: Estimate, estimates: Sequence[Estimate], pairs: Pairing
) -> Sensitivity | None:
    """Return how the value's range grows with the error of the propensities.

    None without weights by position.
    """
    like = None if one.moments is not None else weighed_like(one, estimates)
    plan = (job if like is None else run.jobs[like]).plan
    view = View(run.probe, one.target)
    weights = plan.weights(view) if one.estimable else None
    if weights is None:
        return None
    return curve(
        weights, view.reward, run.probe.position_weights,
        value=one.value, logged=pairs.logger.value,
    )  # fmt: skip


def _evidence(
    run: RewardRun, state: PassState, pairs: Pairing, job: Job, one: Estimate,
    estimates: Sequence[Estimate], supports: Mapping[str, Support | None],
    ranges: Mapping[str, Sensitivity | None],
) -> TargetEvidence:  # fmt: skip
    # The same judges in the same order, whichever estimators the user named: the panel always runs.
    ranks = {name: rank for rank, name in enumerate(PANEL)}
    order = sorted(
        (i for i, other in enumerate(run.jobs) if other is job or other.name in ranks),
        key=lambda i: ranks.get(run.jobs[i].name, -1),
    )
    jobs, found = [run.jobs[i] for i in order], [estimates[i] for i in order]
    like = weighed_like(one, found)
    lightest = _lightest(one.target, found)
    # Without weights of its own, an estimate is judged by the target's lightest weights.
    others = lightest if like is None else found[like].moments
    supported, ranged = supports[job.target], ranges[job.target]
    # A learned policy may say which rows it was learned from.
    rule = getattr(run.first.targets.get(job.target), "rule", None)
    return TargetEvidence(
        estimate=one,
        logged=pairs.logger.value,
        units=pairs.sums.visitors,
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
        practical=run.options.practical,
        estimated_propensity=has(run.first.notes, ESTIMATED),
        fresh=run.options.target_is_fresh,
        trained_until=run.options.target_trained_until,
        unsupported=() if supported is None else supported.rare_share,
        sign_changes_at=None if ranged is None else ranged.sign_changes_at,
        learned_here=getattr(rule, "learned_from", None) == state.fingerprint.of_rows,
    )
