"""Rankings of thousands of positions end in an answer, with what was left out said."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.base import View
from counterrank.research import simulate


def test_three_thousand_positions() -> None:
    rng = np.random.default_rng(0)
    n, K, A = 50, 3000, 5
    dist = np.full((n, A), 1 / A)
    fifth = np.full((n, K), 1 / A)
    log = cr.RankingLog(
        action=rng.integers(0, A, (n, K)), reward=rng.random((n, K)), propensity=fifth,
        targets={"new": cr.Propensity("factored", fifth)}, dists={"propensity": dist, "new": dist},
    )  # fmt: skip
    estimate = cr.Auto().estimate(log, "new")
    # The target is the logger, so the value is what was earned.
    assert estimate.value == pytest.approx(log.reward.sum() / n, rel=1e-9)
    assert any("3000 positions" in flag for flag in estimate.flags)


def test_a_deterministic_target_that_no_row_matches_has_a_finite_answer() -> None:
    """With epsilon = 0 the product of eight ratios is zero in every one of 500 rows: dr-ips knows
    nothing.
    """
    env = simulate.published(K=8, epsilon=0.0)
    log = env.draw(500, np.random.default_rng(1)).to_log()
    assert not View(log, "new").ratios.full().any()
    estimate = cr.Auto().estimate(log, "new")
    low, high = estimate.interval(0.95)
    assert np.isfinite([estimate.value, estimate.stderr, low, high]).all()
    assert low <= simulate.true_value(env).value <= high
