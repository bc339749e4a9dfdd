"""Intervals, adjusted p-values, masks and second moments against plain NumPy: cases that kill
mutants.
"""

from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

import counterrank as cr
from counterrank.behavior import as_mask, mask, random
from counterrank.estimators.kernels.orders import exact_squares
from counterrank.inference.intervals import (
    Evidence,
    bernstein_interval,
    bootstrap_interval,
    cressie_read_interval,
    poisson_interval,
)
from counterrank.inference.multiplicity import benjamini_hochberg, holm, two_sided
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


def test_random_masks_come_from_the_seed_in_the_documentation_and_zeros_are_allowed():
    np.testing.assert_array_equal(mask("R3", 6), random(6, 3, np.random.default_rng(12345)))
    assert as_mask([[1, 0], [0, 1]], 2).tolist() == [[True, False], [False, True]]


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


def test_two_sided_p_values():
    for z in (0.0, 0.3, 1.96, -2.5):
        for stderr in (0.5, 2.0):
            assert two_sided(stderr * z, stderr) == pytest.approx(
                2 * stats.norm.sf(abs(z)), rel=1e-12
            )
    assert [two_sided(value, 0.0) for value in (0.0, 1e-12, -1e-12, 1.1e-12, 0.5, 3.0)] == [1] * 6
    assert two_sided(0.5, np.nan) == two_sided(0.0, np.nan) == 1.0


P_VALUES = ([0.01, 0.04, 0.03], [0.5, 0.9, 0.001, 0.02, 0.02], [1.0], [0.2, 0.9, 0.8, 1.0])


@pytest.mark.parametrize("p", P_VALUES)
def test_adjusted_p_values_by_their_definitions(p):
    """Holm: the largest of (m - rank + 1) p over smaller ones; Benjamini-Hochberg: the least m p /
    rank over larger.
    """
    p, m = np.array(p), len(p)
    rank = np.argsort(np.argsort(p, kind="stable"), kind="stable") + 1
    for i in range(m):
        down = max((m - rank[j] + 1) * p[j] for j in range(m) if rank[j] <= rank[i])
        up = min(m * p[j] / rank[j] for j in range(m) if rank[j] >= rank[i])
        assert holm(p)[i] == pytest.approx(min(down, 1.0), rel=1e-12)
        assert benjamini_hochberg(p)[i] == pytest.approx(min(up, 1.0), rel=1e-12)
    # Ties share the value of the group, whatever their order.
    np.testing.assert_allclose(benjamini_hochberg(p), stats.false_discovery_control(p), rtol=1e-12)


def order_weight(rho, k, order):
    others = [rho[m] - 1 for m in range(len(rho)) if m != k]
    return rho[k] * sum(np.prod(t) for size in range(order) for t in combinations(others, size))


@pytest.mark.parametrize("shapes", [(1, 1), (1, "K"), ("K", 1), ("K", "K")])
@pytest.mark.parametrize(("length", "used"), [(1, 1), (2, 2), (2, 1), (4, 4), (4, 3)])
def test_second_moments_of_orders_by_enumeration(shapes, length, used):
    rng = np.random.default_rng(8)
    orders = np.arange(1, length)
    rows = [length if shape == "K" else 1 for shape in shapes]
    tables = [
        rng.dirichlet(np.full(2, 4.0), size=(1, rows[0])),
        rng.dirichlet(np.ones(2), size=(1, rows[1])),
    ]
    out = np.zeros(len(orders) + 1)
    assert exact_squares(*tables, np.array([used]), orders, out) == 0
    p0, p1 = (np.broadcast_to(table, (1, length, 2))[0, :used] for table in tables)
    expected = np.zeros(len(out))
    for a in product(range(2), repeat=used):
        at = (np.arange(used), np.array(a))
        rho, chance = p1[at] / p0[at], p0[at].prod()
        for j, order in enumerate((*orders, used)):
            expected[j] += chance * sum(order_weight(rho, k, order) ** 2 for k in range(used))
    np.testing.assert_allclose(out, expected, rtol=1e-11)


def test_rows_without_support_are_counted():
    p0 = np.array([[[0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0]], [[0.0, 0.5, 0.5]]])
    p1 = np.array([[[0.2, 0.8, 0.0]], [[0.5, 0.5, 0.0]], [[0.1, 0.9, 0.0]]])
    out = np.zeros(2)
    assert exact_squares(p0, p1, np.array([2, 2, 2]), np.array([1]), out) == 2
    # What the logger never shows is left out of the sum.
    v = np.array([0.04 / 0.5 + 0.64 / 0.5, 0.25, 0.81 / 0.5])
    np.testing.assert_allclose(out, [2 * v.sum(), 2 * (v**2).sum()], rtol=1e-12)
