"""Tiny worlds that can be enumerated, so that expectations are sums and unbiasedness is an equality."""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.data.log import RankingLog

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Space:
    """A world of X contexts, A actions and K positions with independent positions and known expected rewards.

    `logging` and `target` (X, A); `quality` (X, A^K, K) is E[r_k | x, a] for every ranking in
    `rankings` (A^K, K).
    """

    logging: Floats
    target: Floats
    rankings: Ints
    quality: Floats

    @property
    def value(self) -> Floats:
        """The target's true V_k (K,), by enumeration."""
        value: Floats = np.einsum("xs,xsk->k", self._probability(self.target), self.quality) / len(
            self.logging
        )
        return value

    def _probability(self, table: Floats) -> Floats:
        return np.stack([row[self.rankings].prod(axis=1) for row in table])  # (X, A^K)


def space(
    rng: np.random.Generator,
    *,
    contexts: int = 2,
    actions: int = 3,
    length: int = 3,
    mask: NDArray[np.bool_] | None = None,
) -> Space:
    """Return a random world where r_k depends on the items of `mask` (K, K) alone (on all, by default).

    Logging probabilities are multiples of 1/4, so that a log in which every ranking stands as often
    as its probability demands has whole numbers of rows.
    """
    quarters = np.stack([rng.permutation(_quarters(actions)) for _ in range(contexts)])
    target = rng.dirichlet(np.ones(actions), size=contexts)
    rankings = np.array(list(itertools.product(range(actions), repeat=length)))
    relevant = np.ones((length, length), dtype=bool) if mask is None else mask
    quality = np.empty((contexts, len(rankings), length))
    for k in range(length):
        seen = rankings[:, relevant[k]]
        # Rankings alike in what matters get one value: that is what the mask says.
        _, group = np.unique(seen, axis=0, return_inverse=True)
        values = rng.normal(1.0, 1.0, size=(contexts, int(group.max()) + 1))
        quality[:, :, k] = values[:, np.asarray(group).reshape(-1)]
    return Space(quarters / 4.0, target, rankings, quality)


def _quarters(actions: int) -> Ints:
    if not 2 <= actions <= 4:
        raise ValueError("an exact space has 2, 3 or 4 actions")
    counts = np.ones(actions, dtype=np.int64)
    counts[0] += 4 - actions
    return counts


def exact_log(world: Space) -> RankingLog:
    """Return a log in which every (context, ranking) stands exactly in proportion to its probability.

    A mean over its rows is an expectation, so an unbiased estimator must give the true value to
    rounding.
    """
    contexts, actions = world.logging.shape
    length = world.rankings.shape[1]
    rows, where = [], []
    for x in range(contexts):
        # Quarters: the product over K positions is a whole number of rows out of 4^K.
        counts = np.rint(4 * world.logging[x]).astype(np.int64)[world.rankings].prod(axis=1)
        rows.append(np.repeat(np.arange(len(world.rankings)), counts))
        where.append(np.full(counts.sum(), x))
    ranking, context = np.concatenate(rows), np.concatenate(where)
    action = world.rankings[ranking]
    at = context[:, None]
    return RankingLog(
        action=action,
        reward=world.quality[context, ranking],
        propensity=world.logging[at, action],
        context=context[:, None].astype(np.float64),
        targets={"new": world.target[at, action]},
        dists={"propensity": world.logging[context], "new": world.target[context]},
        unit=np.arange(len(action)) % max(len(action) // length, 2),
    )


def drawn_log(world: Space, n: int, rng: np.random.Generator, *, noise: float = 0.3) -> RankingLog:
    """Return n rankings drawn from a world, with Gaussian noise on the rewards, without units."""
    contexts, actions = world.logging.shape
    length = world.rankings.shape[1]
    context = rng.integers(0, contexts, n)
    steps = world.logging.cumsum(axis=1)[context]  # (n, A)
    action = (
        # The last step may fall short of one by rounding: what lies above belongs to the last
        # action.
        (rng.random((n, length))[:, :, None] > steps[:, None, :]).sum(axis=2).clip(max=actions - 1)
    )
    ranking = action @ actions ** np.arange(length)[::-1]  # its place in `rankings`
    at = context[:, None]
    return RankingLog(
        action=action,
        reward=world.quality[context, ranking] + noise * rng.normal(size=(n, length)),
        propensity=world.logging[at, action],
        context=at.astype(np.float64),
        targets={"new": world.target[at, action]},
        dists={"propensity": world.logging[context], "new": world.target[context]},
    )


def random_log(
    rng: np.random.Generator, *, n: int = 400, length: int = 3, actions: int = 3
) -> RankingLog:
    """Return an ordinary random log with context, units, whole distributions and one target "new"."""
    # Dirichlet(3) below: no propensity near zero, or laws that hold to 1e-9 would drown in
    # rounding.
    context = rng.normal(size=(n, 2))
    tables = [rng.dirichlet(np.full(actions, 3.0), size=n) for _ in range(2)]
    cumulative = tables[0].cumsum(axis=1)
    action = (
        (rng.random((n, length))[:, :, None] > cumulative[:, None, :])
        .sum(axis=2)
        .clip(0, actions - 1)
    )
    base = rng.normal(1.0, 1.0, size=(actions, 2))
    reward = (
        base[action, 0] + base[np.roll(action, 1, axis=1), 1] + 0.2 * rng.normal(size=(n, length))
    )
    rows = np.arange(n)[:, None]
    return RankingLog(
        action=action,
        reward=reward,
        propensity=tables[0][rows, action],
        context=context,
        targets={"new": tables[1][rows, action]},
        dists={"propensity": tables[0], "new": tables[1]},
        unit=rng.permutation(n),
    )
