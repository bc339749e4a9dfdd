"""Intervals from a handful of units: wide, but numbers."""

import numpy as np

import counterrank as cr


def test_poisson_draws_without_a_row_are_left_out() -> None:
    """With 2 units one draw in seven holds no row (e^-2)."""
    rng = np.random.default_rng(3)
    half = np.full((6, 2), 0.5)
    log = cr.RankingLog(
        action=rng.integers(0, 2, (6, 2)), reward=rng.random((6, 2)), propensity=half, unit=np.array(list("aaabbb")),
        targets={"new": cr.Propensity("factored", half)},
    )  # fmt: skip
    low, high = cr.IPS().estimate(log, "new").interval(0.9, method="poisson")
    means = [log.reward[rows].sum(axis=1).mean() for rows in (slice(0, 3), slice(3, 6))]
    # A draw with rows is a mixture of the two units' means.
    assert min(means) - 1e-12 <= low <= high <= max(means) + 1e-12
