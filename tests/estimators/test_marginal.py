"""Marginal weights, interaction orders and the pseudo-inverse against their formulas in plain NumPy."""

import numpy as np
import pytest
from tests.estimators.dozen_rows import (
    ALPHA,
    LOG,
    REWARD,
    RHO,
    RNG,
    WEIGHTS,
    K,
    N,
    same,
)

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators.base import Workspace
from counterrank.estimators.behavior import mask
from counterrank.estimators.masked import OrderIPS, PseudoInverse, sampling_flags


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
    assert [e.fit(workspace).fused for e in (cr.IPS(), cr.RIPS(), cr.IIPS())] == [
        "joint",
        "prefix",
        None,
    ]
    assert [sampling_flags(workspace, mask(name, K)) for name in ("S", "C", "I")] == [(), (), ()]
