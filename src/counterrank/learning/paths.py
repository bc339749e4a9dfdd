"""Best of m: unbiased weights and lifts of the policy that serves the best of m drawn rankings.

Let B of L fresh draws of the logger for a row lie below the logged ranking by the list value q. The
weight of best of m is m C(B, m-1) / C(L, m-1), and its mean of q is sum_j C(j-1, m-1) / C(L, m) q_(j)
over the sorted draws. Both are averages over all sets of m draws, so both are unbiased, for every m
from the same draws.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.data.source import reporter
from counterrank.learning.guardrails import WatchedRewards
from counterrank.models import policy_draws
from counterrank.policies import Policy, RowRandom, drawn_weight, without_rounding

#: Takes rows of the log (b,) and rankings of them (b, D, K), returns list values (b, D).
ListValue = Callable[[Ints, Ints], Floats]

#: Rankings that are drawn and scored at a time: memory stays bounded whatever the size of the log.
_BLOCK = 8_192
#: The random stream of the keys that break ties, apart from that of the rankings.
_TIES = 1


@dataclass(frozen=True, slots=True, eq=False)
class DrawnValues:
    """List values of the logged rankings `own` (n,) and of drawn ones (n, L), sorted, and how many lie below."""

    own: Floats
    ordered: Floats
    below: Ints

    @property
    def draws(self) -> int:
        """Number of reference draws per row."""
        return int(self.ordered.shape[1])

    def weight(self, m: int) -> Floats:
        """Return unbiased weights (n,) of best-of-m against the logger, each in [0, m]."""
        return drawn_weight(self.below, self.draws, m)

    def mean(self, m: int, cap: float) -> Floats:
        """Return unbiased means (n,) of min(q, cap) under best-of-m."""
        values: Floats = np.minimum(self.ordered, cap) @ best_of_shares(self.draws, m)
        return values


def best_of_shares(draws: int, m: int) -> Floats:
    """Return how often each of L sorted draws is the best of m of them: C(j-1, m-1) / C(L, m).

    >>> best_of_shares(3, 2).round(4).tolist()
    [0.0, 0.3333, 0.6667]
    """
    # Whole numbers, divided once, so that nothing is rounded before.
    whole = comb(draws, m)
    return np.array([comb(j, m - 1) / whole for j in range(draws)])


def draw(
    log: RankingLog, logger: Policy, value: ListValue, draws: int, seeds: tuple[int, ...]
) -> DrawnValues:
    """Return list values of the logged rankings and of `draws` fresh ones of each row.

    Each row has random numbers of its own, a function of `seeds` and its number.
    """
    progress = reporter()
    progress.begin("drawing rankings", log.n)
    own, below = np.empty(log.n), np.empty(log.n, dtype=np.int64)
    ordered = np.empty((log.n, draws))
    size = max(1, _BLOCK // draws)
    for first in range(0, log.n, size):
        rows = np.arange(first, min(first + size, log.n))
        part = log.take(rows)
        policy = logger if logger.n_rows == 1 else logger.take(rows)
        # A ranking that is drawn again must tie with itself, whichever batch it is scored in.
        logged = without_rounding(value(rows, part.action[:, None, :]))
        drawn = without_rounding(value(rows, policy_draws(part, policy, draws, seeds)))
        # Ties are broken by random keys: then ranks are uniform under the logger, whatever q is.
        keys = RowRandom(part.numbers, [*seeds, _TIES]).random((len(rows), 1 + draws))
        tied = (drawn == logged) & (keys[:, 1:] < keys[:, :1])
        own[rows], below[rows] = logged[:, 0], ((drawn < logged) | tied).sum(axis=1)
        ordered[rows] = np.sort(drawn, axis=1)
        progress.advance(len(rows))
    return DrawnValues(own, ordered, below)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Rows of one side of the split, with list values of logged and of drawn rankings.

    `totals` (n,) are rewards of rankings less `shift`, so that none is below zero; `most` is the
    largest they can be. `unit` (n,) is the number of each row's unit, or of the row where the log has
    none; `rails` are the guardrails on these rows.
    """

    log: RankingLog
    unit: Ints
    totals: Floats
    most: float
    shift: float
    drawn: DrawnValues
    rails: Sequence[WatchedRewards] = ()

    @property
    def counts(self) -> Floats:
        """The number of rows of each unit."""
        return self.summed(np.ones(self.log.n))

    def summed(self, values: Floats) -> Floats:
        """Return sums over units of values by row."""
        return np.bincount(self.unit, values).astype(np.float64)

    def lifts(self, m: int, cap: float) -> Floats:
        """Return unbiased paired lifts (n,) of best-of-m over the logger, with min(q, cap) as control variate.

        (w - 1)(r - c) + E_m c - E_1 c: the control has mean zero whatever q is.
        """
        w = self.drawn.weight(m)
        control = np.minimum(self.drawn.own, cap)
        gain: Floats = (
            (w - 1.0) * (self.totals - control) + self.drawn.mean(m, cap) - self.drawn.mean(1, cap)
        )
        return gain

    def expected(self, m: int) -> float:
        """Return the lift that the model expects of best-of-m."""
        return float((self.drawn.mean(m, np.inf) - self.drawn.mean(1, np.inf)).mean())

    def lowest(self, m: int, cap: float) -> float:
        """Return a number below which no lift can lie: w = m, r = 0, c = cap, or w = 0, r = most, c = 0."""
        return -max((m - 1) * cap, self.most)
