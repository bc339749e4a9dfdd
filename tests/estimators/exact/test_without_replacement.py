"""Plackett-Luce by enumeration: subset probabilities are real marginals, so every matching mask is
unbiased.
"""

import itertools

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.behavior import mask

K, A = 3, 3
LOGGER = (1, 2, 3)
TARGET = (5.0, 1.0, 2.0)


def probability(strength, ranking):
    left, chance = float(sum(strength)), 1.0
    for item in ranking:
        chance *= strength[item] / left
        left -= strength[item]
    return chance


def rankings():
    """Return every ranking with how often it stands in the log: 60 times its probability, a whole
    number.
    """
    return [(a, round(60 * probability(LOGGER, a))) for a in itertools.permutations(range(A))]


def reward(c, a, k):
    relevant = tuple(np.flatnonzero(c[k]).tolist())
    return float(np.random.default_rng([k, *relevant, 99, *(a[m] for m in relevant)]).normal(1, 1))


def population(c):
    action = np.repeat([a for a, _ in rankings()], [times for _, times in rankings()], axis=0)
    rewards = np.array([[reward(c, tuple(a), k) for k in range(K)] for a in action])
    log = cr.RankingLog(action=action, reward=rewards, propensity=cr.PlackettLuce(np.log([LOGGER])))
    truth = sum(
        probability(TARGET, a) * reward(c, a, k)
        for a in itertools.permutations(range(A))
        for k in range(K)
    )
    return log, cr.PlackettLuce(np.log([TARGET])), truth


def test_the_log_is_the_distribution():
    assert all(
        times == pytest.approx(60 * probability(LOGGER, a), abs=1e-12) for a, times in rankings()
    )


@pytest.mark.parametrize("name", ["S", "C", "I", "N1", "IC", "P1"])
def test_matching_masks_are_unbiased(name):
    c = mask(name, K)
    log, target, truth = population(c)
    assert cr.AIPS(behavior=c).estimate(log, target).value == pytest.approx(truth, rel=1e-10)
    assert cr.IPS().estimate(log, target).value == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize(
    ("estimator", "name"), [(cr.RIPS(), "S"), (cr.IIPS(), "S"), (cr.IIPS(), "C"), (cr.IIPS(), "N1")]
)
def test_too_small_masks_are_biased(estimator, name):
    # At the last position of a full ranking the items above name the item: K = A makes RIPS exact
    # there.
    log, target, truth = population(mask(name, K))
    assert abs(estimator.estimate(log, target).value - truth) > 0.005


def test_order_weights_are_refused():
    log, target, _ = population(mask("S", K))
    with pytest.raises(cr.CounterrankError, match="independent positions"):
        cr.OrderIPS(order=2).estimate(log, target)
