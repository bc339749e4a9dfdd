"""Marginalised weights and the pseudo-inverse against their formulas in plain NumPy."""

import numpy as np
import pytest
from tests.estimators.dozen_rows import (
    ACTION,
    ALPHA,
    LOG,
    P0,
    P1,
    REWARD,
    RHO,
    RNG,
    WEIGHTS,
    K,
    N,
    products,
    same,
)

import counterrank as cr
from counterrank.behavior import mask
from counterrank.data.source import MemorySource
from counterrank.estimators.base import Workspace
from counterrank.estimators.marginal import Marginalised, PseudoInverse
from counterrank.estimators.masked import OrderIPS, sampling_flags


def test_pseudo_inverse_and_orders():
    same(PseudoInverse().estimate(LOG, "new"), (RHO.sum(1) - (K - 1))[:, None] * REWARD)
    others = [sum(RHO[:, m] - 1 for m in range(K) if m != k) for k in range(K)]
    same(OrderIPS(order=1).estimate(LOG, "new"), RHO * REWARD)
    same(OrderIPS(order=2).estimate(LOG, "new"), RHO * (1 + np.stack(others, axis=1)) * REWARD)
    for order in (3, 4):
        same(OrderIPS(order=order).estimate(LOG, "new"), WEIGHTS["ips"] * REWARD)
    assert OrderIPS().name == "order-2"
    with pytest.raises(cr.CounterrankError, match="1 or more, got 0"):
        OrderIPS(order=0).estimate(LOG, "new")


GROUP = np.array([0, 1, 1, 0])


MASKS = {"ips": mask("S", K), "rips": mask("C", K), "iips": mask("I", K), "N1": mask("N1", K)}


def truncated(ratio, order):
    """Interaction orders 1, 2 and K (or more) written out."""
    if order == 2:
        return ratio * np.stack(
            [1 + sum(ratio[:, m] - 1 for m in range(K) if m != k) for k in range(K)], axis=1
        )
    return ratio if order == 1 else products(ratio, MASKS["ips"])


@pytest.mark.parametrize("weights", ["ips", "rips", "iips", "N1", 1, 2, 7, "matrix"])
def test_groups_of_actions(weights):
    ratio = np.empty((N, K))
    for i, k in np.ndindex(N, K):
        alike = GROUP == GROUP[ACTION[i, k]]
        ratio[i, k] = P1[i, k, alike].sum() / P0[i, k, alike].sum()
    matrix = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]], dtype=bool)
    c = MASKS.get(weights, matrix)
    w = truncated(ratio, weights) if isinstance(weights, int) else products(ratio, c)
    for groups in (["a", "b", "b", "a"], np.column_stack([GROUP, 1 - GROUP])):
        given = matrix if weights == "matrix" else weights
        found = Marginalised(groups=groups, weights=given).estimate(LOG, "new")
        same(found, w * REWARD)
        assert found.flags[0].startswith("groups")


def test_marginals_without_replacement_are_no_products():
    scores, items = (
        RNG.normal(size=(N, 5)),
        np.array([np.random.default_rng(i).permutation(5)[:K] for i in range(N)]),
    )
    logging, target = cr.PlackettLuce(scores), cr.PlackettLuce(-scores)
    log = cr.RankingLog(
        action=items,
        reward=REWARD,
        propensity=logging,
        targets={"new": target},
        position_weights=ALPHA,
    )
    w = np.exp(target.position_log_prob(items) - logging.position_log_prob(items))
    same(cr.IIPS().estimate(log, "new"), w * REWARD)
    prefix = np.exp(target.prefix_log_prob(items) - logging.prefix_log_prob(items))
    same(cr.RIPS().estimate(log, "new"), prefix * REWARD)
    same(cr.IPS().estimate(log, "new"), prefix[:, -1:] * REWARD)
    workspace = Workspace(MemorySource(log, threads=1), "new")
    assert [e.plan(workspace).fused for e in (cr.IPS(), cr.RIPS(), cr.IIPS())] == [
        "joint",
        "prefix",
        None,
    ]
    assert [sampling_flags(workspace, mask(name, K)) for name in ("S", "C", "I")] == [(), (), ()]
