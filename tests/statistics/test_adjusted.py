"""Means of arms and units, less what controls explain: against naive twins and Welch."""

import math

import numpy as np
import pytest

from counterrank.statistics import Strata, adjusted_mean, mean_of


def by_hand(values, arm, unit):
    """Return the jackknife's variance of a mean of arms' means: each unit is left out of each arm."""
    n, changes = len(values), {}
    for a in sorted(set(arm)):
        own = [i for i in range(n) if arm[i] == a]
        mean = sum(values[i] for i in own) / len(own)
        units = {unit[i] for i in own}
        for u in units:
            rest = [values[i] for i in own if unit[i] != u]
            moved = len(own) / n * (mean - sum(rest) / len(rest))
            changes[u] = changes.get(u, 0.0) + moved * math.sqrt((len(units) - 1) / len(units))
    return sum(change**2 for change in changes.values())


def test_the_error_of_a_difference_of_arms_is_welchs():
    rng = np.random.default_rng(0)
    arm = np.repeat([0, 1], [30, 50])
    y = rng.normal(size=80) * (1 + 2 * arm)
    sign = np.where(arm == 1, 80 / 50, -80 / 30)
    found = mean_of(sign * y, Strata.from_arrays(arm, None))
    one, other = y[arm == 0], y[arm == 1]
    assert found.value == pytest.approx(other.mean() - one.mean(), rel=1e-12)
    parts = one.var(ddof=1) / 30, other.var(ddof=1) / 50
    assert found.stderr == pytest.approx(math.sqrt(sum(parts)), rel=1e-12)
    welch = sum(parts) ** 2 / (parts[0] ** 2 / 29 + parts[1] ** 2 / 49)
    assert found.df == pytest.approx(welch, rel=1e-12)


@pytest.mark.parametrize("shared", [False, True])
def test_rows_of_a_unit_are_summed_before_they_are_squared(shared):
    rng = np.random.default_rng(1)
    unit = rng.integers(12, size=60)
    arm = rng.integers(2, size=60) if shared else unit % 2
    values = rng.normal(size=60) + unit
    strata = Strata.from_arrays(arm, unit)
    found = mean_of(values, strata)
    assert found.stderr**2 == pytest.approx(by_hand(values, arm, unit), rel=1e-12)
    assert (strata.shared_units > 0) == shared
    assert strata.units_by_arm.tolist() == [len(set(unit[arm == a])) for a in (0, 1)]


def test_a_large_unit_counts_as_few():
    unit = np.concatenate([np.zeros(50, int), np.arange(1, 51)])
    strata = Strata.from_arrays(
        np.repeat([0, 1], 100), np.concatenate([unit, 100 + np.arange(100)])
    )
    values = np.random.default_rng(4).normal(size=200)
    found = mean_of(values, strata)
    parts = np.array([(found.gradient[:51] ** 2).sum(), (found.gradient[51:] ** 2).sum()])
    few = 1 / (0.5**2 + 50 * 0.01**2) - 1
    assert found.df == pytest.approx(parts.sum() ** 2 / (parts[0] ** 2 / few + parts[1] ** 2 / 99))


def test_a_control_takes_away_what_it_explains_and_nothing_else():
    rng = np.random.default_rng(2)
    arm, z = np.repeat([0, 1], 200), rng.normal(size=400)
    y = 2 * z + 0.1 * rng.normal(size=400)
    strata = Strata.from_arrays(arm, None)
    plain, found = mean_of(y, strata), adjusted_mean(y, z[:, None], strata)
    # The coefficient is that of a regression within arms.
    inside = [v - np.array([v[arm == a].mean() for a in (0, 1)])[arm] for v in (y, z)]
    beta = inside[0] @ inside[1] / (inside[1] @ inside[1])
    assert found.value == pytest.approx(plain.value - beta * z.mean(), rel=1e-12)
    assert found.stderr < 0.06 * plain.stderr
    pulled = inside[1] ** 2 / (inside[1] @ inside[1])
    left = (inside[0] - beta * inside[1]) / (1 - pulled) / 400 * math.sqrt(200 / 199)
    assert found.stderr == pytest.approx(math.sqrt(left @ left), rel=1e-12)
    # Constant and repeated controls change nothing, and one that says nothing costs next to nothing.
    more = np.column_stack([z, np.ones(400), z])
    assert adjusted_mean(y, more, strata).value == pytest.approx(found.value, rel=1e-9)
    noise = adjusted_mean(y, rng.normal(size=(400, 3)), strata)
    assert noise.stderr < 1.02 * plain.stderr
    assert adjusted_mean(y, np.ones((400, 1)), strata).gradient is not None


def test_paired_differences_know_that_both_are_of_the_same_rows():
    rng = np.random.default_rng(3)
    arm, y = np.repeat([0, 1], 50), rng.normal(size=100)
    strata = Strata.from_arrays(arm, None)
    both = mean_of(y, strata) - mean_of(2 * y, strata)
    assert both.value == pytest.approx(-y.mean()) and both.stderr == pytest.approx(
        mean_of(y, strata).stderr
    )
