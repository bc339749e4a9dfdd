"""Bias-aware intervals, betting bounds and the lines of the verdict against their definitions,
written out.
"""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from counterrank.common.findings import FAILED, PASSED, WARNED
from counterrank.estimators.weights.thresholds import THRESHOLDS
from counterrank.statistics import betting_lower_bound, bias_aware_half, bias_aware_value


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("bias", [0.0, 0.3, -0.3, 1.0, 4.0, -25.0])
def test_the_bias_aware_value_is_the_quantile_of_a_shifted_normal(bias, level):
    found = bias_aware_value(bias, level)
    exact = stats.foldnorm.ppf(level, abs(bias)) if bias else stats.norm.ppf((1 + level) / 2)
    assert found == pytest.approx(exact, abs=1e-9)
    assert stats.norm.cdf(found - bias) - stats.norm.cdf(-found - bias) == pytest.approx(
        level, abs=1e-12
    )


def test_few_units_add_what_the_t_quantile_exceeds_the_normal_by():
    excess = stats.t.ppf(0.975, 7) - stats.norm.ppf(0.975)
    assert bias_aware_value(1.5, 0.95, 7) == pytest.approx(
        bias_aware_value(1.5, 0.95) + excess, abs=1e-12
    )
    assert bias_aware_value(1.5, 0.95, 1e9) == pytest.approx(bias_aware_value(1.5, 0.95), abs=1e-6)


def test_half_a_length_is_in_units_of_the_value():
    assert bias_aware_half(0.2, 0.5, 0.9) == pytest.approx(
        0.2 * stats.foldnorm.ppf(0.9, 2.5), abs=1e-9
    )
    assert bias_aware_half(0.2, 0.5, 0.9, 5) == pytest.approx(
        0.2 * bias_aware_value(2.5, 0.9, 5), abs=1e-12
    )
    assert bias_aware_half(0.0, -0.5, 0.9) == 0.5
    assert math.isnan(bias_aware_half(math.nan, 0.5, 0.9)) and math.isnan(
        bias_aware_half(-1.0, 0.5, 0.9)
    )


def log_capital(mu, values, rows, lowest, delta, spread):
    """The capital that is divided among four stakes, bet by bet."""
    n, total = len(values), 0.0
    for size, share in ((0.25, 0.1), (0.5, 0.2), (1.0, 0.5), (1.5, 0.2)):
        stake = size * math.sqrt(2 * math.log(1 / delta) / n) / spread
        stake = min(stake, 0.9 / max((mu - lowest) * max(rows), 1e-300))
        capital = share
        for x, c in zip(values, rows, strict=True):
            capital *= 1 + stake * (x - mu * c)
        total += capital
    return math.log(total)


@pytest.mark.parametrize("lowest, spread", [(0.0, 0.3), (-0.5, 0.3), (0.0, 0.002), (-2.0, 5.0)])
@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_the_bound_of_uneven_units_is_where_the_capital_stops_growing(lowest, spread, delta):
    rng = np.random.default_rng(3)
    rows = rng.integers(1, 4, 60).astype(float)
    values = rows * (0.2 + rng.random(60))
    found = betting_lower_bound(values, lowest, delta, spread=spread, centre=0.7, counts=rows)
    mean = values.sum() / rows.sum()

    def short(mu):
        return log_capital(mu, values, rows, lowest, delta, spread) - math.log(1 / delta)

    assert lowest < found < mean
    assert found == pytest.approx(optimize.brentq(short, lowest + 1e-9, mean, xtol=1e-14), abs=1e-9)


def test_without_rows_or_with_the_least_there_is_the_bound_is_the_least():
    assert betting_lower_bound(np.array([]), -0.25, 0.05, spread=1.0, centre=0.0) == -0.25
    assert betting_lower_bound(np.full(50, -0.25), -0.25, 0.05, spread=1.0, centre=0.0) == -0.25
    # No spread is no stake without end: the cap decides.
    rows = np.tile([1.0, 2.0], 25)
    sure = betting_lower_bound(rows, 0.0, 0.05, spread=0.0, centre=1.0, counts=rows)

    def short(mu):
        return np.log1p(0.9 / (2 * mu) * rows * (1 - mu)).sum() - math.log(20)

    assert sure == pytest.approx(optimize.brentq(short, 0.5, 1))


@pytest.mark.parametrize("line", THRESHOLDS.values(), ids=THRESHOLDS)
def test_lines_belong_to_the_better_side(line):
    step = 1e-9 if line.more_is_better else -1e-9
    assert line.status(line.reliable) is PASSED and line.status(line.reliable - step) is WARNED
    assert (
        line.status(line.directional) is WARNED and line.status(line.directional - step) is FAILED
    )
    assert line.status(math.nan) is FAILED
