"""Interaction order by enumeration: unbiased as soon as the order reaches that of the reward,
biased below it.
"""

import itertools

import numpy as np
import pytest

import counterrank as cr

K = 3


def reward_of_order(order, seed):
    """Return q_k = sum over sets T of at most order-1 other items of f(a_k, a_T), each f arbitrary."""
    rng = np.random.default_rng(seed)
    tables = {}

    def reward(x, k, relevant, items):
        by_position = dict(zip(relevant, items, strict=True))
        others = [m for m in relevant if m != k]
        total = 0.0
        for size in range(order):
            for group in itertools.combinations(others, size):
                key = (x, k, group, by_position[k], tuple(by_position[m] for m in group))
                if key not in tables:
                    tables[key] = float(rng.normal(0.5, 1.0))
                total += tables[key]
        return total

    return reward


@pytest.mark.parametrize("true_order", [1, 2, 3])
@pytest.mark.parametrize("behavior", ["S", "C"])
def test_order_m_is_unbiased_iff_it_reaches_the_interaction(world_of, true_order, behavior):
    world = world_of(behavior, seed=7, reward=reward_of_order(true_order, 1))
    log, target, _ = world.log()
    for order in (1, 2, 3):
        estimate = cr.OrderIPS(order=order, behavior=behavior).estimate(log, target)
        for k in range(K):
            bias = abs(estimate.by_position[k].value - world.value(k))
            others = K - 1 if behavior == "S" else k
            if order >= min(true_order, others + 1):
                assert bias < 1e-12
            else:
                assert bias > 1e-4


def test_the_ends_are_iips_and_ips(world_of):
    world = world_of("S", seed=2)
    log, target, _ = world.log()
    for order, same in ((1, cr.IIPS()), (K, cr.IPS())):
        one, other = cr.OrderIPS(order=order).estimate(log, target), same.estimate(log, target)
        assert (one.value, one.stderr) == pytest.approx((other.value, other.stderr), rel=1e-12)
