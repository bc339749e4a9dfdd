"""One reward of an evaluation: what runs on it, its estimates, and how far to believe them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from counterrank.checks import (
    CHECKS,
    OF_REWARDS,
    VITAL,
    Auditor,
    Check,
    Finding,
    auditor_of,
)
from counterrank.data.columns import shared_contexts, units_are_rows
from counterrank.data.log import RankingLog
from counterrank.data.source import Change, MappedSource, MemorySource, Source
from counterrank.data.validation import refuse_scale
from counterrank.estimators import Estimate, Estimator, View, parse
from counterrank.estimators.behavior import BehaviorTree
from counterrank.estimators.weights.diagnostics import Support, effective_rows, mean_weight_test
from counterrank.estimators.weights.moments import Moments
from counterrank.evaluation.comparing import (
    PairedEstimate,
    against,
    compare,
    over_baseline,
    paired,
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
from counterrank.evaluation.passing import Group, PassState, RewardPass
from counterrank.evaluation.provenance import Options
from counterrank.evaluation.result import (
    Comparison,
    Segment,
    Sensitivity,
    Verdict,
)
from counterrank.evaluation.segments import segment_table
from counterrank.evaluation.sensitivity import curve
from counterrank.messages import ESTIMATED, has
from counterrank.metrics import Measure, constant, measured
from counterrank.statistics import Quantity, mean

#: Rows looked at where all of them are not needed: cuts of segments, support, exploration,
#: sensitivity.
PROBE_ROWS = 20_000


@dataclass
class RewardRun:
    """The evaluation of one reward under way: its source, what runs on it, and a sample of its rows."""

    #: The log, and then the log with this reward.
    source: Source
    options: Options
    measure: Measure
    #: Whether this is the primary metric.
    primary: bool
    #: Whether the reward has a name, or is the only one.
    named: bool
    jobs: Sequence[Job] = ()
    skipped: tuple[Finding, ...] = ()
    auditor: Auditor | None = None
    #: How many contexts rows share although nearly each has a unit of its own.
    shared_contexts: int | None = None
    #: What was prepared for models and does not depend on the reward.
    shared: dict[Hashable, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.change: Change = partial(measured, measure=self.measure) if self.named else _unchanged
        if self.named:
            self.source = MappedSource(self.source, self.change)

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
    def groups(self) -> dict[Hashable, list[Job]]:
        """The jobs by the state they share; the most detailed plan of a group makes it for all."""
        groups: dict[Hashable, list[Job]] = {}
        for job in sorted(self.jobs, key=lambda job: -job.plan.detail):
            groups.setdefault(job.plan.key, []).append(job)
        return {job.plan.key: groups[job.plan.key] for job in self.jobs}

    @cached_property
    def recommended(self) -> dict[str, Job]:
        """The job of the recommended estimator of each target."""
        named: dict[str, dict[str, Job]] = {}
        for job in self.jobs:
            if not job.silent:
                named.setdefault(job.target, {})[job.name] = job
        return {
            target: jobs[next((name for name in PREFERENCE if name in jobs), next(iter(jobs)))]
            for target, jobs in named.items()
        }

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
        if units_are_rows(self.first):
            self.shared_contexts = shared_contexts(self.probe)
        self.auditor = auditor_of(
            self.source, self.probe, self.options.targets,
            segments=self.options.segments or None, time=self.options.time,
            checks=self._checks(),
            weighed=not weightless(job.name for job in self.jobs), like=primary.auditor,
        )  # fmt: skip

    def _checks(self) -> tuple[Check, ...]:
        """Return what the audit looks at: of a further reward, only that reward."""
        if not self.primary:
            # Numbers of a column are audited, those of a function of one are not.
            return () if self.measure.function else OF_REWARDS
        return VITAL if self.options.audit is False else CHECKS

    def findings(self, total: PassState) -> list[Finding]:
        """Return what the audit found in the same pass."""
        assert self.auditor is not None
        return self.auditor.finish(total.audit)

    def passing(self, *, audited: bool) -> RewardPass:
        """Return what is summed of this reward."""
        main = [self.groups[job.plan.key] for job in self.recommended.values()]
        auditor = self.auditor if audited else None
        groups = [*self.groups.values()]
        over = over_baseline(groups, self.options.baseline)
        return RewardPass(self.change, groups, main, auditor, self.primary, over)

    def refuse_constant(self, logged: Quantity) -> None:
        """Raise where the logger earned the same in every ranking: nothing could be learned of it."""
        if self.named and logged.stderr == 0.0:
            raise constant(self.measure.text, logged.value)

    def estimates(self, total: PassState) -> list[PairedEstimate]:
        """Return the estimate of each job, also of jobs that nobody named."""
        groups = [*self.groups.values()]
        found = paired(groups, total.states, total.totals, self.first.notes)
        found.sort(key=lambda one: self.jobs.index(one.job))
        base = self.options.baseline
        return found if base is None else against(found, base, total.beside)

    def by_segment(self, total: PassState) -> dict[str, dict[Group, Estimate]]:
        """Return the recommended estimates of each target in each group of rows."""
        whole = dict(zip(self.groups, total.states, strict=True))
        main = [
            replace(job, plan=job.plan.within(whole[job.plan.key]))
            for job in self.recommended.values()
        ]
        found: dict[str, dict[Group, Estimate]] = {target: {} for target in self.recommended}
        for key in sorted(total.segments):
            states, base = total.segments[key], self.options.baseline
            if base is None:
                made = [job.plan.estimate(own) for job, own in zip(main, states, strict=True)]
            else:
                pairs = against(paired([[job] for job in main], states, total.paired[key]), base)
                made = [one.estimate for one in pairs]
            for one in made:
                found[one.target][key] = one
        return found


def _unchanged(batch: RankingLog) -> RankingLog:
    return batch


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
    found: Sequence[PairedEstimate]
    #: The recommended estimate of each target.
    recommended: dict[str, PairedEstimate]
    #: How far a wrong propensity moves it.
    ranges: dict[str, Sensitivity]
    verdict: Verdict
    comparisons: tuple[Comparison, ...]
    #: The recommended estimates of each target in groups of rows, and the table of them.
    groups: dict[str, dict[Group, Estimate]]
    segments: tuple[Segment, ...]

    @property
    def shown(self) -> tuple[Estimate, ...]:
        """The estimates of the result; the others only judge them."""
        return tuple(one.estimate for one in self.found if not one.job.silent)


def judge(
    run: RewardRun,
    state: PassState,
    found: Sequence[PairedEstimate],
    findings: Sequence[Finding],
    supports: Mapping[str, Support | None],
) -> JudgedReward:
    """Return estimates, comparisons and segments of one reward, and how far to believe them."""
    options = run.options
    chosen = {*map(id, run.recommended.values())}
    found = [_possible(run, state, one, found) if id(one.job) in chosen else one for one in found]
    main = {one.job.target: one for one in found if id(one.job) in chosen}
    ranges: dict[str, Sensitivity] = {}
    about: dict[str, list[Finding]] = {}
    for target, one in main.items():
        # Of further rewards the range is needed only where the verdict looks at it.
        if run.primary or has(run.first.notes, ESTIMATED):
            ranges |= _sensitivity(run, one, found)
        evidence = _evidence(run, state, one, found, supports[target], ranges.get(target))
        about[target] = [*of_audit(findings, target), *reasons(evidence)]
    groups = run.by_segment(state) if state.segments else {}
    return JudgedReward(
        run,
        state,
        found,
        main,
        ranges,
        verdict(no_better(about, options.baseline)),
        compare([*main.values()], options.level, options.looks) if len(main) > 1 else (),
        groups,
        segment_table(groups) if groups else (),
    )


def _possible(
    run: RewardRun, state: PassState, one: PairedEstimate, found: Sequence[PairedEstimate]
) -> PairedEstimate:
    """Return an estimate, without a value that no rewards of this log could add up to."""
    # A mean of rewards lies between the least and the most a ranking earned; weights on a wrong
    # scale lead outside, whatever their standard error says.
    low, high = state.rewards.of_value(run.first.position_weights)
    slack, value = 1e-9 * max(abs(low), abs(high)), one.estimate.value
    if one.estimate.not_estimable or low - slack <= value <= high + slack:
        return one
    light = _lightest(one, found)
    hint = "" if light is None else scale_of(mean_weight_test(light).mean)
    reason = (
        f"{value:.4g} a ranking is impossible where rewards allow {low:.4g} to {high:.4g}{hint}"
    )
    return replace(one, estimate=one.estimate.without_evidence(reason))


def _lightest(one: PairedEstimate, found: Sequence[PairedEstimate]) -> Moments | None:
    """Return the moments of the lightest weights of a target: those with the most effective rows."""
    plain = (
        other.estimate.moments
        for other in found
        if other.job.target == one.job.target
        and other.estimate.moments is not None
        and other.job.plain
    )
    return max(plain, key=effective_rows, default=None)


def _sensitivity(
    run: RewardRun, one: PairedEstimate, found: Sequence[PairedEstimate]
) -> dict[str, Sensitivity]:
    """Return how the value's range grows with the error of the propensities, by target.

    Nothing without weights by position.
    """
    estimate, target = one.estimate, one.job.target
    like = weighed_like(estimate, found) if estimate.moments is None else None
    view = View(run.probe, target)
    weights = None if estimate.not_estimable else (like or one).job.plan.weights(view)
    if weights is None:
        return {}
    logged = mean(one.sums, 0).value
    return {
        target: curve(
            weights, view.reward, run.probe.position_weights, value=estimate.value, logged=logged
        )
    }


def _evidence(
    run: RewardRun, state: PassState, one: PairedEstimate, found: Sequence[PairedEstimate],
    supported: Support | None, ranged: Sensitivity | None,
) -> TargetEvidence:  # fmt: skip
    estimate, first, options = one.estimate, run.first, run.options
    # The same judges in the same order, whichever estimators the user named: the panel always runs.
    judges = sorted(
        (
            other
            for other in found
            if other.job.target == one.job.target and other is not one and other.job.name in PANEL
        ),
        key=lambda other: PANEL.index(other.job.name),
    )
    like, lightest = weighed_like(estimate, judges), _lightest(one, [one, *judges])
    # Without weights of its own, an estimate is judged by the target's lightest weights.
    others = lightest if like is None else like.estimate.moments
    # A learned policy may say which rows it was learned from.
    rule = getattr(first.targets.get(one.job.target), "rule", None)
    learned = getattr(rule, "learned_from", None)
    return TargetEvidence(
        estimate=estimate,
        logged=mean(one.sums, 0).value,
        outcomes=one.outcomes,
        units=one.sums.visitors,
        rivals=rivals(one, judges),
        lifts=[
            other.estimate.lift.value
            for other in judges
            if other.job.plain and not other.estimate.not_estimable and usable(other.estimate)
        ],
        moments=others if estimate.moments is None else estimate.moments,
        lightest=lightest,
        clustered=first.unit is not None,
        shared_contexts=run.shared_contexts,
        independent=options.independent_rows,
        borrowed=estimate.moments is None,
        # One position has no other items to be wrong about.
        assumption_free=first.K == 1 or parse(estimate.basis).interactions(first.K) == first.K,
        practical=options.practical,
        estimated_propensity=has(first.notes, ESTIMATED),
        fresh=options.target_is_fresh,
        trained_until=options.target_trained_until,
        unsupported=() if supported is None else supported.rare_share,
        sign_changes_at=None if ranged is None else ranged.sign_changes_at,
        learned_here=learned is not None and learned == state.fingerprint.of_rows,
    )
