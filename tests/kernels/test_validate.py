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
