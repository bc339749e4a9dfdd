"""Sums of weights and rewards, their variances and counts, by hand on a few rows."""

import numpy as np
import pytest
from tests.estimators.weights.sums import ALPHA, arrays, made

from counterrank.estimators.weights.moments import BINS, moments_of
from counterrank.statistics import spread


def variance(moments, gradient):
    return float(moments.variances(gradient[None])[0])


def degrees_of_freedom(moments):
    return moments.sums.units - 1


def test_total_and_base_of_two_rows():
    y, w, r = (
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        np.ones((2, 2)),
        np.array([[1.0, 1.0], [2.0, 0.0]]),
    )
    moments, totals = moments_of(y, w, r, ALPHA)
    assert totals.tolist() == [2.0, 5.0]
    assert (
        moments.row_mean("base") == 1.75 and moments.row_mean("total_base") == (2 * 1.5 + 5 * 2) / 2
    )


def test_parts_add_up_to_the_whole():
    y, w, r = arrays()
    units = np.arange(40) % 7
    whole = moments_of(y, w, r, ALPHA, full=True, bucket=units)[0]
    first, second = (
        moments_of(y[rows], w[rows], r[rows], ALPHA, full=True, bucket=units[rows])[0]
        for rows in (slice(0, 13), slice(13, 40))
    )
    both = first + second
    assert both.n == 40
    for name in ("y", "w", "r", "yy", "ww", "rr", "yw", "yr"):
        np.testing.assert_allclose(both.mean(name), whole.mean(name), rtol=1e-12)
    for name in ("total", "base", "weight", "total2", "base2", "weight2", "total_base"):
        assert both.row_mean(name) == pytest.approx(whole.row_mean(name), rel=1e-12)
    np.testing.assert_allclose(both.gram, whole.gram, rtol=1e-12)
    np.testing.assert_allclose(both.buckets, whole.buckets, rtol=1e-12)
    np.testing.assert_array_equal(both.peaks, whole.peaks)
    np.testing.assert_allclose(both.histogram, whole.histogram, rtol=1e-12)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_what_one_part_lacks_the_sum_lacks(missing):
    parts = [made(full=missing in (1, 2) if i == 0 else missing in (0, 2)) for i in range(2)]
    assert (parts[0] + parts[1]).gram is None or missing == 2
    units = np.zeros(40, dtype=np.int64)
    parts = [
        made(units=units if (i == 0) == (missing == 1) or missing == 2 else None) for i in range(2)
    ]
    assert ((parts[0] + parts[1]).buckets is None) == (missing != 2)


def columns():
    y, w, r = arrays()
    return np.column_stack([y, w, r @ ALPHA])


@pytest.mark.parametrize(
    "gradient", [[1, 0, 0, 0, 0], [0, 0.7, 0, -0.4, 0], [2, 0, 3, 0, 0], [0, 0, 0, 1.5, 0]]
)
def test_the_lean_variance_of_one_position_equals_the_full_one(gradient):
    gradient = np.array(gradient, dtype=float)
    expected = gradient @ np.cov(columns().T) @ gradient / 40
    assert variance(made(full=True), gradient) == pytest.approx(expected, rel=1e-10)
    assert variance(made(full=False), gradient) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("on_base", [0.0, -1.0, 0.6])
def test_the_lean_variance_of_the_total_equals_the_full_one(on_base):
    gradient = np.array([*(2 * ALPHA), 0, 0, on_base])
    expected = gradient @ np.cov(columns().T) @ gradient / 40
    lean = made(full=False).sums.covariance(np.array([[2.0, on_base]]))[0, 0]
    assert lean == pytest.approx(expected, rel=1e-10)


def test_the_clustered_variance_by_hand():
    units = np.arange(40) // 8  # five units
    gradient = np.array([1.0, 0.5, 0, 0, -1.0])
    scores = (columns() - columns().mean(axis=0)) @ gradient
    sums = np.array([scores[units == u].sum() for u in range(5)])
    expected = 5 / 4 * (sums**2).sum() / 40**2
    assert variance(made(units=units), gradient) == pytest.approx(expected, rel=1e-10)
    assert (
        degrees_of_freedom(made(units=np.arange(40))) == 39
    )  # also where a unit's sums are negative
    assert degrees_of_freedom(made(units=units)) == 4 and degrees_of_freedom(made()) == 39


def test_spread_needs_two_rows_or_two_units():
    gradient = np.array([1.0, 0.5, 0, 0, 0])
    single = np.array([1.0, 0, 0, 0, 0])
    assert np.isnan(variance(made(1), single)) and np.isfinite(variance(made(2), single))
    assert np.isnan(variance(made(units=np.zeros(40, dtype=np.int64)), gradient))
    two = made(2, units=np.array([3, 5]))
    assert variance(two, single) == pytest.approx(variance(made(2), single), rel=1e-10)
    assert degrees_of_freedom(two) == 1


def test_units_whose_sums_are_negative_count_like_others():
    units = np.arange(40) // 8
    y, w, r = arrays()
    moments = moments_of(-y, w, -r, ALPHA, bucket=units)[0]
    gradient = np.array([1.0, 0.5, 0, 0, -1.0])
    scores = np.column_stack([-y, w, -r @ ALPHA]) @ gradient
    scores -= scores.mean()
    sums = np.array([scores[units == u].sum() for u in range(5)])
    assert variance(moments, gradient) == pytest.approx(5 / 4 * (sums**2).sum() / 40**2, rel=1e-10)
    assert degrees_of_freedom(moments) == 4


def test_a_spread_is_zero_only_where_it_is_rounding():
    assert spread(np.array(2e-20), np.array(1e-20), 11) == pytest.approx(1.1e-20, rel=1e-12, abs=0)
    assert spread(np.array(3e20), np.array(1e20), 11) == pytest.approx(2.2e20, rel=1e-12)
    assert spread(np.array(1.0), np.array(1.0 + 2.3e-16), 5) == 0.0


def test_weights_know_how_many_rows_they_are():
    _, w, r = arrays(7)
    assert moments_of(w * r, w, r, ALPHA)[0].n == 7


def test_weights_are_counted_by_eighths_of_octaves_from_2_to_the_minus_40_to_2_to_the_64():
    assert BINS == 104 * 8 + 1
    for weight, place in ((0.0, 0), (0.999 * 2.0**-40, 0), (2.0**-40, 1), (1.0, 321), (1.124, 321), (1.126, 322),
                          (0.999 * 2.0**64, 832), (2.0**64, 832), (2.0**70, 832)):  # fmt: skip
        one = np.full((1, 1), weight)
        moments = moments_of(one, one, one, np.ones(1))[0]
        assert np.flatnonzero(moments.histogram[0]).tolist() == [place]
        assert moments.histogram[1, place] == weight
