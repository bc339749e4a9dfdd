"""Means of arms and units, less what controls explain: against naive twins and Welch."""

import math

import numpy as np
import pytest

from counterrank.inference import Strata, adjusted_mean, mean_of


def by_hand(values, arm, unit):
    """Return the variance of a mean of rows: distances from the own arm's mean, summed by unit."""
    n, total = len(values), 0.0
    sums: dict = {}
    for a in sorted(set(arm)):
        own = [i for i in range(n) if arm[i] == a]
        mean = sum(values[i] for i in own) / len(own)
        units = len({unit[i] for i in own})
        for i in own:
            away = (values[i] - mean) / n * math.sqrt(units / (units - 1))
            sums[unit[i]] = sums.get(unit[i], 0.0) + away
    for one in sums.values():
        total += one**2
    return total


def test_the_error_of_a_difference_of_arms_is_welchs():
    rng = np.random.default_rng(0)
    arm = np.repeat([0, 1], [30, 50])
    y = rng.normal(size=80) * (1 + 2 * arm)
    sign = np.where(arm == 1, 80 / 50, -80 / 30)
    found = mean_of(sign * y, Strata.of(arm, None))
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
    strata = Strata.of(arm, unit)
    found = mean_of(values, strata)
    assert found.stderr**2 == pytest.approx(by_hand(values, arm, unit), rel=1e-12)
    assert (strata.shared_units > 0) == shared
    assert strata.units_by_arm.tolist() == [len(set(unit[arm == a])) for a in (0, 1)]


def test_a_control_takes_away_what_it_explains_and_nothing_else():
    rng = np.random.default_rng(2)
    arm, z = np.repeat([0, 1], 200), rng.normal(size=400)
    y = 2 * z + 0.1 * rng.normal(size=400)
    strata = Strata.of(arm, None)
    plain, found = mean_of(y, strata), adjusted_mean(y, z[:, None], strata)
    # The coefficient is that of a regression within arms.
    inside = [v - np.array([v[arm == a].mean() for a in (0, 1)])[arm] for v in (y, z)]
    beta = inside[0] @ inside[1] / (inside[1] @ inside[1])
    assert found.value == pytest.approx(plain.value - beta * z.mean(), rel=1e-12)
    assert found.stderr < 0.06 * plain.stderr
    left = (inside[0] - beta * inside[1]) / 400 * math.sqrt(200 / 199)
    assert found.stderr == pytest.approx(math.sqrt(left @ left * 400 / 399), rel=1e-12)
    # Constant and repeated controls change nothing, and one that says nothing costs next to nothing.
    more = np.column_stack([z, np.ones(400), z])
    assert adjusted_mean(y, more, strata).value == pytest.approx(found.value, rel=1e-9)
    noise = adjusted_mean(y, rng.normal(size=(400, 3)), strata)
    assert noise.stderr < 1.02 * plain.stderr
    assert adjusted_mean(y, np.ones((400, 1)), strata).scores is not None


def test_paired_differences_know_that_both_are_of_the_same_rows():
    rng = np.random.default_rng(3)
    arm, y = np.repeat([0, 1], 50), rng.normal(size=100)
    strata = Strata.of(arm, None)
    both = mean_of(y, strata).minus(mean_of(2 * y, strata))
    assert both.value == pytest.approx(-y.mean()) and both.stderr == pytest.approx(
        mean_of(y, strata).stderr
    )
