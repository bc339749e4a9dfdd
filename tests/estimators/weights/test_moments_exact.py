"""Sums of weights and rewards, their variances and counts, by hand on a few rows."""

from dataclasses import replace

import numpy as np
import pytest
from tests.estimators.weights.sums import ALPHA, arrays, made

from counterrank.estimators.weights.moments import BINS, moments_of
from counterrank.statistics import spread


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
    whole = moments_of(y, w, r, ALPHA)[0]
    first, second = (
        moments_of(y[rows], w[rows], r[rows], ALPHA)[0] for rows in (slice(0, 13), slice(13, 40))
    )
    both = first + second
    assert both.n == 40
    for name in ("y", "w", "r", "yy", "ww", "rr", "yw", "yr"):
        np.testing.assert_allclose(both.mean(name), whole.mean(name), rtol=1e-12)
    for name in ("total", "base", "weight", "total2", "base2", "weight2", "total_base"):
        assert both.row_mean(name) == pytest.approx(whole.row_mean(name), rel=1e-12)
    np.testing.assert_array_equal(both.peaks, whole.peaks)
    np.testing.assert_allclose(both.histogram, whole.histogram, rtol=1e-12)


def test_errors_of_mean_weights_are_by_row_unless_units_are_known():
    _, w, _ = arrays()
    moments = made()
    np.testing.assert_allclose(moments.weight_errors, w.std(axis=0, ddof=1) / 40**0.5, rtol=1e-10)
    known = replace(moments, by_unit=np.array([0.1, 0.2]))
    assert known.weight_errors.tolist() == [0.1, 0.2]
    assert np.isnan(made(1).weight_errors).all() and np.isfinite(made(2).weight_errors).all()
    assert (known + moments).by_unit is None


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
