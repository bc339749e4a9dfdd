"""Intervals against plain NumPy on a few rows."""

import numpy as np
import pytest
from scipy import stats

import counterrank as cr
from counterrank.inference.intervals import (
    Evidence,
    bernstein_interval,
    bootstrap_interval,
    cressie_read_interval,
    poisson_interval,
)
from counterrank.weights.moments import moments_of

ALPHA = np.array([1.0, 0.5])


def evidence(n, units=None, seed=4, shift=1.0):
    """Evidence of the plain mean of n rows."""
    rng = np.random.default_rng(seed)
    y, w, r = (
        rng.normal(shift, 1, (n, 2)),
        rng.uniform(0.2, 2, (n, 2)),
        rng.normal(shift, 1, (n, 2)),
    )
    total = y @ ALPHA
    moments, _ = moments_of(y, w, r, ALPHA, full=True, bucket=units)
    stderr = float(total.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    made = Evidence(
        float(total.mean()), stderr, moments, lambda a, b: a @ ALPHA + b[:, 0] ** 2, seed=7
    )
    return made, y, w


def test_bernstein_of_two_rows_and_of_one():
    made, y, _ = evidence(2)
    total = y @ ALPHA
    term = np.log(4 / 0.1)
    half = np.sqrt(2 * total.var(ddof=1) * term / 2) + 7 * 2 * np.abs(total).max() * term / 3
    assert bernstein_interval(made, 0.9) == pytest.approx(
        (total.mean() - half, total.mean() + half), rel=1e-10
    )
    with pytest.raises(cr.CounterrankError, match="at least two rows"):
        bernstein_interval(evidence(1)[0], 0.9)


@pytest.mark.parametrize("shift", [1.0, -2.0])
@pytest.mark.parametrize("count", [2, 15])
def test_percentiles_of_redrawn_units(count, shift):
    """Units are few and lie in buckets with empty ones between; their sums may be negative."""
    units = 3 + 4 * (np.arange(45) % count)
    made, y, w = evidence(45, units, shift=shift)
    parts = [units == u for u in np.unique(units)]
    rng, poisson = np.random.default_rng([7, 1]), np.random.default_rng([7, 2])
    drawn = rng.integers(0, count, (2000, count), dtype=np.int32)
    redrawn = np.array([[(row == u).sum() for u in range(count)] for row in drawn], dtype=float)
    for interval, times in (
        (bootstrap_interval, redrawn),
        (poisson_interval, poisson.poisson(1.0, (2000, count)).astype(float)),
    ):
        rows = times @ np.array([part.sum() for part in parts], dtype=float)
        if count == 2 and interval is poisson_interval:
            continue  # one draw in e^2 has no row, and so no mean
        mean_y, mean_w = (
            times @ np.array([a[part].sum(0) for part in parts]) / rows[:, None] for a in (y, w)
        )
        values = mean_y @ ALPHA + mean_w[:, 0] ** 2
        for level in (0.5, 0.9):
            expected = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
            assert interval(made, level) == pytest.approx(expected, rel=1e-10)


def test_one_unit_is_no_sample_of_units():
    made, *_ = evidence(15, np.full(15, 9))
    for interval in (bootstrap_interval, poisson_interval):
        with pytest.raises(cr.CounterrankError, match="at least two units"):
            interval(made, 0.9)


@pytest.mark.parametrize("n", [3, 4, 5, 40])
def test_cressie_read_by_regression_on_weights(n):
    made, y, w = evidence(n)
    total = y @ ALPHA
    slope = np.linalg.lstsq(w - w.mean(0), total - total.mean(), rcond=None)[0]
    residual = (total - total.mean()) - (w - w.mean(0)) @ slope
    centre = total.mean() - slope @ (w.mean(0) - 1)
    spread = max(float(residual @ residual) / (n - 1), 0.0) / n
    half = np.sqrt(stats.f.ppf(0.9, 1, max(n - 1 - 2, 1)) * spread)
    # Three rows fit two weights exactly: what is left is the rounding of sums.
    assert cressie_read_interval(made, 0.9) == pytest.approx(
        (centre - half, centre + half), rel=1e-6, abs=1e-5
    )
