"""Quantities: errors of values, differences and ratios from a table that can be summed by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from counterrank.estimators import Estimate, parse
from counterrank.estimators.base import Lift, PositionValue
from counterrank.evaluation.comparing import PairedEstimate, against
from counterrank.evaluation.jobs import Job
from counterrank.statistics import Quantity, bias_aware_half, correlations, mean, sums_of

N = 40
#: What the logger earned, then the columns of two plans, of which the second has two.
COLUMNS = np.random.default_rng(0).gamma(2.0, 1.0, (4, N))
FIRST, SECOND = np.array([1.0]), np.array([0.5, -2.0])


def estimate(target, value, stderr, **more):
    return Estimate(
        target=target, estimator="ips", value=value, stderr=stderr, by_position=(PositionValue(value, stderr),),
        ess=40.0, n=N, level=0.95, lift=Lift(0.0, 0.1, -0.2, 0.2), ends=(value, value), **more,
    )  # fmt: skip


SUMS = sums_of([*COLUMNS])


def paired(one, at, own):
    return PairedEstimate(
        Job(one.target, one.estimator, None, parse(one.estimator).plain), one, SUMS, at, own
    )


def new(one):
    return paired(one, 1, FIRST)


def old(one):
    return paired(one, 2, SECOND)


def over(one, base):
    """The first of two estimates with its lift over the second."""
    return against([one, base], base.job.target)[0].estimate


def spread(row):
    """The standard error of the mean of N independent numbers."""
    return float(np.std(row, ddof=1) / np.sqrt(N))


def test_each_plan_has_its_own_columns():
    one, two = new(estimate("new", 2.0, 0.1)), old(estimate("old", 1.0, 0.1))
    np.testing.assert_array_equal(one.by_rows.gradient, [0, 1, 0, 0])
    np.testing.assert_array_equal(two.by_rows.gradient, [0, 0, 0.5, -2.0])
    earned = mean(SUMS, 0)
    assert earned.value == pytest.approx(COLUMNS[0].mean(), rel=1e-12)
    assert earned.stderr == pytest.approx(spread(COLUMNS[0]), rel=1e-12)


def test_what_an_estimator_knows_beyond_the_rows_makes_its_error_larger_never_smaller():
    raw = spread(COLUMNS[1])
    wide, narrow = (new(estimate("new", 2.0, times * raw)).quantity for times in (3.0, 0.5))
    assert wide.inflation == pytest.approx(3.0) and narrow.inflation == 1.0
    assert wide.stderr == pytest.approx(3.0 * raw)
    assert narrow.stderr == pytest.approx(raw)


@pytest.mark.parametrize("times", [1.0, 3.0])
def test_a_lift_over_a_policy_has_the_error_of_the_difference_and_of_the_ratio(times):
    left, right = COLUMNS[1], SECOND @ COLUMNS[2:]
    one = estimate("new", 2.0, times * spread(left), allowance=0.2)
    base = estimate("old", 1.6, spread(right), allowance=0.1)
    lift = over(new(one), old(base)).lift
    error = times * spread(left - right)
    assert lift.value == pytest.approx(0.4) and lift.stderr == pytest.approx(error)
    assert lift.high - lift.value == pytest.approx(bias_aware_half(error, 0.3, 0.95, N - 1))
    ratio = times * spread((left - 2.0 / 1.6 * right) / 1.6)
    bias = (0.2 + 2.0 / 1.6 * 0.1) / 1.6
    assert lift.relative == pytest.approx(0.25)
    reach = lift.relative - lift.relative_low
    assert reach == pytest.approx(bias_aware_half(ratio, bias, 0.95, N - 1))
    (alone,) = against([new(one)], "other")
    assert alone.estimate.not_estimable == "'ips' has no estimate of the baseline 'other'"


def test_nothing_is_known_of_a_lift_when_one_of_the_two_is_not():
    fine = estimate("new", 2.0, 0.1)
    lost = replace(fine, target="old").without_evidence("not enough rows")
    assert over(old(lost), new(fine)) is lost
    found = over(new(fine), old(lost))
    assert not found.estimable and found.not_estimable == "the baseline is not enough rows"


def test_intervals_of_quantities_have_room_for_bias_and_few_rows():
    one = Quantity(SUMS, 1.0, np.array([0.0, 1.0, 0.0, 0.0]), allowance=0.3, inflation=2.0)
    half = bias_aware_half(2.0 * spread(COLUMNS[1]), 0.3, 0.9, N - 1)
    assert one.interval(0.9) == pytest.approx((1.0 - half, 1.0 + half))
    assert math.isnan(replace(one, gradient=np.full(4, np.nan)).stderr)
    centred = replace(one, shift=-0.5)
    assert centred.interval(0.9) == pytest.approx((0.5 - half, 0.5 + half))


def test_correlations_are_those_of_the_columns_and_zero_where_nothing_is_known():
    one, two, three = (mean(SUMS, column) for column in range(3))
    found = correlations([one, two, replace(three, gradient=np.full(4, np.nan))])
    assert found[0, 1] == pytest.approx(np.corrcoef(COLUMNS[:2])[0, 1], rel=1e-9)
    assert found[0, 2] == 0.0 and (np.diag(found) == 1.0).all()


def test_differences_and_ratios_have_the_gradient_of_the_function():
    """The delta method by numerical differentiation of the function of the means."""
    sums = SUMS
    means, step = sums.total / N, 1e-6
    new, base = mean(sums, 1), mean(sums, 0)
    for quantity, function in (
        (new - base, lambda m: m[1] - m[0]),
        (new / base, lambda m: m[1] / m[0]),
        (new.relative_to(base), lambda m: m[1] / m[0] - 1.0),
    ):
        assert quantity.value == pytest.approx(function(means), rel=1e-12)
        slopes = [
            (function(means + step * e) - function(means - step * e)) / (2 * step)
            for e in np.eye(4)
        ]
        np.testing.assert_allclose(quantity.gradient, slopes, atol=1e-6)
        error = spread(np.array(slopes) @ COLUMNS)
        assert quantity.stderr == pytest.approx(error, rel=1e-6)


def test_what_is_known_beyond_the_rows_goes_with_differences_and_ratios():
    sums = SUMS
    new = Quantity(sums, 2.0, np.eye(4)[1], allowance=0.2, extra=0.04, shift=0.1, freedom=7.0)
    base = Quantity(sums, 4.0, np.eye(4)[0], allowance=0.1, extra=0.01, shift=0.2, inflation=2.0)
    lift, ratio = new - base, new / base
    assert (lift.allowance, lift.extra) == pytest.approx((0.3, 0.05))
    assert (lift.inflation, lift.freedom) == (2.0, 7.0) and lift.shift == pytest.approx(-0.1)
    assert ratio.allowance == pytest.approx((0.2 + 0.5 * 0.1) / 4.0)
    assert ratio.extra == pytest.approx((0.04 + 0.25 * 0.01) / 16.0)
    assert ratio.shift == pytest.approx((0.1 - 0.5 * 0.2) / 4.0)
    assert ratio.stderr == pytest.approx(
        2.0 * math.sqrt(spread((COLUMNS[1] - 0.5 * COLUMNS[0]) / 4.0) ** 2 + ratio.extra)
    )


def test_families_and_looks_widen_intervals_by_their_critical_value():
    from counterrank.statistics import Looks, critical_value

    one, looks = mean(SUMS, 1), Looks(100)
    low, high = one.interval(0.95, family=5)
    assert (high - low) / 2 == pytest.approx(critical_value(0.99, N - 1) * one.stderr)
    low, high = one.interval(0.95, looks)
    level = looks.level(0.95, N)
    assert (high - low) / 2 == pytest.approx(critical_value(level, N - 1) * one.stderr)
    assert one.p_value(0.95, looks) == looks.p_value(one.value, one.stderr, N, 0.95)
    wide = replace(one, allowance=2 * one.value)
    assert wide.p_value() == 1.0


def test_errors_are_made_larger_never_smaller():
    one = mean(SUMS, 1)
    assert one.at_least(0.5 * one.stderr) is one
    assert one.at_least(3 * one.stderr).stderr == pytest.approx(3 * one.stderr)
    certain = Quantity(one.sample, 1.0, np.zeros(4))
    assert certain.stderr == 0.0 and certain.at_least(0.25).stderr == pytest.approx(0.25)
    assert math.isnan(one.without_error().stderr)


def test_a_column_that_is_no_number_spoils_no_other():
    columns = [*COLUMNS, np.full(N, 1e300)]
    one = mean(sums_of(columns), 1)
    assert one.stderr == pytest.approx(spread(COLUMNS[1]), rel=1e-12)
    bucket = np.arange(N) % 7
    clustered = mean(sums_of([*COLUMNS, np.full(N, np.inf)], bucket), 1)
    scores = np.bincount(bucket, COLUMNS[1] - COLUMNS[1].mean())
    assert clustered.stderr == pytest.approx(math.sqrt(7 / 6 * scores @ scores) / N, rel=1e-12)
