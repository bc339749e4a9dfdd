"""Small worlds that can be enumerated, so that unbiasedness can be tested as an equality."""

import itertools
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.policies import Factored


@dataclass(frozen=True, slots=True)
class Space:
    """A world of X contexts, A actions and K positions with factored policies and known expected rewards.

    Parameters
    ----------
    logging, target
        Item probabilities (X, A) of the two policies.
    rankings
        All rankings (A^K, K).
    quality
        Expected rewards E[r_k | x, a] (X, A^K, K).

    Examples
    --------
    >>> world = space(np.random.default_rng(0))
    >>> world.rankings.shape, world.value.shape
    ((27, 3), (3,))
    """

    logging: Floats
    target: Floats
    rankings: Ints
    quality: Floats

    @property
    def value(self) -> Floats:
        """The true values V_k (K,) of the target, by enumeration."""
        chances = self.target[:, self.rankings].prod(axis=2)  # (X, A^K)
        value: Floats = np.einsum("xs,xsk->k", chances, self.quality) / len(self.logging)
        return value


def space(rng: np.random.Generator, *, contexts: int = 2) -> Space:
    """Return a random world of 3 actions and 3 positions in which every reward depends on all items.

    Logging probabilities are multiples of 1/4, so that each ranking can occur in a log exactly in
    proportion to its probability.
    """
    quarters = np.stack([rng.permutation([2, 1, 1]) for _ in range(contexts)])
    target = rng.dirichlet(np.ones(3), size=contexts)
    rankings = np.array(list(itertools.product(range(3), repeat=3)))
    quality = [rng.normal(1.0, 1.0, size=(contexts, len(rankings))) for _ in range(3)]
    return Space(quarters / 4.0, target, rankings, np.stack(quality, axis=2))


def exact_log(world: Space) -> RankingLog:
    """Return a log in which every (context, ranking) occurs exactly in proportion to its probability.

    Means over its rows are expectations, so that an unbiased estimator gives the true value.

    Parameters
    ----------
    world
        The world to enumerate.

    Returns
    -------
    RankingLog
        The log, with a target "new".

    Examples
    --------
    >>> world = space(np.random.default_rng(0))
    >>> exact_log(world).n
    128
    """
    # Probabilities are quarters, so products over K positions are multiples of 4^-K.
    counts = np.rint(4 * world.logging).astype(np.int64)[:, world.rankings].prod(axis=2)
    context, ranking = np.divmod(np.repeat(np.arange(counts.size), counts.ravel()), counts.shape[1])
    n, length = len(ranking), world.rankings.shape[1]
    unit = np.arange(n) % max(n // length, 2)
    action, reward = world.rankings[ranking], world.quality[context, ranking]
    return _log_of(
        world.logging[context], world.target[context], context[:, None], action, reward, unit
    )


def drawn_log(world: Space, n: int, rng: np.random.Generator) -> RankingLog:
    """Return n rankings drawn from a world, with normal noise in the rewards and without units."""
    contexts, actions = world.logging.shape
    length = world.rankings.shape[1]
    context = rng.integers(0, contexts, n)
    action = Factored(world.logging[context]).sample(length, rng)[:, 0]
    ranking = action @ actions ** np.arange(length)[::-1]  # its place in `rankings`
    reward = world.quality[context, ranking] + 0.3 * rng.normal(size=(n, length))
    return _log_of(world.logging[context], world.target[context], context[:, None], action, reward)


def _log_of(
    logging: Floats,
    target: Floats,
    context: Floats | Ints,
    action: Ints,
    reward: Floats,
    unit: Ints | None = None,
) -> RankingLog:
    """Return a log with the item distributions (n, A) of both policies and their propensities."""
    return RankingLog(
        action=action,
        reward=reward,
        propensity=np.take_along_axis(logging, action, axis=1),
        context=context.astype(np.float64),
        targets={"new": np.take_along_axis(target, action, axis=1)},
        dists={"propensity": logging, "new": target},
        unit=unit,
    )


def random_log(rng: np.random.Generator, *, n: int = 400) -> RankingLog:
    """Return a random log with context, units, item distributions and a target "new".

    Parameters
    ----------
    rng
        The source of random numbers.
    n
        Number of rankings.

    Returns
    -------
    RankingLog
        The log, with three positions and three actions.

    Examples
    --------
    >>> log = random_log(np.random.default_rng(0), n=50)
    >>> log.n, log.K, list(log.targets)
    (50, 3, ['new'])
    """
    # Dirichlet(3) avoids propensities near zero, whose rounding errors would exceed tolerances.
    context = rng.normal(size=(n, 2))
    logging, target = (rng.dirichlet(np.full(3, 3.0), size=n) for _ in range(2))
    action = Factored(logging).sample(3, rng)[:, 0]
    base = rng.normal(1.0, 1.0, size=(3, 2))
    reward = base[action, 0] + base[np.roll(action, 1, axis=1), 1] + 0.2 * rng.normal(size=(n, 3))
    return _log_of(logging, target, context, action, reward, rng.permutation(n))
