"""A log of a dozen rows, its ratios, and what an estimate of a mean has to be."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.models import RewardModel

N, K, A = 12, 3, 4


RNG = np.random.default_rng(11)


P0, P1 = RNG.dirichlet(np.full(A, 4.0), size=(N, K)), RNG.dirichlet(np.ones(A), size=(N, K))


ACTION = RNG.integers(0, A, (N, K))


REWARD = RNG.normal(1.0, 1.0, (N, K))


ALPHA = np.array([1.0, 0.5, 0.25])


Q, MEAN = RNG.normal(size=(2, N, K))


def shown(table):
    return np.take_along_axis(table, ACTION[:, :, None], axis=2)[:, :, 0]


RHO = shown(P1) / shown(P0)


LOG = cr.RankingLog(
    action=ACTION, reward=REWARD, propensity=shown(P0), position_weights=ALPHA, behavior=np.array(["S", "I", "C"] * 4),
    targets={"new": cr.Propensity("factored", shown(P1))}, dists={"propensity": P0, "new": P1},
)  # fmt: skip


WEIGHTS = {
    "ips": np.repeat(RHO.prod(1)[:, None], K, axis=1),
    "rips": np.cumprod(RHO, axis=1),
    "iips": RHO,
}


class Known(RewardModel):
    """A model that knows its numbers."""

    folds, details = 1, {"kind": "known"}

    def expected(self, rankings, fold):
        return Q[rankings.log.rows]

    def mean_under(self, batch, target, fold):
        return MEAN[batch.rows]


def same(estimate, y):
    """Value, error and positions of an estimate that is the mean of y (n, K)."""
    total = y @ ALPHA
    assert estimate.value == pytest.approx(total.mean(), rel=1e-12)
    assert estimate.stderr == pytest.approx(total.std(ddof=1) / np.sqrt(N), rel=1e-9)
    np.testing.assert_allclose([p.value for p in estimate.by_position], y.mean(0), rtol=1e-12)
    np.testing.assert_allclose(
        [p.stderr for p in estimate.by_position], y.std(0, ddof=1) / np.sqrt(N), rtol=1e-9
    )


def products(ratio, c):
    """prod over l with c[k, l] of the ratios, by loops."""
    return np.stack([ratio[:, c[k]].prod(1) for k in range(K)], axis=1)
