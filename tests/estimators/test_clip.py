"""Clipped, shrunk and switched weights against their formulas in plain NumPy."""

import numpy as np
import pytest
from tests.estimators.dozen_rows import ALPHA, LOG, MEAN, REWARD, RHO, WEIGHTS, Known, N, Q, same

import counterrank as cr
from counterrank.estimators import Form
from counterrank.estimators.clip import _TAME, Clipped, Shrunk, Switch


@pytest.mark.parametrize("name", WEIGHTS)
def test_standard_weights(name):
    estimator = {"ips": cr.IPS, "rips": cr.RIPS, "iips": cr.IIPS}[name]()
    same(estimator.estimate(LOG, "new"), WEIGHTS[name] * REWARD)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("limit", [None, 1.2])
def test_taming(name, limit):
    w, used = WEIGHTS[name], np.sqrt(N) if limit is None else limit
    for kind, tamed in ((Clipped, np.minimum(w, used)), (Shrunk, used**2 * w / (w**2 + used**2))):
        found = kind(name, limit=limit).estimate(LOG, "new")
        same(found, tamed * REWARD)
        lost = 1 - tamed.mean(0)
        bias = ALPHA @ (np.maximum(lost, 0) * np.sqrt((REWARD**2).mean(0)))
        assert found.details["limit"] == pytest.approx(used)
        np.testing.assert_allclose(found.details["weight_lost"], lost, rtol=1e-10, atol=1e-12)
        assert found.details["bias_if_rewards_are_typical"] == pytest.approx(bias, rel=1e-10)
        assert f"above {used:.4g}; {100 * lost.max():.1f}\u202f% of the weight" in found.flags[0]
        assert f"roughly {bias:.2g} " in found.flags[0]


def test_taming_cuts_negative_weights_too_and_refuses_a_limit_of_zero():
    w = np.array([[-3.0, 0.5, 3.0]])
    assert _TAME[Form.CLIPPED](w, 2.0).tolist() == [[-2.0, 0.5, 2.0]]
    assert _TAME[Form.SHRUNK](w, 3.0).tolist() == [[-1.5, 9 * 0.5 / 9.25, 1.5]]
    for limit in (0.0, -1.0):
        with pytest.raises(cr.CounterrankError, match="positive"):
            Clipped("iips", limit=limit).estimate(LOG, "new")
    assert Clipped("iips", limit=0.5).estimate(LOG, "new").value == pytest.approx(
        (np.minimum(RHO, 0.5) * REWARD @ ALPHA).mean(), rel=1e-12
    )


@pytest.mark.parametrize("limit", [None, float(np.sort(RHO.ravel())[20])])
def test_switching_keeps_weights_up_to_the_limit(limit):
    used = np.sqrt(N) if limit is None else limit
    kept = np.where(used >= RHO, RHO, 0.0)
    found = Switch("iips", limit=limit, model=Known()).estimate(LOG, "new")
    same(found, MEAN + kept * (REWARD - Q))
    assert (
        found.details["limit"] == pytest.approx(used)
        and found.details["regression"] == Known.details
    )
    np.testing.assert_allclose(
        found.details["weight_lost"], 1 - kept.mean(0), rtol=1e-10, atol=1e-12
    )
    assert (
        f"above {used:.4g} " in found.flags[0]
        and f"model, {100 * (1 - kept.mean(0)).max():.1f}\u202f% of the weight" in found.flags[0]
    )
    order = np.abs(RHO * (1 + sum(np.roll(RHO - 1, j, axis=1) for j in (1, 2))))
    negative = Switch(2, limit=1e-9, model=Known()).estimate(
        LOG, "new"
    )  # order weights below zero count by size
    assert order.min() > 1e-9 and negative.value == pytest.approx((MEAN @ ALPHA).mean(), rel=1e-12)
