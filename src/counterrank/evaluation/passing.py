"""The one pass over the log: all estimators, targets and segments at once, and how their totals
vary together.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.audit import Auditor, Tallies
from counterrank.diagnostics import TopRows, top_rows_of
from counterrank.estimators import View
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.segments import Cut
from counterrank.fingerprint import Fingerprint, fingerprint_of
from counterrank.inference import clustered_variances
from counterrank.log import RankingLog

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Sums and Gram matrix of per-row totals: column 0 is what the logger earned, then those of
    each plan.

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
        """Number of independent pieces: rows, or used buckets of units (at most 1024) when
        clustered.
        """
        return self.n if self.buckets is None else int((self.buckets[:, -1] > 0).sum())

    def variance(self, combination: Floats) -> float:
        """Return the variance of the mean of a combination of the columns (T,); NaN from one row or
        unit.
        """
        if self.units < 2:
            return float("nan")
        if self.buckets is not None:
            sums, counts = self.buckets[:, :-1] @ combination, self.buckets[:, -1]
            return float(clustered_variances(sums[:, None], counts)[0])
        mean = self.sums / self.n
        spread = self.gram / self.n - np.outer(mean, mean)
        return max(float(combination @ spread @ combination), 0.0) / (self.n - 1)


def totals_of(columns: Floats, bucket: NDArray[np.int64] | None) -> Totals:
    """Return the sums of one batch of totals (n, T)."""
    table = None
    if bucket is not None:
        from counterrank.kernels.hashing import BUCKETS

        table = np.zeros((BUCKETS, columns.shape[1] + 1))
        np.add.at(table[:, :-1], bucket, columns)
        table[:, -1] = np.bincount(bucket, minlength=BUCKETS)
    return Totals(
        len(columns), columns.sum(axis=0), columns.T @ columns, np.abs(columns).sum(axis=0), table
    )


@dataclass(frozen=True, slots=True, eq=False)
class RewardRange:
    """The smallest and largest reward seen at each position (K,); 0, nothing earned, is always
    possible.
    """

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


@dataclass(frozen=True, slots=True, eq=False)
class PassState:
    """The sum over batches of everything an evaluation needs."""

    states: tuple[Any, ...]
    totals: Totals
    segments: Mapping[tuple[str, str], tuple[Any, ...]]
    fingerprint: Fingerprint
    rewards: RewardRange
    #: The rows that move each plan's estimate most, where its total is one number a row.
    tops: tuple[TopRows | None, ...] = ()
    audit: Tallies = field(default_factory=lambda: Tallies(()))

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


def make_partial(
    groups: Sequence[list[Job]],
    main: Sequence[list[Job]],
    cuts: Sequence[Cut],
    *,
    by_unit: bool,
    auditor: Auditor | None = None,
) -> Callable[[RankingLog], PassState]:
    """Return the function that turns a batch into its part of the sums."""

    def partial(batch: RankingLog) -> PassState:
        views = {group[0].target: View(batch, group[0].target) for group in groups}
        columns = [batch.reward @ batch.position_weights]
        states: list[Any] = []
        tops: list[TopRows | None] = []
        for group in groups:
            part = group[0].plan.partial(views[group[0].target])
            states.append(part.state)
            columns.extend(part.totals.T)
            tops.append(
                top_rows_of(batch.rows, part.totals[:, 0]) if part.totals.shape[1] == 1 else None
            )
        segments = {}
        for cut in cuts:
            for label, rows in cut.groups(batch):
                piece = batch.take(rows)
                segments[(cut.column, label)] = tuple(
                    group[0].plan.partial(View(piece, group[0].target)).state for group in main
                )
        # Weights too large for a number are reported by the estimator they belong to.
        with np.errstate(over="ignore", invalid="ignore"):
            totals = totals_of(np.stack(columns).T, batch.bucket if by_unit else None)
        # Padding counts as 0, which is in the range anyway.
        tall = next(iter(views.values())).reward.T
        rewards = RewardRange(tall.min(axis=1, initial=0.0), tall.max(axis=1, initial=0.0))
        looked = (
            auditor.partial(batch, lambda _, name: views[name].ratios)
            if auditor is not None
            else Tallies(())
        )
        return PassState(
            tuple(states), totals, segments, fingerprint_of(batch), rewards, tuple(tops), looked
        )

    return partial


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """The row totals of a pass and which of their columns belong to which plan; column 0 is the
    logger.
    """

    totals: Totals
    states: Mapping[Hashable, Any]
    offsets: Mapping[Hashable, int]

    def combination(self, job: Job) -> Floats:
        """Return how the job's estimate combines the columns (T,)."""
        return self._placed(job, job.plan.combination(self.states[job.plan.key]))

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
        """Return (sum |t|)^2 / sum t^2 of the row totals t: with 0/1 rewards and even weights, the
        rows with a 1.

        The smaller of the logger's own and, where the estimate is one column, the estimate's.
        """
        used = np.flatnonzero(self.combination(job))
        columns = [0, int(used[0])] if len(used) == 1 else [0]
        square, absolute = self.totals.gram.diagonal()[columns], self.totals.absolute[columns]
        return float(
            np.divide(absolute**2, square, out=np.zeros_like(square), where=square > 0).min()
        )


def pairing(jobs: Sequence[Job], states: Mapping[Hashable, Any], totals: Totals) -> Pairing:
    """Return the pairing of jobs whose states stand in the order of the pass."""
    plans = {job.plan.key: job.plan for job in jobs}
    offsets, first = {}, 1
    for key, state in states.items():
        offsets[key] = first
        first += len(plans[key].combination(state))
    return Pairing(totals, states, offsets)
