"""What fresh draws of the logger say about a list value q: weights of best-of-m policies and their
means of q.

With L draws of a row, B of them below the logged ranking, m C(B, m-1) / C(L, m-1) is the weight of
best-of-m, and sum_j C(j-1, m-1) / C(L, m) q_(j) over the sorted draws its mean of q: both are
averages over all sets of m draws, so both are unbiased, for every m from the same draws.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.policies import Policy, drawn_weight, settled
from counterrank.progress import reporter

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Takes rows of the log (b,) and rankings of them (b, D, K), returns list values (b, D).
ListValue = Callable[[Ints, Ints], Floats]

#: Rankings that are drawn and scored at a time. Memory stays bounded whatever the log's size, and
#: arrays of their features small enough to be used again instead of asked for anew.
_BLOCK = 8_192


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """List values of the logged rankings `own` (n,) and of drawn ones (n, L), sorted, and how many
    lie below.
    """

    own: Floats
    ordered: Floats
    below: Ints

    @property
    def draws(self) -> int:
        """Number of reference draws a row."""
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
    whole = comb(draws, m)
    return np.array([comb(j, m - 1) / whole for j in range(draws)])


def draw(
    log: RankingLog, logger: Policy, value: ListValue, draws: int, rng: np.random.Generator
) -> Drawn:
    """Return list values of the logged rankings and of `draws` fresh ones of each row."""
    told = reporter()
    told.begin("drawing rankings", log.n)
    own, ordered = np.empty(log.n), np.empty((log.n, draws))
    below = np.empty(log.n, dtype=np.int64)
    for rows, rankings in blocks(log, logger, draws, rng):
        at = np.arange(log.n)[rows]
        own[rows] = settled(value(at, log.action[rows][:, None, :])[:, 0])
        drawn = settled(value(at, rankings))
        # Ties are broken by random keys: then ranks are uniform under the logger, whatever q is.
        keys, mine = rng.random(drawn.shape), rng.random(len(at))
        ties = drawn == own[rows][:, None]
        below[rows] = ((drawn < own[rows][:, None]) | (ties & (keys < mine[:, None]))).sum(axis=1)
        ordered[rows] = np.sort(drawn, axis=1)
        told.advance(len(at))
    return Drawn(own, ordered, below)


def blocks(
    log: RankingLog, logger: Policy, draws: int, rng: np.random.Generator
) -> Iterator[tuple[slice, Ints]]:
    """Yield slices of rows with fresh rankings (b, draws, K) of the logger."""
    size = max(1, _BLOCK // draws)
    for first in range(0, log.n, size):
        rows = slice(first, min(first + size, log.n))
        count = rows.stop - rows.start
        if logger.n_rows == 1:
            yield rows, logger.sample(log.K, rng, size=count * draws).reshape(count, draws, log.K)
        else:
            yield rows, logger.take(rows).sample(log.K, rng, size=draws)
