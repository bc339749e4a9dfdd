"""One pass of moments against plain NumPy sums; fused weights against stored ones; Gram and bucket
tables.
"""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.estimators.weights import moments as kernels
from counterrank.estimators.weights.diagnostics import BIN_EDGES
from counterrank.estimators.weights.moments import (
    moments_of,
    moments_of_ratios,
)

SHAPES = st.tuples(st.integers(1, 700), st.integers(1, 9), st.integers(0, 2**32 - 1))


def batch(n, length, seed):
    rng = np.random.default_rng(seed)
    rho = np.where(rng.random((n, length)) < 0.1, 0.0, rng.lognormal(0, 0.7, (n, length)))
    alpha = rng.random(length) + 0.1
    return rho, rng.normal(1, 2, (n, length)), alpha, rng


def twin(y, w, r, alpha):
    """Every sum of the contract, in NumPy."""
    total, base, weight = y @ alpha, r @ alpha, w @ alpha / alpha.sum()
    where = np.clip(
        np.searchsorted(BIN_EDGES, np.abs(weight), side="right") - 1, 0, kernels.BINS - 1
    )
    return {
        "positions": np.stack([(a * b).sum(0) for a, b in
                               ((y, 1), (w, 1), (r, 1), (y, y), (w, w), (r, r), (y, w), (y, r))]),
        "rows": np.array([(a * b).sum() for a, b in
                          ((total, 1), (base, 1), (weight, 1), (total, total), (base, base), (weight, weight),
                           (total, base))]),
        "peaks": np.append(np.abs(w).max(0), np.abs(total).max()),
        "histogram": np.stack([np.bincount(where, minlength=kernels.BINS).astype(float),
                               np.bincount(where, weights=np.abs(weight), minlength=kernels.BINS)]),
        "totals": total,
    }  # fmt: skip


def assert_same(moments, totals, expected, scale):
    for name in ("positions", "rows", "peaks", "histogram"):
        np.testing.assert_allclose(
            getattr(moments, name), expected[name], rtol=1e-10, atol=1e-11 * scale, err_msg=name
        )
    np.testing.assert_allclose(totals, expected["totals"], rtol=1e-11, atol=1e-12 * scale)


@settings(max_examples=40, deadline=None)
@given(SHAPES)
def test_moments_of_any_contributions(shape):
    n, length, seed = shape
    w, r, alpha, rng = batch(n, length, seed)
    w -= 0.05  # order weights may be negative
    y = w * r + rng.normal(size=w.shape)
    moments, totals = moments_of(y, w, r, alpha)
    scale = n * max(1.0, float(np.abs(y).max() ** 2), float(np.abs(w).max() ** 2))
    assert_same(moments, totals, twin(y, w, r, alpha), scale)


def assert_same_but_for_edges(moments, totals, w, r, alpha):
    """The same, where a mean weight on the edge of a bin may fall on either side of it after
    rounding.
    """
    scale = len(w) * max(1.0, float(np.abs(w * r).max() ** 2), float(np.abs(w).max() ** 2))
    expected = twin(w * r, w, r, alpha)
    got, wanted = moments.histogram[0], expected["histogram"][0]
    assert got.sum() == len(w) and np.abs(got - wanted).sum() <= 4
    assert moments.histogram[1].sum() == pytest.approx(expected["histogram"][1].sum(), rel=1e-10)
    expected["histogram"] = moments.histogram
    assert_same(moments, totals, expected, scale)


def products(rho):
    """Weights of each kind; those of interaction orders term by term."""
    others = [[m for m in range(rho.shape[1]) if m != k] for k in range(rho.shape[1])]
    excess = rho - 1.0
    single = [sum((excess[:, m] for m in rest), np.zeros(len(rho))) for rest in others]
    pairs = [
        sum((excess[:, a] * excess[:, b] for a, b in combinations(rest, 2)), np.zeros(len(rho)))
        for rest in others
    ]
    return {
        "position": rho,
        "prefix": np.cumprod(rho, axis=1),
        "joint": np.broadcast_to(rho.prod(axis=1, keepdims=True), rho.shape),
        "order-2": rho * np.column_stack([1 + one for one in single]),
        "order-3": rho * np.column_stack([1 + a + b for a, b in zip(single, pairs, strict=True)]),
    }


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.sets(st.sampled_from(kernels.KINDS), min_size=1))
def test_standard_weights_in_one_pass(shape, kinds):
    n, length, seed = shape
    target, r, alpha, rng = batch(n, length, seed)
    logging = rng.uniform(0.2, 1, (n, length))
    lengths = rng.integers(1, length + 1, n)
    padding = np.arange(length) >= lengths[:, None]
    r[padding], target[padding], logging[padding] = 0.0, np.nan, 0.0
    rho = np.where(padding, 1.0, target / np.where(padding, 1.0, logging))
    rewards = [r, np.where(padding, 0.0, rng.normal(size=(n, length)))]
    found = moments_of_ratios(target, logging, lengths, rewards, alpha=alpha, kinds=kinds)
    for reward, by_kind in zip(rewards, found, strict=True):
        assert by_kind.keys() == kinds
        for kind, (moments, (totals, *weight)) in by_kind.items():
            w = products(rho)[kind]
            assert_same_but_for_edges(moments, totals, w, reward, alpha)
            assert len(weight) == (kind == "joint")
            for one in weight:
                np.testing.assert_allclose(one, w[:, 0], rtol=1e-12)


def test_an_order_keeps_its_digits_beside_a_large_ratio():
    # Taking 1e12 out of the sum of all again would leave four digits of the others.
    rho = np.array([[1e12, 1.25, 0.5]])
    (found,) = moments_of_ratios(
        rho,
        np.ones((1, 3)),
        np.array([3]),
        [np.ones((1, 3))],
        alpha=np.ones(3),
        kinds={"order-2"},
    )
    assert found["order-2"][0].mean("w")[0] == 1e12 * 0.75


@settings(max_examples=25, deadline=None)
@given(SHAPES)
def test_weights_without_stored_contributions(shape):
    n, length, seed = shape
    w, r, alpha, _ = batch(n, length, seed)
    moments, totals = moments_of(w * r, w, r, alpha)
    assert_same_but_for_edges(moments, totals, w, r, alpha)


def test_layout_does_not_matter():
    rho, r, alpha, _ = batch(500, 4, 1)
    one, _ = moments_of(rho * r, rho, r, alpha)
    other, _ = moments_of(*(np.asfortranarray(a) for a in (rho * r, rho, r)), alpha)
    for name in ("positions", "rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_bins_hold_what_their_edges_say():
    edges = BIN_EDGES
    weights = np.concatenate([[0.0, 1e-30, 2.0**70], edges[1::7], np.nextafter(edges[1::7], 0)])[
        :, None
    ]
    moments, _ = moments_of(weights, weights, weights, np.ones(1))
    assert (moments.histogram == twin(weights, weights, weights, np.ones(1))["histogram"]).all()
    counts, sums = moments.histogram
    inside = counts[1:-1] > 0
    mean = sums[1:-1][inside] / counts[1:-1][inside]
    assert (mean >= edges[1:-1][inside]).all() and (mean < edges[2:][inside]).all()
