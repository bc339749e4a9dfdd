"""The one pass over the log: all estimators, targets, metrics and segments at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from counterrank.arrays import Floats, Summed
from counterrank.checks import Auditor, Tallies
from counterrank.data.columns import Segmentation
from counterrank.data.fingerprint import Fingerprint, with_pages
from counterrank.data.log import RankingLog
from counterrank.estimators import View
from counterrank.estimators.weights.diagnostics import TopRows, top_rows_of
from counterrank.evaluation.jobs import Job
from counterrank.statistics import Sums, sums_of

#: A column and a label.
Group = tuple[str, str]


@dataclass(frozen=True, eq=False)
class RewardPass:
    """What is summed of one reward: how a log gets it, the jobs that share a state, and the audit."""

    measure: Callable[[RankingLog], RankingLog]
    groups: Sequence[list[Job]]
    #: The groups with a recommended estimator.
    main: Sequence[list[Job]]
    auditor: Auditor | None
    #: Whether the rows that move an estimate most are kept.
    tops: bool
    #: Numbers of groups whose lifts are over an estimate of the group beside it.
    over: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, eq=False)
class Pass:
    """The function that turns a batch into the sums of every reward: ratios and draws once."""

    rewards: Sequence[RewardPass]
    cuts: Sequence[Segmentation]
    by_unit: bool
    #: Whether targets are compared with each other in every segment.
    paired: bool

    def __call__(self, batch: RankingLog) -> JointState:
        """Return the sums of a batch."""
        shown = batch.lengths.astype(np.float64)
        shown = shown if batch.weight is None else shown * batch.weight
        parts: list[PassState] = []
        columns: list[Floats] = []
        first: dict[tuple[str, bool], View] = {}
        for one in self.rewards:
            own = one.measure(batch)
            views = {}
            for name in dict.fromkeys(group[0].target for group in one.groups):
                # Ratios and draws are those of the first reward, all else that does not depend on rewards
                # that of the first one which is of the page as well, or is not.
                alike, other = (name, own.page_reward), (name, not own.page_reward)
                views[name] = View(own, name, first.get(alike) or first.get(other))
                first.setdefault(alike, views[name])
            seen = parts[0].fingerprint if parts else None
            part, chosen = self._part(one, own, views, shown, seen)
            parts.append(part)
            columns.extend(chosen)
        if len(parts) == 1:
            return JointState(tuple(parts), parts[0].totals)
        return JointState(tuple(parts), self._sums([*columns, shown], batch))

    def _part(
        self, one: RewardPass, batch: RankingLog, views: Mapping[str, View], shown: Floats,
        seen: Fingerprint | None,
    ) -> tuple[PassState, list[Floats]]:  # fmt: skip
        """Return the sums of a batch, and the row totals behind the recommended estimates.

        The first total is what the logger earned (n,). `shown` (n,) is the number of items shown,
        `seen` the batch's fingerprint, where it is known.
        """
        earned: Floats = batch.reward @ batch.position_weights
        columns = [earned if batch.weight is None else earned * batch.weight]
        chosen = [columns[0]]
        states: list[Any] = []
        tops: list[TopRows | None] = []
        places = []
        main = {id(group) for group in one.main}
        for group in one.groups:
            part = group[0].plan.partial(views[group[0].target])
            states.append(part.state)
            places.append(part.places)
            own = part.columns()
            columns.extend(own)
            if id(group) in main:
                chosen.extend(own)
            kept = one.tops and len(own) == 1
            tops.append(top_rows_of(batch.rows, own[0]) if kept else None)
        segments, paired = {}, {}
        for cut in self.cuts:
            for label, rows in cut.groups(batch):
                if self.paired:
                    some = [total[rows] for total in chosen]
                    paired[cut.column, label] = self._sums(some, batch, rows)
                key = ("segment", cut.column, label)
                segments[cut.column, label] = tuple(
                    group[0].plan.partial(views[group[0].target].part(key, rows)).state
                    for group in one.main
                )
        beside = {
            (new, old): tuple(
                self._sums([*places[new](k), *places[old](k)], batch) for k in range(batch.K)
            )
            for new, old in one.over
        }
        pages = None
        if seen is None:
            seen, pages = with_pages(batch)
        looked = Tallies(()) if one.auditor is None else one.auditor.partial(batch, views, pages)
        state = PassState(
            tuple(states), self._sums([*columns, shown], batch), segments, seen,
            reward_range(batch.reward), tuple(tops), looked, paired, beside,
        )  # fmt: skip
        return state, chosen

    def _sums(self, columns: Sequence[Floats], batch: RankingLog, rows: Any = ...) -> Sums:
        weight = None if batch.weight is None else batch.weight[rows]
        return sums_of(columns, batch.bucket[rows] if self.by_unit else None, weight)


@dataclass(frozen=True, slots=True, eq=False)
class PassState(Summed):
    """The sum over batches of what an evaluation needs of one reward."""

    states: tuple[Any, ...]
    #: Row totals: what the logger earned, the plans', and the number of items shown.
    totals: Sums
    segments: Mapping[Group, tuple[Any, ...]]
    fingerprint: Fingerprint
    rewards: RewardRange
    #: The rows that move each plan's estimate most, where its total is one number per row.
    tops: tuple[TopRows | None, ...] = ()
    audit: Tallies = field(default_factory=lambda: Tallies(()))
    #: Row totals of the recommended estimates in each segment, what the logger earned first; where
    #: targets are compared with each other.
    paired: Mapping[Group, Sums] = field(default_factory=dict)
    #: Columns of each position of two groups of jobs, where the lift of one is over the other.
    beside: Mapping[tuple[int, int], tuple[Sums, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class JointState(Summed):
    """The sums of every reward, and of all their row totals together.

    Of several rewards the totals of recommended estimates stand reward by reward: what the logger
    earned, then the plans'. The number of items shown is last.
    """

    parts: tuple[PassState, ...]
    totals: Sums


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
