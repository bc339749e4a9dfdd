"""A tiny world in which every ranking can be listed: exact expectations instead of samples."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from counterrank.data.log import Propensity, RankingLog
from counterrank.data.source import MemorySource
from counterrank.estimators.base import View, Workspace
from counterrank.estimators.crossfit import predicted
from counterrank.models import RewardModel


@dataclass(frozen=True)
class World:
    """All rankings of one or more contexts, each once; `chance` is the probability of a row under
    the logger.
    """

    log: RankingLog
    chance: np.ndarray
    wanted: np.ndarray

    def expected(self, estimator) -> np.ndarray:
        """Return E_pi0 of the estimator's contributions (K,), exactly."""
        fit = estimator.fit(Workspace(MemorySource(self.log, threads=1), "new"))
        y, _ = fit.rows(View(self.log, "new"))
        return self.chance @ y

    def value(self) -> np.ndarray:
        """Return V_k under the target."""
        return self.wanted @ self.log.reward


def world(
    K: int, A: int, reward, *, contexts: int = 2, positional: bool = True, seed: int = 0
) -> World:
    """Return the world in which ranking a in context x earns reward(x, a) (K,), without noise."""
    rng = np.random.default_rng(seed)
    shape = (contexts, K, A) if positional else (contexts, A)
    p0 = rng.dirichlet(np.full(A, 3.0), size=shape[:-1])
    p1 = rng.dirichlet(np.full(A, 1.0), size=shape[:-1])
    rankings = np.array(list(product(range(A), repeat=K)))
    context = np.repeat(np.arange(contexts), len(rankings))
    action = np.tile(rankings, (contexts, 1))
    chances = []
    for table in (p0, p1):
        full = table if positional else np.repeat(table[:, None], K, axis=1)
        chances.append(full[context[:, None], np.arange(K), action])
    x = rng.standard_normal((contexts, 2))[context]
    rewards = np.array([reward(xi, a) for xi, a in zip(context, action, strict=True)], dtype=float)
    log = RankingLog(
        action=action,
        reward=rewards,
        propensity=Propensity("factored", chances[0]),
        context=x,
        targets={"new": Propensity("factored", chances[1])},
        dists={"propensity": p0[context], "new": p1[context]},
    )
    return World(log, chances[0].prod(axis=1) / contexts, chances[1].prod(axis=1) / contexts)


class TableModel(RewardModel):
    """An arbitrary (wrong) model: a random number for each row and position, averaged exactly under
    the target.
    """

    folds, details = 1, {}

    def __init__(self, world: World, contexts: int, seed: int = 1, scale: float = 3.0) -> None:
        n, K = world.log.action.shape
        q = scale * np.random.default_rng(seed).standard_normal((n, K))
        size = n // contexts
        mean = np.empty((n, K))
        for c in range(contexts):
            rows = slice(c * size, (c + 1) * size)
            mean[rows] = (world.wanted[rows] * contexts) @ q[rows]
        self.q, self.means = q, mean

    def expected(self, rankings, fold):
        return self.q

    def mean_under(self, batch, target, fold):
        return self.means


def asked(model: RewardModel, log: RankingLog) -> tuple[np.ndarray, np.ndarray]:
    """Return the model on the logged rankings and its mean under "new", each row by its own fold."""
    return predicted(View(log, "new"), model)
