"""Bins against numpy, for numbers, ties, missing values and categories."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.estimators.behavior.training import make_bins

RNG = np.random.default_rng(0)


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(
        st.one_of(st.floats(-5, 5), st.integers(-3, 3).map(float), st.just(float("nan"))),
        min_size=1,
    ),
    most=st.integers(2, 12),
)
def test_codes_follow_the_edges(values, most):
    x = np.array(values)[:, None]
    bins = make_bins(x, np.array([False]), limit=most, rng=RNG)
    edges = bins.edges[0]
    assert (np.diff(edges) > 0).all() and len(edges) < most
    codes = bins.codes(x)[0]
    np.testing.assert_array_equal(codes == 0, np.isnan(x[:, 0]))
    known = ~np.isnan(x[:, 0])
    np.testing.assert_array_equal(codes[known], 1 + np.searchsorted(edges, x[known, 0]))
    assert codes.max(initial=0) < bins.most


def test_quantile_bins_are_about_equally_full():
    x = np.random.default_rng(1).normal(size=(10_000, 1))
    codes = make_bins(x, np.array([False]), limit=20, rng=RNG).codes(x)[0]
    assert np.bincount(codes, minlength=21)[1:].min() > 480


def test_rare_categories_and_unknown_ones_count_as_missing():
    x = np.array([[0.0]] * 5 + [[1.0]] * 4 + [[7.0]] * 3 + [[3.0]])
    bins = make_bins(x, np.array([True]), limit=3, rng=RNG)
    assert bins.edges[0].tolist() == [0.0, 1.0, 7.0]
    assert bins.codes(np.array([[7.0], [3.0], [np.nan], [0.0]]))[0].tolist() == [3, 0, 0, 1]


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.integers(-40, 40).map(float), min_size=1, max_size=120),
    most=st.integers(2, 12),
)
def test_edges_are_those_of_the_sorted_values(values, most):
    """With and without ties at the quantiles: the short way gives what sorting gives."""
    ordered = np.sort(values)
    rises = [i for i in range(1, len(ordered)) if ordered[i] > ordered[i - 1]]
    if len(rises) >= most:
        wanted = [(j * len(ordered)) // most for j in range(1, most)]
        rises = sorted({next((i for i in rises if i >= w), rises[-1]) for w in wanted})
    expected = [(ordered[i - 1] + ordered[i]) / 2 for i in rises]
    found = make_bins(np.array(values)[:, None], np.array([False]), limit=most, rng=RNG)
    assert found.edges[0].tolist() == expected
