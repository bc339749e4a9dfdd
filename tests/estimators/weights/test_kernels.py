"""Weights against products written out with loops, and the order weights against exact arithmetic."""

import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.estimators.weights import ratios as weights
from counterrank.estimators.weights.ratios import Ratios

SHAPES = st.tuples(st.integers(1, 7), st.integers(1, 300), st.integers(0, 2**32 - 1))


def ratios_like(length, n, rng):
    """Ratios (K, n) with many exact zeros, as targets without exploration give."""
    return np.where(rng.random((length, n)) < 0.15, 0.0, rng.lognormal(0, 1, (length, n)))


def of_ratios(rho):
    """The ratios (K, n) of a log with independent positions."""
    batch = SimpleNamespace(page_reward=False)
    return Ratios("factored", np.asfortranarray(rho.T), batch, None)


def by_loops(rho, mask):
    """w[k, i] = prod of rho[l, i] over l with mask[k, l]."""
    return np.stack([np.prod(np.where(row[:, None], rho, 1.0), axis=0) for row in mask])


@settings(max_examples=30, deadline=None)
@given(SHAPES)
def test_ratios_are_quotients_with_ones_in_the_padding(shape):
    length, n, seed = shape
    rng = np.random.default_rng(seed)
    target, logging = rng.random((n, length)), rng.uniform(0.01, 1, (n, length))
    lengths = rng.integers(1, length + 1, n)
    padding = np.arange(length) >= lengths[:, None]
    target[padding], logging[padding] = np.nan, 0.0  # whatever stands there must not matter
    out = weights.quotients(target, logging, lengths)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(
            out, np.where(padding, 1.0, target / np.where(padding, 1.0, logging)).T
        )


@settings(max_examples=30, deadline=None)
@given(SHAPES)
def test_prefix_full_and_one_mask(shape):
    length, n, seed = shape
    rng = np.random.default_rng(seed)
    rho = ratios_like(length, n, rng)
    mask = rng.random((length, length)) < 0.5
    ratios = of_ratios(rho)
    np.testing.assert_allclose(ratios.prefix().T, np.cumprod(rho, axis=0), rtol=1e-13)
    whole = np.broadcast_to(rho.prod(axis=0), rho.shape)
    np.testing.assert_allclose(ratios.full().T, whole, rtol=1e-13)
    out = weights.ordered(rho, mask, length)
    np.testing.assert_allclose(out, by_loops(rho, mask), rtol=1e-13)


@settings(max_examples=30, deadline=None)
@given(SHAPES)
def test_a_mask_for_each_row_and_position(shape):
    length, n, seed = shape
    rng = np.random.default_rng(seed)
    rho = ratios_like(length, n, rng)
    masks = rng.random((4, length, length)) < 0.5
    choice = rng.integers(0, 4, (n, length))
    out = weights.masked(rho, masks, choice)
    each = np.stack([by_loops(rho, mask) for mask in masks])  # (M, K, n)
    expected = each[choice.T, np.arange(length)[:, None], np.arange(n)]
    np.testing.assert_allclose(out, expected, rtol=1e-13)


def order_weight(rho, mask, order, k):
    """The definition, in exact fractions."""
    others = [m for m in range(len(rho)) if mask[k, m] and m != k]
    total = Fraction(0)
    for size in range(min(order, len(others) + 1)):
        for group in itertools.combinations(others, size):
            product = Fraction(1)
            for m in group:
                product *= Fraction(rho[m]) - 1
            total += product
    return total * (Fraction(rho[k]) if mask[k, k] else 1)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_order_weights_match_exact_fractions(length, order, seed):
    rng = np.random.default_rng(seed)
    rho = ratios_like(length, 3, rng)
    mask = rng.random((length, length)) < 0.7
    np.fill_diagonal(mask, True)
    out = weights.ordered(rho, mask, order)
    for k, i in itertools.product(range(length), range(3)):
        exact = float(order_weight(rho[:, i].tolist(), mask, order, k))
        size = max(1.0, float(np.prod(1 + np.abs(rho[:, i] - 1))))
        assert out[k, i] == pytest.approx(exact, rel=1e-12, abs=1e-13 * size)


@pytest.mark.parametrize("length", [1, 60, 200])
def test_equal_policies_weigh_exactly_one(length):
    rho = np.ones((length, 5))
    for out in (
        of_ratios(rho).prefix(),
        of_ratios(rho).full(),
        weights.ordered(rho, np.tri(length, dtype=bool), length),
        weights.ordered(rho, np.ones((length, length), dtype=bool), min(3, length)),
    ):
        assert (out == 1.0).all()


def test_full_order_keeps_its_digits_in_long_rankings():
    # The alternating sum of 60 items would lose everything; the plain product must be used.
    rho = np.random.default_rng(0).lognormal(0, 1, (60, 4))
    out = weights.ordered(rho, np.ones((60, 60), dtype=bool), 60)
    np.testing.assert_allclose(out, np.broadcast_to(rho.prod(axis=0), rho.shape), rtol=1e-12)
