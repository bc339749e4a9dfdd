"""The one pass over the log: all estimators, targets and segments at once.

It also says how their totals vary together, and makes intervals wider afterwards.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.audit import Auditor, Tallies
from counterrank.data.columns import by_label, segmentation
from counterrank.data.fingerprint import Fingerprint, fingerprint_of
from counterrank.data.log import RankingLog
from counterrank.errors import ConfigError
from counterrank.estimators import Estimate, Lift, PositionValue, View
from counterrank.evaluation.jobs import TREE, Job
from counterrank.evaluation.tables import Level, Segment, SegmentLift
from counterrank.inference import (
    Looks,
    benjamini_hochberg,
    bias_aware_half,
    clustered_variances,
    critical_value,
    holm,
    normal_interval,
)
from counterrank.weights.diagnostics import TopRows, top_rows_of
from counterrank.weights.ratios import Ratios, ratios_of
from counterrank.weights.thresholds import FAILED, PASSED, THRESHOLDS


def inflated(
    estimates: Sequence[Estimate], replicas: Sequence[Sequence[Estimate]]
) -> tuple[Estimate, ...]:
    """Return the estimates with the larger of two standard errors.

    One takes the propensities as known, the other is bootstrapped.

    Each replica has resampled units and propensities estimated anew from them, so its spread holds
    the errors of rows and model together. With a correct model the first is already too large
    (Henmi & Eguchi 2004); the larger of the two does not undercut either.
    """
    return tuple(
        _wider(one, [other[index] for other in replicas]) for index, one in enumerate(estimates)
    )


def at_any_time(one: Estimate, looks: Looks) -> Estimate:
    """Return an estimate whose intervals hold at all looks together.

    Its allowance for bias stays what it was.
    """
    if looks.rows is None or not one.estimable:
        return one
    lift, usual = one.lift, critical_value(one.level)
    # Only the sampling error grows with the number of looks; a bias is the same at every one.
    more = (looks.critical(one.level, one.n) - usual) * lift.stderr
    # The relative lift's standard error is not kept; its half-width is, and grows at most in this
    # ratio.
    stretch = looks.critical(one.level, one.n) / usual
    wide = replace(
        lift,
        low=lift.low - more,
        high=lift.high + more,
        relative_low=lift.relative - stretch * (lift.relative - lift.relative_low),
        relative_high=lift.relative + stretch * (lift.relative_high - lift.relative),
    )
    return replace(one, lift=wide, interval_at=lambda level: _at_any_time(one, looks, level))


def _at_any_time(one: Estimate, looks: Looks, level: float) -> tuple[float, float]:
    wanted = looks.level(level, one.n)
    if wanted < 1.0:
        return one.interval(wanted)
    # Few rows beside those that the intervals are made for: the level rounds to one, but the width is
    # known.
    low, high = one.interval(level)
    more = (looks.critical(level, one.n) - critical_value(level)) * one.stderr
    return low - more, high + more


def _wider(one: Estimate, others: Sequence[Estimate]) -> Estimate:
    found = spread([other.value for other in others])
    by_position = tuple(
        PositionValue(p.value, max(p.stderr, spread([o.by_position[k].value for o in others])))
        for k, p in enumerate(one.by_position)
    )
    wider = replace(
        one,
        by_position=by_position,
        lift=_wider_lift(one.lift, spread([other.lift.value for other in others])),
        details={**one.details, "bootstrap_stderr": found},
    )
    if found <= one.stderr:
        return wider
    # Stretched rather than made anew: an interval of the estimator's own making keeps its form.
    factor = found / one.stderr if one.stderr > 0 else math.inf
    return replace(
        wider, stderr=found, interval_at=lambda level: _stretched(one, found, factor, level)
    )


def _stretched(one: Estimate, stderr: float, factor: float, level: float) -> tuple[float, float]:
    if not math.isfinite(factor):
        return normal_interval(one.value, stderr, level)
    low, high = one.interval(level)
    return one.value - factor * (one.value - low), one.value + factor * (high - one.value)


def _wider_lift(lift: Lift, found: float) -> Lift:
    if found <= lift.stderr or lift.stderr == 0:
        return lift
    factor = found / lift.stderr
    return replace(
        lift,
        stderr=found,
        low=lift.value - factor * (lift.value - lift.low),
        high=lift.value + factor * (lift.high - lift.value),
        relative_low=lift.relative - factor * (lift.relative - lift.relative_low),
        relative_high=lift.relative + factor * (lift.relative_high - lift.relative),
    )


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation over replicas, 0 for fewer than two."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


class Cut(Protocol):
    """A way to cut the log into groups."""

    @property
    def column(self) -> str:
        """The name the groups are listed under."""

    def groups(self, batch: RankingLog) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield (label, rows) of a batch."""


#: Groups of a tree that are listed; the rest stand together.
TREE_GROUPS = 8
OTHERS = "other behaviour"


@dataclass(frozen=True)
class TreeGroups:
    """The groups of a fitted behaviour tree: rankings with the same model at every position."""

    model: Any
    kept: tuple[str, ...] = ()
    column: str = TREE

    def groups(self, batch: RankingLog) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield (label, rows) of a batch."""
        names = self.names(batch)
        yield from by_label(
            np.where(np.isin(names, self.kept), names, OTHERS) if self.kept else names
        )

    def names(self, batch: RankingLog) -> NDArray[np.str_]:
        """Return the models of each row (n,): one name if all positions share it, else all names."""
        forest = self.model.fitted
        choice = forest.choice(batch.context, batch.n)  # (n, K)
        patterns, back = np.unique(choice, axis=0, return_inverse=True)
        labels = [[forest.candidates[m].name for m in row] for row in patterns]
        texts = [row[0] if len(set(row)) == 1 else ", ".join(row) for row in labels]
        return np.array(texts)[np.asarray(back).reshape(-1)]


def cuts_of(
    names: Sequence[str], sample: Callable[[], RankingLog], plans: Sequence[Any]
) -> list[Cut]:
    """Return how to cut by each name; `sample` is called only when a column has to be looked at."""
    return [
        tree_groups(plans, sample()) if name == TREE else segmentation(sample(), name)
        for name in names
    ]


def tree_groups(plans: Sequence[Any], sample: RankingLog) -> TreeGroups:
    """Return the largest groups of the behaviour tree that one of the plans fitted."""
    for plan in plans:
        model = getattr(plan, "behavior_model", None)
        if model is not None and hasattr(model, "fitted"):
            found, counts = np.unique(TreeGroups(model).names(sample), return_counts=True)
            largest = found[np.argsort(-counts, kind="stable")[:TREE_GROUPS]]
            return TreeGroups(model, tuple(str(name) for name in largest))
    raise ConfigError(
        "segment 'tree' needs a fitted behaviour tree; run 'aips' too, on a log with context "
        "columns"
    )


Floats = NDArray[np.float64]
#: A column and a label.
Group = tuple[str, str]


def group_estimates(
    total: "PassState",
    main: Sequence[list[Job]],
    recommended: Mapping[str, str],
    looks: Looks,
    baseline: str | None = None,
) -> list[tuple[Job, dict[Group, Estimate]]]:
    """Return the recommended estimates of each group, by column and label.

    Lifts are those over the baseline.
    """
    sums = total.segments
    found = [
        (job, index, {key: job.plan.estimate(sums[key][index]) for key in sorted(sums)})
        for index, group in enumerate(main)
        for job in group
        if recommended[job.target] == job.name
    ]
    base = next((row for row in found if row[0].target == baseline), None)
    if base is not None:
        found = [
            (job, index, {key: _over_in_group(total, main, key, (index, one), (base[1], base[2][key]))
                          for key, one in rows.items()})
            for job, index, rows in found
        ]  # fmt: skip
    return [
        (job, {key: at_any_time(one, looks) for key, one in rows.items()}) for job, _, rows in found
    ]


def _over_in_group(
    total: "PassState",
    main: Sequence[list[Job]],
    key: Group,
    own: tuple[int, Estimate],
    other: tuple[int, Estimate],
) -> Estimate:
    """Return an estimate of a group whose lift is that over the baseline's in the same group."""
    (_, one), (_, base) = own, other
    if not (one.estimable and base.estimable):
        reason = one.not_estimable or base.not_estimable
        return one if not one.estimable else one.without_evidence(f"the baseline is {reason}")
    totals = total.paired[key]
    left, right = (_placed(total, main, key, index) for index, _ in (own, other))
    scale = max(
        found.stderr / raw if (raw := math.sqrt(totals.variance(part))) > 0 else 1.0
        for found, part in ((one, left), (base, right))
    )
    share = one.value / base.value if base.value else math.nan
    error, relative = (
        max(scale, 1.0) * math.sqrt(totals.variance(gradient))
        for gradient in (left - right, (left - share * right) / (base.value or math.nan))
    )
    df = max(totals.units - 1, 1)
    return replace(one, lift=lift_over(one, base, error, relative, df))


def _placed(total: "PassState", main: Sequence[list[Job]], key: Group, wanted: int) -> Floats:
    """Return how a group's estimate combines the columns of the group's row totals."""
    parts = [
        group[0].plan.error_combination(state)
        for group, state in zip(main, total.segments[key], strict=True)
    ]
    zeros = [np.zeros_like(part) for part in parts]
    zeros[wanted] = parts[wanted]
    return np.concatenate([np.zeros(1), *zeros])


def lift_over(
    one: Estimate,
    base: Estimate,
    stderr: float,
    relative_stderr: float | None = None,
    df: float = math.inf,
) -> Lift:
    """Return the lift of an estimate over that of another policy; both may be biased.

    Given are the standard errors of their difference and of their ratio (the worst case where it is
    not known).
    """
    if one.target == base.target:
        nothing = tuple(PositionValue(0.0, 0.0) for _ in one.by_position)
        return Lift(0.0, 0.0, 0.0, 0.0, nothing, 0.0, 0.0, 0.0)
    value, allowed = one.value - base.value, one.allowance + base.allowance
    half = bias_aware_half(stderr, allowed, one.level, df)
    relative = (np.nan, np.nan, np.nan)
    if base.value > 0:
        share = value / base.value
        # The error of the baseline's value itself moves a relative lift by its own share.
        worst = (stderr + abs(share) * base.stderr) / base.value
        error = worst if relative_stderr is None else relative_stderr
        bias = (one.allowance + abs(1.0 + share) * base.allowance) / base.value
        reach = bias_aware_half(error, bias, one.level, df)
        relative = (share, share - reach, share + reach)
    by_position = tuple(
        PositionValue(mine.value - other.value, math.hypot(mine.stderr, other.stderr))
        for mine, other in zip(one.by_position, base.by_position, strict=False)
    )
    return Lift(value, stderr, value - half, value + half, by_position, *relative)


def segment_table(
    total: "PassState",
    main: Sequence[list[Job]],
    recommended: Mapping[str, str],
    looks: Looks,
    baseline: str | None = None,
) -> tuple[Segment, ...]:
    """Return a row for each target, column and group, largest lift first within a column.

    p-values are Holm-adjusted, q-values Benjamini-Hochberg, intervals of the lift (`adjusted_low`,
    `adjusted_high`) Bonferroni-adjusted, over all groups of a target.
    """
    rows: list[Segment] = []
    for job, found in group_estimates(total, main, recommended, looks, baseline):
        rows += _adjusted(job, list(found), list(found.values()), looks)
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                row.target,
                row.column,
                -np.nan_to_num(row.lift.value, nan=-np.inf),
                row.label,
            ),
        )
    )


def _adjusted(
    job: Job, keys: Sequence[tuple[str, str]], found: Sequence[Estimate], looks: Looks
) -> list[Segment]:
    raw = [
        looks.p_value(
            max(abs(one.lift.value) - one.allowance, 0.0), one.lift.stderr, one.n, one.level
        )
        for one in found
    ]
    rows = []
    for (column, label), one, p, q in zip(
        keys, found, holm(raw), benjamini_hochberg(raw), strict=True
    ):
        # Wider than the group's own interval by what the number of groups adds to the critical
        # value.
        more = looks.critical(1 - (1 - one.level) / len(keys), one.n) - looks.critical(
            one.level, one.n
        )
        lift = SegmentLift(
            value=one.lift.value,
            stderr=one.lift.stderr,
            low=one.lift.low,
            high=one.lift.high,
            relative=one.lift.relative,
            adjusted_low=one.lift.low - more * one.lift.stderr,
            adjusted_high=one.lift.high + more * one.lift.stderr,
            p_value=float(p),
            q_value=float(q),
        )
        rows.append(
            Segment(
                column, label, job.target, job.name, one.n, one.value, one.stderr, one.low, one.high,
                one.ess, lift, evidence_of(one), one.flags,
            )
        )  # fmt: skip
    return rows


def enough_rows(estimate: Estimate) -> Level:
    """Return the evidence level that the rows and effective rows of a group allow."""
    if not estimate.estimable:
        return "insufficient"
    statuses = {THRESHOLDS["units"].status(estimate.n), THRESHOLDS["ess"].status(estimate.ess)}
    if FAILED in statuses:
        return "insufficient"
    return "reliable" if statuses == {PASSED} else "directional"


def evidence_of(estimate: Estimate) -> Level:
    """Return the evidence level of a group from its rows, effective rows and flags."""
    level = enough_rows(estimate)
    return "directional" if level == "reliable" and estimate.flags else level


@dataclass(frozen=True, slots=True, eq=False)
class RowTotals:
    """Sums and Gram matrix of per-row totals.

    Column 0 is what the logger earned, then come those of each plan.

    `absolute` sums |total|; `buckets` (1024, T+1) holds the sums by unit, with row counts last,
    when errors are clustered.
    """

    n: int
    sums: Floats
    gram: Floats
    absolute: Floats
    buckets: Floats | None = None

    def __add__(self, other: Self) -> Self:
        buckets = (
            None if self.buckets is None or other.buckets is None else self.buckets + other.buckets
        )
        absolute = self.absolute + other.absolute
        return type(self)(
            self.n + other.n, self.sums + other.sums, self.gram + other.gram, absolute, buckets
        )

    @property
    def units(self) -> int:
        """Number of independent pieces: rows, or at most 1024 buckets of units."""
        return self.n if self.buckets is None else int((self.buckets[:, -1] > 0).sum())

    def variance(self, combination: Floats) -> float:
        """Return the variance of the mean of a combination (T,) of the columns.

        NaN from one row or unit.
        """
        if self.units < 2:
            return float("nan")
        if self.buckets is not None:
            sums, counts = self.buckets[:, :-1] @ combination, self.buckets[:, -1]
            return float(clustered_variances(sums[:, None], counts)[0])
        mean = self.sums / self.n
        spread = self.gram / self.n - np.outer(mean, mean)
        return max(float(combination @ spread @ combination), 0.0) / (self.n - 1)

    def covariance(self, combinations: Floats) -> Floats:
        """Return the covariance (m, m) of the means of combinations (m, T) of the columns.

        NaN from one row or unit.
        """
        m = len(combinations)
        if self.units < 2:
            return np.full((m, m), np.nan)
        if self.buckets is not None:
            used = self.buckets[self.buckets[:, -1] > 0]
            sums, counts = used[:, :-1] @ combinations.T, used[:, -1]
            scores = sums - np.outer(counts, sums.sum(axis=0) / self.n)
            found: Floats = scores.T @ scores * (len(used) / (len(used) - 1) / self.n**2)
            return found
        mean = self.sums / self.n
        spread = self.gram / self.n - np.outer(mean, mean)
        made: Floats = combinations @ spread @ combinations.T / (self.n - 1)
        return made


def totals_of(columns: Floats, bucket: NDArray[np.int64] | None) -> RowTotals:
    """Return the sums of one batch of totals, columns (T, n)."""
    from counterrank.kernels import hashing
    from counterrank.weights.kernels import accumulate

    table = None
    if bucket is not None:
        counted = (*columns, np.ones(columns.shape[1]))
        by_unit = [np.bincount(bucket, one, hashing.BUCKETS) for one in counted]
        table = np.stack(by_unit, axis=1).astype(float)
    gram, absolute = np.zeros((len(columns), len(columns))), np.zeros(len(columns))
    accumulate.products(columns, gram, absolute)
    return RowTotals(columns.shape[1], columns.sum(axis=1), gram, absolute, table)


@dataclass(frozen=True, slots=True, eq=False)
class RewardRange:
    """The smallest and largest reward seen at each position (K,); 0 is always possible."""

    low: Floats
    high: Floats

    def __add__(self, other: Self) -> Self:
        return type(self)(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def of_value(self, alpha: Floats) -> tuple[float, float]:
        """Return the least and most that sum_k alpha_k r_k can come to.

        >>> RewardRange(np.zeros(2), np.ones(2)).of_value(np.array([1.0, -0.5]))
        (-0.5, 1.0)
        """
        ends = np.stack([alpha * self.low, alpha * self.high])
        return float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())


#: Rankings laid side by side: NumPy takes extremes along long rows several times faster.
_SIDE_BY_SIDE = 64


def reward_range(reward: Floats) -> RewardRange:
    """Return the range of rewards (n, K); padding counts as 0, which is in it anyway.

    >>> reward_range(np.array([[1.0, -2.0], [3.0, -1.0]])).high.tolist()
    [3.0, 0.0]
    """
    n, length = reward.shape
    whole = n // _SIDE_BY_SIDE * _SIDE_BY_SIDE
    parts = (reward[:whole].reshape(-1, _SIDE_BY_SIDE * length), reward[whole:])
    ends = [
        [fold(part, axis=0, initial=0.0).reshape(-1, length) for part in parts]
        for fold in (np.min, np.max)
    ]
    return RewardRange(np.concatenate(ends[0]).min(axis=0), np.concatenate(ends[1]).max(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class PassState:
    """The sum over batches of everything an evaluation needs."""

    states: tuple[Any, ...]
    totals: RowTotals
    segments: Mapping[tuple[str, str], tuple[Any, ...]]
    fingerprint: Fingerprint
    rewards: RewardRange
    #: The rows that move each plan's estimate most, where its total is one number a row.
    tops: tuple[TopRows | None, ...] = ()
    audit: Tallies = field(default_factory=lambda: Tallies(()))
    #: Row totals of the recommended estimates in each segment, what the logger earned first; where
    #: targets are compared with each other.
    paired: Mapping[tuple[str, str], RowTotals] = field(default_factory=dict)

    def __add__(self, other: Self) -> Self:
        return type(self)(
            tuple(a + b for a, b in zip(self.states, other.states, strict=True)),
            self.totals + other.totals,
            _merged(self.segments, other.segments),
            self.fingerprint + other.fingerprint,
            self.rewards + other.rewards,
            tuple(
                None if a is None or b is None else a + b
                for a, b in zip(self.tops, other.tops, strict=True)
            ),
            self.audit + other.audit,
            {
                key: self.paired[key] + other.paired[key]
                if key in self.paired and key in other.paired
                else self.paired.get(key) or other.paired[key]
                for key in (*self.paired, *(key for key in other.paired if key not in self.paired))
            },
        )


def _merged(
    left: Mapping[tuple[str, str], tuple[Any, ...]],
    right: Mapping[tuple[str, str], tuple[Any, ...]],
) -> dict[tuple[str, str], tuple[Any, ...]]:
    joined = dict(left)
    for key, states in right.items():
        mine = joined.get(key)
        joined[key] = (
            states if mine is None else tuple(a + b for a, b in zip(mine, states, strict=True))
        )
    return joined


@dataclass(frozen=True, eq=False)
class Pass:
    """The function that turns a batch into its part of the sums of one reward."""

    groups: Sequence[list[Job]]
    main: Sequence[list[Job]]
    cuts: Sequence[Cut]
    by_unit: bool
    auditor: Auditor | None = None
    #: Whether targets are compared with each other in every segment.
    paired: bool = False
    #: Whether the rows that move an estimate most are kept.
    tops: bool = True

    def __call__(self, batch: RankingLog) -> PassState:
        """Return the sums of a batch."""
        return self.part(batch, self.views(batch))[0]

    def views(self, batch: RankingLog, like: Mapping[str, View] | None = None) -> dict[str, View]:
        """Return the batch as each target sees it; `like` are the views of another reward."""
        targets = dict.fromkeys(group[0].target for group in self.groups)
        return {name: View(batch, name, None if like is None else like[name]) for name in targets}

    def part(
        self, batch: RankingLog, views: Mapping[str, View], seen: Fingerprint | None = None
    ) -> tuple[PassState, list[Floats]]:
        """Return the sums of a batch, and the row totals behind the recommended estimates.

        The first total is what the logger earned (n,). `seen` is the batch's fingerprint, where it is
        known.
        """
        columns = [batch.reward @ batch.position_weights]
        chosen = [columns[0]]
        states: list[Any] = []
        tops: list[TopRows | None] = []
        main = {id(group) for group in self.main}
        for group in self.groups:
            part = group[0].plan.partial(views[group[0].target])
            states.append(part.state)
            columns.extend(part.totals.T)
            if id(group) in main:
                chosen.extend(part.totals.T)
            kept = self.tops and part.totals.shape[1] == 1
            tops.append(top_rows_of(batch.rows, part.totals[:, 0]) if kept else None)
        segments, paired = {}, {}
        for cut in self.cuts:
            for label, rows in cut.groups(batch):
                if self.paired:
                    bucket = batch.bucket[rows] if self.by_unit else None
                    with np.errstate(over="ignore", invalid="ignore"):
                        paired[cut.column, label] = totals_of(np.stack(chosen)[:, rows], bucket)
                key = ("segment", cut.column, label)
                segments[(cut.column, label)] = tuple(
                    group[0].plan.partial(views[group[0].target].part(key, rows)).state
                    for group in self.main
                )
        # Weights too large for a number are reported by the estimator they belong to.
        with np.errstate(over="ignore", invalid="ignore"):
            totals = totals_of(np.stack(columns), batch.bucket if self.by_unit else None)
        looked = Tallies(()) if self.auditor is None else _audited(self.auditor, batch, views)
        state = PassState(
            tuple(states), totals, segments, fingerprint_of(batch) if seen is None else seen,
            reward_range(batch.reward), tuple(tops), looked, paired,
        )  # fmt: skip
        return state, chosen


@dataclass(frozen=True, slots=True, eq=False)
class JointState:
    """The sums of every measure, and of all their row totals together.

    Totals stand measure by measure: what the logger earned, then the plans'; the number of items
    shown is last.
    """

    parts: tuple[PassState, ...]
    totals: RowTotals

    def __add__(self, other: Self) -> Self:
        parts = tuple(a + b for a, b in zip(self.parts, other.parts, strict=True))
        return type(self)(parts, self.totals + other.totals)


@dataclass(frozen=True, eq=False)
class JointPass:
    """The function that turns a batch into the sums of several measures: ratios and draws once."""

    passes: Sequence[Pass]
    measures: Sequence[Callable[[RankingLog], RankingLog]]

    def __call__(self, batch: RankingLog) -> JointState:
        """Return the sums of a batch."""
        parts: list[PassState] = []
        columns: list[Floats] = []
        first: dict[str, View] | None = None
        for one, measure in zip(self.passes, self.measures, strict=True):
            own = measure(batch)
            views = one.views(own, first)
            first = views if first is None else first
            part, chosen = one.part(own, views, parts[0].fingerprint if parts else None)
            parts.append(part)
            columns.extend(chosen)
        columns.append(batch.lengths.astype(np.float64))
        with np.errstate(over="ignore", invalid="ignore"):
            by_unit = self.passes[0].by_unit
            totals = totals_of(np.stack(columns), batch.bucket if by_unit else None)
        return JointState(tuple(parts), totals)


def _audited(auditor: Auditor, batch: RankingLog, views: Mapping[str, View]) -> Tallies:
    """Return the audit's counts of a batch, with what the estimators have already formed of it."""

    def ratios(part: RankingLog, name: str) -> Ratios:
        return views[name].ratios if part is batch else ratios_of(part, name)

    return auditor.partial(batch, ratios, lambda name: views[name].position_sums)


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """The row totals of a pass, and which columns belong to which plan; column 0 is the logger."""

    totals: RowTotals
    states: Mapping[Hashable, Any]
    offsets: Mapping[Hashable, int]

    def combination(self, job: Job) -> Floats:
        """Return how the job's estimate combines the columns (T,)."""
        return self._placed(job, job.plan.combination(self.states[job.plan.key]))

    def error_combination(self, job: Job) -> Floats:
        """Return the combination of columns (T,) whose error is that of the job's estimate."""
        return self._placed(job, job.plan.error_combination(self.states[job.plan.key]))

    def _placed(self, job: Job, own: Floats) -> Floats:
        result = np.zeros(len(self.totals.sums))
        first = self.offsets[job.plan.key]
        result[first : first + len(own)] = own
        return result

    def stderr_of_difference(self, left: Job, right: Job) -> float:
        """Return the standard error of the difference of two estimates on the same rows."""
        combined = [
            self._placed(job, job.plan.error_combination(self.states[job.plan.key]))
            for job in (left, right)
        ]
        return float(np.sqrt(self.totals.variance(combined[0] - combined[1])))

    def effective_outcomes(self, job: Job) -> float:
        """Return (sum |t|)^2 / sum t^2 of the row totals t.

        With 0/1 rewards and even weights these are the rows with a 1.

        The smaller of the logger's own and, where the estimate is one column, the estimate's.
        """
        used = np.flatnonzero(self.combination(job))
        columns = [0, int(used[0])] if len(used) == 1 else [0]
        square, absolute = self.totals.gram.diagonal()[columns], self.totals.absolute[columns]
        return float(
            np.divide(absolute**2, square, out=np.zeros_like(square), where=square > 0).min()
        )


def pairing(jobs: Sequence[Job], states: Mapping[Hashable, Any], totals: RowTotals) -> Pairing:
    """Return the pairing of jobs whose states stand in the order of the pass."""
    plans = {job.plan.key: job.plan for job in jobs}
    offsets, first = {}, 1
    for key, state in states.items():
        offsets[key] = first
        first += len(plans[key].combination(state))
    return Pairing(totals, states, offsets)
