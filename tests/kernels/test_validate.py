"""Validation kernels against NumPy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.kernels import validate

SEEDS = st.tuples(st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**32 - 1))


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_first_bad_is_the_first_outside(shape):
    n, length, seed = shape
    rng = np.random.default_rng(seed)
    values = rng.random((n, length))
    spots = rng.random((n, length)) < 0.05
    values[spots] = rng.choice([np.nan, np.inf, -np.inf, 0.0, 1.5, -1.0], spots.sum())
    lengths = rng.integers(1, length + 1, n)
    used = np.arange(length) < lengths[:, None]
    bad = used & ~((values > 0) & (values <= 1))
    expected = int(np.flatnonzero(bad)[0]) if bad.any() else -1
    assert validate.first_bad(values, lengths, 0.0, 1.0) == expected


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_first_row_that_is_no_distribution(shape):
    m, size, seed = shape
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(size), m)
    assert validate.first_no_distribution(rows) == -1
    spots = np.flatnonzero(rng.random(m) < 0.2)
    for i in spots:
        rows[i, rng.integers(size)] = rng.choice([np.nan, np.inf, -1.0, 1.5, 2.0])
    bad = ~(np.abs(rows.sum(axis=1) - 1) < 1e-6) | (rows.min(axis=1) < 0)
    expected = int(np.flatnonzero(bad)[0]) if bad.any() else -1
    assert validate.first_no_distribution(rows) == expected
    assert validate.first_no_distribution(np.array([[1.5, -0.5]])) == 0


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_lengths_and_gaps(shape):
    n, length, seed = shape
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, length + 1, n)
    action = np.where(np.arange(length) < lengths[:, None], rng.integers(0, 9, (n, length)), -1)
    out = np.empty(n, dtype=np.int64)
    assert validate.ranking_lengths(action, out) == -1
    assert (out == lengths).all()
    row = int(rng.integers(n))
    if 0 < lengths[row] < length:
        action[row, lengths[row] - 1], action[row, lengths[row]] = -1, 3
        assert validate.ranking_lengths(action, out) == row


def test_padding_is_overwritten_and_nothing_else():
    values = np.arange(12.0).reshape(4, 3)
    lengths = np.array([3, 1, 2, 3])
    validate.clear_padding(values, lengths, -1.0)
    assert values.tolist() == [[0, 1, 2], [3, -1, -1], [6, 7, -1], [9, 10, 11]]
