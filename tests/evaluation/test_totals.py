"""Row totals: errors of values, differences and ratios from a table that can be summed by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from counterrank.estimators import Estimate
from counterrank.estimators.base import Lift, PositionValue
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.totals import Quantity, against, over, pairing, totals_of
from counterrank.inference import bias_aware_half

N = 40
#: What the logger earned, then the columns of two plans, of which the second has two.
COLUMNS = np.random.default_rng(0).gamma(2.0, 1.0, (4, N))
FIRST, SECOND = np.array([1.0]), np.array([0.5, -2.0])


def job(target, name, key, combination):
    plan = SimpleNamespace(
        key=key, combination=lambda state: combination, error_combination=lambda state: combination
    )
    return Job(target, name, plan)


NEW, OLD = job("new", "ips", "a", FIRST), job("old", "ips", "b", SECOND)


def estimate(target, value, stderr, **more):
    return Estimate(
        target=target, estimator="ips", value=value, stderr=stderr, by_position=(PositionValue(value, stderr),),
        ess=40.0, n=N, level=0.95, lift=Lift(0.0, 0.1, -0.2, 0.2), interval_at=lambda level: (value, value), **more,
    )  # fmt: skip


def paired(logged=0):
    columns = [*np.ones((logged, N)), *COLUMNS]
    return pairing([NEW, OLD], {"a": None, "b": None}, totals_of(columns, None), logged)


def spread(row):
    """The standard error of the mean of N independent numbers."""
    return float(np.std(row, ddof=1) / np.sqrt(N))


@pytest.mark.parametrize("logged", [0, 3])
def test_each_plan_has_its_own_columns(logged):
    pairs = paired(logged)
    np.testing.assert_array_equal(pairs.combination(NEW)[logged:], [0, 1, 0, 0])
    np.testing.assert_array_equal(pairs.error_combination(OLD)[logged:], [0, 0, 0.5, -2.0])
    assert pairs.end == logged + 4 == len(pairs.totals.sums)
    earned = pairs.totals.column(pairs.logged)
    assert earned.value == pytest.approx(COLUMNS[0].mean(), rel=1e-12)
    assert pairs.totals.stderr(earned) == pytest.approx(spread(COLUMNS[0]), rel=1e-12)


def test_what_an_estimator_knows_beyond_the_rows_makes_its_error_larger_never_smaller():
    pairs, raw = paired(), spread(COLUMNS[1])
    wide, narrow = (pairs.quantity(NEW, estimate("new", 2.0, times * raw)) for times in (3.0, 0.5))
    assert wide.inflation == pytest.approx(3.0) and narrow.inflation == 1.0
    assert pairs.totals.stderr(wide) == pytest.approx(3.0 * raw)
    assert pairs.totals.stderr(narrow) == pytest.approx(raw)


@pytest.mark.parametrize("times", [1.0, 3.0])
def test_a_lift_over_a_policy_has_the_error_of_the_difference_and_of_the_ratio(times):
    pairs = paired()
    left, right = COLUMNS[1], SECOND @ COLUMNS[2:]
    one = estimate("new", 2.0, times * spread(left), allowance=0.2)
    base = estimate("old", 1.6, spread(right), allowance=0.1)
    lift = over(NEW, one, OLD, base, pairs).lift
    error = times * spread(left - right)
    assert lift.value == pytest.approx(0.4) and lift.stderr == pytest.approx(error)
    assert lift.high - lift.value == pytest.approx(bias_aware_half(error, 0.3, 0.95, N - 1))
    ratio = times * spread((left - 2.0 / 1.6 * right) / 1.6)
    bias = (0.2 + 2.0 / 1.6 * 0.1) / 1.6
    assert lift.relative == pytest.approx(0.25)
    reach = lift.relative - lift.relative_low
    assert reach == pytest.approx(bias_aware_half(ratio, bias, 0.95, N - 1))
    (alone,) = against([NEW], [one], pairs, "other")
    assert alone.not_estimable == "'ips' has no estimate of the baseline 'other'"


def test_nothing_is_known_of_a_lift_when_one_of_the_two_is_not():
    pairs = paired()
    fine = estimate("new", 2.0, 0.1)
    lost = replace(fine, target="old").without_evidence("not enough rows")
    assert over(OLD, lost, NEW, fine, pairs) is lost
    found = over(NEW, fine, OLD, lost, pairs)
    assert not found.estimable and found.not_estimable == "the baseline is not enough rows"


def test_intervals_of_quantities_have_room_for_bias_and_few_rows():
    totals = paired().totals
    mean = Quantity(1.0, np.array([0.0, 1.0, 0.0, 0.0]), allowance=0.3, inflation=2.0)
    half = bias_aware_half(2.0 * spread(COLUMNS[1]), 0.3, 0.9, N - 1)
    assert totals.interval(mean, 0.9) == pytest.approx((1.0 - half, 1.0 + half))
    assert math.isnan(totals.stderr(replace(mean, gradient=np.full(4, np.nan))))


def test_correlations_are_those_of_the_columns_and_zero_where_nothing_is_known():
    totals = paired().totals
    quantities = [
        totals.column(0),
        totals.column(1),
        replace(totals.column(2), gradient=np.full(4, np.nan)),
    ]
    found = totals.correlations(quantities)
    assert found[0, 1] == pytest.approx(np.corrcoef(COLUMNS[:2])[0, 1], rel=1e-9)
    assert found[0, 2] == 0.0 and (np.diag(found) == 1.0).all()
