"""Naive twins of the kernels that `auto` spends its time in."""

import numpy as np
import pytest

from counterrank.estimators.auto.masked import inside
from counterrank.estimators.auto.plan import FIXED
from counterrank.estimators.kernels.auto_moments import add_moments
from counterrank.estimators.kernels.mask_orders import masked_members
from counterrank.estimators.kernels.orders import members
from counterrank.kernels import regress_predict
from counterrank.kernels.gram_products import add_products
from counterrank.kernels.sigmoid import exponential, sigmoid
from counterrank.models.layout import Arrays, Layout, Scale, count_slots, pair_slots
from counterrank.models.linear import LinearModel, mean_values
from counterrank.models.tables import tables_of

K, A, D, F, N = 5, 3, 2, 3, 300


def batch(rng, places, *, padded):
    lengths = rng.integers(1, K + 1, N) if padded else np.full(N, K)
    action = np.where(np.arange(K) < lengths[:, None], rng.integers(0, A, (N, K)), -1)
    x = np.concatenate([np.ones((N, 1)), rng.standard_normal((N, D))], axis=1)
    logging = rng.dirichlet(np.ones(A), (N, places))
    return Arrays(action, lengths, rng.integers(0, F, N), x, logging.mean(axis=1), logging)


def layout_of(**options):
    slots = options.pop("slots", pair_slots(K))
    return Layout(K, A, D, F, slots, Scale(np.ones(D), np.zeros(D), np.ones(D)), **options)


LAYOUTS = [{}, {"slots": count_slots(K)}, {"cross": True}, {"squares": 1}, {"cross": True, "squares": 2}]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("options", LAYOUTS)
def test_tables_equal_features_times_coefficients(options, padded):
    rng = np.random.default_rng(1)
    layout, given = layout_of(**options), batch(rng, 1, padded=padded)
    coef = rng.standard_normal((2, F, K, A, layout.width))
    twin = np.zeros((2, N, K))
    regress_predict.at_logged(
        given.action, given.lengths, given.fold, given.x, given.centre, given.logging, layout.slots, layout.cross,
        layout.squares, coef, twin,
    )  # fmt: skip
    found, bare = tables_of(layout, coef).at_logged(given)
    np.testing.assert_allclose(found, twin, atol=1e-11)
    if not layout.cross and not layout.squares:
        without = np.concatenate([np.zeros((F, K, A, D + 1)), coef[1, ..., D + 1 :]], axis=-1)
        np.testing.assert_allclose(bare, tables_of(layout, without[None]).at_logged(given)[0][0], atol=1e-11)


@pytest.mark.parametrize("options", LAYOUTS)
def test_mean_of_the_model_equals_the_mean_over_every_ranking(options):
    rng = np.random.default_rng(2)
    layout, given = layout_of(**options), batch(rng, 1, padded=False)
    wanted, coef = rng.dirichlet(np.ones(A), (N, 1)), rng.standard_normal((F, K, A, layout.width))
    found = mean_values(layout, given, wanted, coef)
    rankings = np.stack(np.meshgrid(*[np.arange(A)] * K, indexing="ij"), axis=-1).reshape(-1, K)
    few = slice(0, 3)
    total = np.zeros((3, K))
    for ranking in rankings:
        shown = Arrays(
            np.tile(ranking, (3, 1)), given.lengths[few], given.fold[few], given.x[few], given.centre[few],
            given.logging[few],
        )  # fmt: skip
        chance = wanted[few, 0][:, ranking].prod(axis=1)[:, None]
        total += chance * tables_of(layout, coef[None]).at_logged(shown)[0][0]
    np.testing.assert_allclose(found[few], total, atol=1e-11)


@pytest.mark.parametrize("places", [1, K])
def test_logistic_means_of_draws_equal_the_general_kernel(places):
    rng = np.random.default_rng(3)
    layout, given = layout_of(), batch(rng, places, padded=True)
    coef, wanted = rng.standard_normal((F, K, A, layout.width)), rng.dirichlet(np.ones(A), (N, places))
    logistic = np.array([1, 1, 0, 1, 0])
    draws = np.where(given.action[:, None] < 0, -1, rng.integers(0, A, (N, 4, K)))
    model = LinearModel(layout, coef, logistic, draws=4)
    twin = np.zeros((N, K))
    for s in range(4):
        for i in range(N):
            for k in np.flatnonzero(logistic[: given.lengths[i]]):
                for u in range(A):
                    ranking = draws[i, s].copy()
                    ranking[k] = u
                    z = np.zeros(layout.width)
                    z[: D + 1], z[D + 1 : D + 1 + A] = given.x[i], given.centre[i]
                    for m in range(given.lengths[i]):
                        if m != k:
                            z[D + 1 + A + layout.slots[k, m] * A + ranking[m]] += 1
                    q = 1 / (1 + np.exp(-z @ coef[given.fold[i], k, u]))
                    twin[i, k] += wanted[i, min(k, places - 1), u] * q / 4
    at = np.flatnonzero(logistic)
    general = model._drawn(draws, given, wanted)
    np.testing.assert_allclose(general[:, at], twin[:, at], atol=1e-12)
    from counterrank.models.linear import _logistic_means

    found = _logistic_means(layout, given, wanted, draws, np.ascontiguousarray(coef[:, at]), at)
    np.testing.assert_allclose(found, twin, atol=1e-12)


@pytest.mark.parametrize("orders", [[1], [1, 2], [1, 2, 3]])
def test_moments_equal_products_of_the_members(orders):
    rng = np.random.default_rng(4)
    rho, r, q, mean = rng.exponential(size=(N, K)), *rng.standard_normal((3, N, K))
    lengths = rng.integers(1, K + 1, N)
    pad = np.arange(K) >= lengths[:, None]
    projected = np.where(pad, 0.0, rng.standard_normal((2, N, K)))
    rho, alpha, orders = np.where(pad, 1.0, rho), rng.random(K), np.array(orders)
    masked, J = inside(K), len(orders)
    C, table = len(FIXED) + J + len(masked.names), (masked.pairs, masked.added, masked.base)
    columns, square = np.zeros((K, C, N)), np.zeros(J + 1 + len(masked.names))
    members(rho, r, q, mean, projected, orders, lengths, columns, square[: J + 1])
    masked_members(rho, r - q, mean, *table, lengths, columns[:, len(FIXED) + J :], square[J + 1 :])
    size = (C + 4) // 4 * 4
    second, total, found, weights = (
        np.zeros((K, size, size)),
        np.zeros((size, size)),
        np.zeros(len(square)),
        np.zeros(2),
    )
    totals = np.empty((N, C))
    add_moments(
        np.ascontiguousarray(rho.T), r, q, mean, projected, orders, *table, lengths, alpha, second, total, found,
        weights, totals,
    )  # fmt: skip
    np.testing.assert_allclose(totals.T, np.tensordot(alpha, columns, axes=1), atol=1e-10)
    lower = np.tril(np.ones((C, C), dtype=bool))
    np.testing.assert_allclose(second[:, :C, :C][:, lower], (columns @ columns.swapaxes(1, 2))[:, lower], rtol=1e-9)
    np.testing.assert_allclose(second[:, C, :C], columns.sum(axis=2), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(total[:C, :C][lower], (totals.T @ totals)[lower], rtol=1e-9)
    np.testing.assert_allclose(found, square, rtol=1e-10)
    weight = (rho + projected[1]).mean(axis=1)
    np.testing.assert_allclose(weights, [weight.sum(), weight @ weight], rtol=1e-10)


def test_products_equal_a_matrix_product():
    columns, out = np.random.default_rng(5).standard_normal((12, 50)), np.zeros((12, 12))
    add_products(columns, 37, out)
    np.testing.assert_allclose(np.tril(out), np.tril(columns[:, :37] @ columns[:, :37].T), atol=1e-12)


def test_exponential_and_sigmoid_equal_numpy():
    t = np.linspace(-60, 60, 10_001)
    found = t.copy()
    exponential(found, len(found))
    np.testing.assert_allclose(found, np.exp(t), rtol=1e-15)
    found = t.copy()
    sigmoid(found, len(found))
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-t)), rtol=2e-15)
    far = np.array([np.nan, np.inf, -np.inf, 5000.0, -5000.0])
    sigmoid(far, 5)
    assert np.isnan(far[0]) and far[1] == far[3] == 1.0 and far[2] < 1e-300 and far[4] < 1e-300
