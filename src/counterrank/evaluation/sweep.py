"""The second stage of an evaluation: one pass over the log sums every column of every fit, and checks the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from counterrank.checks import Tallies
from counterrank.common.arrays import Floats, Summed
from counterrank.data.columns import Segmentation
from counterrank.data.fingerprint import Fingerprint, with_pages
from counterrank.data.log import RankingLog
from counterrank.estimators import SHOWN, Columns, LogSums, View, logged, summed
from counterrank.estimators.weights.diagnostics import TopRows, top_rows_of
from counterrank.estimators.weights.ratios import LoggerAnswers
from counterrank.evaluation.fit import Fit, MetricFits
from counterrank.evaluation.freshness import time_ends
from counterrank.evaluation.result import COUNTED_UNITS
from counterrank.statistics import Key

#: A column and a label.
Group = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Sweep:
    """The function that turns a batch into the sums of every column, each made once.

    ============  =============================================================================
    `metrics`     the fits of each metric
    `cuts`        how rows are grouped
    `by_unit`     whether errors are clustered by unit
    `paired`      whether targets are compared with each other at each position
    `checked`     whether the rows are checked, too
    ============  =============================================================================
    """

    metrics: Sequence[MetricFits]
    cuts: Sequence[Segmentation] = ()
    by_unit: bool = False
    paired: bool = False
    checked: bool = True

    def __call__(self, batch: RankingLog) -> SweepSums:
        """Return the sums of a batch."""
        totals: dict[Key, Floats] = {SHOWN: batch.lengths.astype(np.float64)}
        columns: dict[Key, Columns] = {}
        groups: dict[Key, Columns] = {}
        tops: dict[Key, TopRows] = {}
        tallies: list[Tallies] = []
        rewards: list[Range] = []
        fingerprint = None
        for fits, rewarded, views in self._views(batch):
            totals[logged(fits.metric)] = rewarded.reward @ rewarded.position_weights
            # Weights of all rows first: those of some rows are among them.
            for fit in sorted(fits.fits, key=lambda fit: not fit.traits.weighs_alone):
                numbers = fit.fitted.columns(views[fit.target])
                columns[fit.fitted.key] = numbers
                if fit in fits.recommended.values():
                    groups[fit.fitted.key] = numbers
                key = fit.fitted.mean_of
                if fits.primary and self.checked and key is not None:
                    moved = numbers.totals[key]
                    moved = moved if batch.weight is None else moved * batch.weight
                    tops[key] = top_rows_of(batch.rows, moved)
            if self.checked:
                pages = None
                if fingerprint is None:
                    fingerprint, pages = with_pages(rewarded)
                tallies.append(fits.auditor.partial(rewarded, views, pages))
                rewards.append(reward_range(rewarded.reward))
        times = self.metrics[0].auditor.subject.time
        ends = time_ends(batch, times) if self.checked and times else None
        all_rows = summed(
            batch, totals, columns, by_unit=self.by_unit, together=self._fits_by_name()
        )
        parts = {
            (cut.column, label): summed(batch, totals, groups, rows, by_unit=self.by_unit)
            for cut in self.cuts
            for label, rows in cut.groups(batch)
        }
        period = None if ends is None else Range(*ends.astype("datetime64[s]").astype(float))
        units = None if batch.unit is None else UnitSet(frozenset(batch.unit.tolist()))
        return SweepSums(
            all_rows, parts, fingerprint, tuple(tallies), tuple(rewards), tops, period, units
        )

    def _views(self, batch: RankingLog) -> Iterator[tuple[MetricFits, RankingLog, dict[str, View]]]:
        """Yield each metric's batch, and its views by target; those of one target share ratios and draws."""
        # All of them are made first: what weights alone say is summed for all rewards in one pass.
        waiting: deque[tuple[MetricFits, RankingLog, dict[str, View]]] = deque()
        first: dict[tuple[str, bool], View] = {}
        by_logger: LoggerAnswers = {}
        for fits in self.metrics:
            rewarded, views = fits.source.change(batch), {}
            for target in dict.fromkeys(fit.target for fit in fits.fits):
                # Ratios and draws are those of the first reward, all else that does not depend on rewards
                # that of the first one which is of the page as well, or is not.
                alike, unlike = (target, rewarded.page_reward), (target, not rewarded.page_reward)
                shared = first.get(alike) or first.get(unlike)
                views[target] = View(rewarded, target, shared, by_logger=by_logger)
                first.setdefault(alike, views[target])
            waiting.append((fits, rewarded, views))
        while waiting:
            yield waiting.popleft()

    def _fits_by_name(self) -> list[list[Key]]:
        """Return fits of one metric and name, whose columns at positions are compared between targets."""
        if not self.paired:
            return []
        alike: dict[tuple[str, str], list[Fit]] = {}
        for fits in self.metrics:
            for fit in fits.fits:
                alike.setdefault((fit.metric, fit.name), []).append(fit)
        return [[fit.fitted.key for fit in fits] for fits in alike.values()]


@dataclass(frozen=True, slots=True, eq=False)
class SweepSums(Summed):
    """The sum over batches of what an evaluation needs.

    `all_rows` are the sums over all rows and `groups` those over groups of them; `tallies` is what was counted
    for the checks of each metric, `rewards` the range of its rewards, `tops` the rows that move an estimate
    most, by the key of its total; `units` are those of the rows, where the log has some.
    """

    all_rows: LogSums
    groups: Mapping[Group, LogSums] = field(default_factory=dict)
    fingerprint: Fingerprint | None = None
    tallies: tuple[Tallies, ...] = ()
    rewards: tuple[Range, ...] = ()
    tops: Mapping[Key, TopRows] = field(default_factory=dict)
    #: Of the times of the rows, where a column has them.
    period: Range | None = None
    units: UnitSet | None = None


@dataclass(frozen=True, slots=True, eq=False)
class UnitSet:
    """The units of some rows; no further ones are added to as many as are counted."""

    values: frozenset[Any]

    def __add__(self, addend: Self) -> Self:
        # Of very many it is enough to know that they are, and sets stay small.
        return (
            self if len(self.values) >= COUNTED_UNITS else type(self)(self.values | addend.values)
        )

    @property
    def count(self) -> int:
        """How many there are, or `COUNTED_UNITS` for as many or more."""
        return min(len(self.values), COUNTED_UNITS)


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """The smallest and largest reward at each position (K,), of which 0 is always possible; or time in seconds."""

    low: Floats
    high: Floats

    def __add__(self, other: Self) -> Self:
        return type(self)(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def of_value(self, alpha: Floats) -> tuple[float, float]:
        """Return the least and most that sum_k alpha_k r_k can come to.

        >>> Range(np.zeros(2), np.ones(2)).of_value(np.array([1.0, -0.5]))
        (-0.5, 1.0)
        """
        ends = np.stack([alpha * self.low, alpha * self.high])
        return float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())


#: Rankings laid side by side: NumPy takes extremes along long rows several times faster.
_SIDE_BY_SIDE = 64


def reward_range(reward: Floats) -> Range:
    """Return the range of rewards (n, K); padding counts as 0, which is in it anyway.

    >>> reward_range(np.array([[1.0, -2.0], [3.0, -1.0]])).high.tolist()
    [3.0, 0.0]
    """
    n, length = reward.shape
    even = n // _SIDE_BY_SIDE * _SIDE_BY_SIDE
    parts = (reward[:even].reshape(-1, _SIDE_BY_SIDE * length), reward[even:])
    ends = [
        [fold(rows, axis=0, initial=0.0).reshape(-1, length) for rows in parts]
        for fold in (np.min, np.max)
    ]
    return Range(np.concatenate(ends[0]).min(axis=0), np.concatenate(ends[1]).max(axis=0))
