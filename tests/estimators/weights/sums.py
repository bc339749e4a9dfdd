"""Random sums of forty rows and two positions."""

import numpy as np

import counterrank as cr
from counterrank.estimators.weights.moments import moments_of
from counterrank.estimators.weights.ratios import ratios_of

ALPHA = np.array([1.0, 0.5])


def arrays(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(1, 1, (n, 2)), rng.uniform(0.2, 2, (n, 2)), rng.random((n, 2))


def made(n=40, seed=0):
    y, w, r = arrays(n, seed)
    return moments_of(y, w, r, ALPHA)[0]


ITEMS = np.array([np.random.default_rng(i).permutation(4)[:3] for i in range(30)])


def ratios(logging, target):
    log = cr.RankingLog(
        action=ITEMS, reward=np.ones((30, 3)), propensity=logging, targets={"new": target}
    )
    return ratios_of(log, "new")
