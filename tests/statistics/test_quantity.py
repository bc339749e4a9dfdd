"""Quantities: errors of values, differences and ratios from a table that can be summed by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from counterrank.statistics import (
    Quantity,
    bias_aware_half,
    contrast,
    correlations,
    fold_deviations,
    mean,
    sums_of,
)

N = 40
COLUMNS = np.random.default_rng(0).gamma(2.0, 1.0, (4, N))
SUMS = sums_of([*COLUMNS])


def spread(row):
    """The standard error of the mean of N independent numbers."""
    return float(np.std(row, ddof=1) / np.sqrt(N))


def test_the_mean_of_a_column_has_the_error_of_its_numbers():
    earned = mean(SUMS, 0)
    assert earned.value == pytest.approx(COLUMNS[0].mean(), rel=1e-12)
    assert earned.stderr == pytest.approx(spread(COLUMNS[0]), rel=1e-12)


def test_a_lift_over_a_policy_has_the_error_of_the_difference_and_of_the_ratio():
    left, right = COLUMNS[1], 0.5 * COLUMNS[2] - 2.0 * COLUMNS[3]
    new = Quantity(SUMS, 2.0, np.array([0, 1.0, 0, 0]), allowance=0.2)
    old = Quantity(SUMS, 1.6, np.array([0, 0, 0.5, -2.0]), allowance=0.1)
    lift, relative = contrast(new, old)
    error = spread(left - right)
    assert lift.value == pytest.approx(0.4) and lift.stderr == pytest.approx(error)
    assert lift.interval(0.95)[1] - lift.value == pytest.approx(
        bias_aware_half(error, 0.3, 0.95, N - 1)
    )
    ratio = spread((left - 2.0 / 1.6 * right) / 1.6)
    bias = (0.2 + 2.0 / 1.6 * 0.1) / 1.6
    assert relative.value == pytest.approx(0.25)
    reach = relative.value - relative.interval(0.95)[0]
    assert reach == pytest.approx(bias_aware_half(ratio, bias, 0.95, N - 1))


def test_a_value_over_itself_is_zero_without_error():
    new = Quantity(SUMS, 2.0, np.array([0, 1.0, 0, 0]), allowance=0.2, model_variance=0.3)
    for zero in contrast(new, new):
        assert (zero.value, zero.stderr, zero.allowance) == (0.0, 0.0, 0.0)


def test_what_folds_leave_out_is_subtracted_where_it_is_shared():
    """Two values by one fitted model: its error is in both, and not in their difference."""
    by_fold = np.array([1.0, 1.2, 0.7, 1.1])
    refits = fold_deviations(by_fold)
    variance = 3 / 4 * ((by_fold - by_fold.mean()) ** 2).sum()
    new = replace(mean(SUMS, 1), refits=refits)
    assert new.stderr == pytest.approx(math.sqrt(spread(COLUMNS[1]) ** 2 + variance), rel=1e-12)
    old = replace(mean(SUMS, 2), refits=refits)
    assert (new - old).stderr == pytest.approx(spread(COLUMNS[1] - COLUMNS[2]), rel=1e-12)
    other = replace(old, refits=-refits[:3])
    both = 3 / 4 * np.sum((2 * (by_fold - by_fold.mean()))[:3] ** 2) + refits[3] ** 2
    expected = math.sqrt(spread(COLUMNS[1] - COLUMNS[2]) ** 2 + both)
    assert (new - other).stderr == pytest.approx(expected, rel=1e-12)
    found = correlations([new, old])[0, 1]
    covariance = np.cov(COLUMNS[1:3])[0, 1] / N + variance
    assert found == pytest.approx(covariance / new.stderr / old.stderr, rel=1e-9)


def test_an_error_is_no_smaller_than_the_spread_over_replicas():
    replicas = np.array([1.0, 3.0, 2.0])
    new = replace(mean(SUMS, 1), replicas=replicas)
    assert new.stderr == pytest.approx(max(1.0, spread(COLUMNS[1])))
    assert replace(new, replicas=1e-9 * replicas).stderr == pytest.approx(spread(COLUMNS[1]))
    assert replace(new, replicas=replicas[:1]).stderr == pytest.approx(spread(COLUMNS[1]))
    # Replicas of a lift are those of its two values, replica by replica.
    old = replace(mean(SUMS, 2), replicas=np.array([1.0, 3.0, 8.0]))
    assert (new - old).stderr == pytest.approx(np.std([0.0, 0.0, 6.0], ddof=1))
    # Two replicas are the fewest that spread.
    assert replace(new, replicas=100 * replicas[:2]).stderr == pytest.approx(math.sqrt(2) * 100)


def test_what_was_subtracted_comes_back_when_it_is_added():
    """A difference of a difference moves with folds and replicas as its terms do, sign and all."""
    rng = np.random.default_rng(4)
    new, old = (
        replace(mean(SUMS, column), refits=rng.normal(size=4), replicas=rng.normal(size=5))
        for column in (1, 2)
    )
    again = new - old + old
    np.testing.assert_allclose(again.refits, new.refits, rtol=1e-12)
    np.testing.assert_allclose(again.replicas, new.replicas, rtol=1e-12)
    assert (again - new).stderr == pytest.approx(0.0, abs=1e-12)


def test_intervals_of_quantities_have_room_for_bias_and_few_rows():
    one = Quantity(SUMS, 1.0, np.array([0.0, 2.0, 0.0, 0.0]), allowance=0.3)
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
    new = Quantity(SUMS, 2.0, np.eye(4)[1], model_variance=0.04, allowance=0.2, shift=0.1)
    base = Quantity(SUMS, 4.0, np.eye(4)[0], model_variance=0.01, allowance=0.1, shift=0.2)
    lift, ratio = new - base, new / base
    assert (lift.allowance, lift.model_variance) == pytest.approx((0.3, 0.05))
    assert lift.df == N - 1 and lift.shift == pytest.approx(-0.1)
    assert ratio.allowance == pytest.approx((0.2 + 0.5 * 0.1) / 4.0)
    assert ratio.model_variance == pytest.approx((0.04 + 0.25 * 0.01) / 16.0)
    assert ratio.shift == pytest.approx((0.1 - 0.5 * 0.2) / 4.0)
    rows = spread((COLUMNS[1] - 0.5 * COLUMNS[0]) / 4.0)
    assert ratio.stderr == pytest.approx(math.sqrt(rows**2 + ratio.model_variance))


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


def test_a_value_alone_has_no_error():
    assert math.isnan(replace(mean(SUMS, 1), model_variance=math.nan).stderr)
    assert math.isnan((replace(mean(SUMS, 1), model_variance=math.nan) - mean(SUMS, 0)).stderr)


def test_a_column_that_is_no_number_spoils_no_other():
    columns = [*COLUMNS, np.full(N, 1e300)]
    one = mean(sums_of(columns), 1)
    assert one.stderr == pytest.approx(spread(COLUMNS[1]), rel=1e-12)
    bucket = np.arange(N) % 7
    clustered = mean(sums_of([*COLUMNS, np.full(N, np.inf)], bucket), 1)
    scores = np.bincount(bucket, COLUMNS[1] - COLUMNS[1].mean())
    assert clustered.stderr == pytest.approx(math.sqrt(7 / 6 * scores @ scores) / N, rel=1e-12)
