"""Naive twins of the kernels that `auto` spends its time in."""

import numpy as np
import pytest

from counterrank.models.kernels import regress_predict
from counterrank.models.kernels.grams import add_products
from counterrank.models.kernels.sigmoid import exponential, sigmoid
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


LAYOUTS = [
    {},
    {"slots": count_slots(K)},
    {"cross": True},
    {"squares": 1},
    {"cross": True, "squares": 2},
]


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
        np.testing.assert_allclose(
            bare, tables_of(layout, without[None]).at_logged(given)[0][0], atol=1e-11
        )


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
    coef, wanted = (
        rng.standard_normal((F, K, A, layout.width)),
        rng.dirichlet(np.ones(A), (N, places)),
    )
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


def test_products_equal_a_matrix_product():
    columns, out = np.random.default_rng(5).standard_normal((12, 50)), np.zeros((12, 12))
    add_products(columns, 37, out)
    np.testing.assert_allclose(
        np.tril(out), np.tril(columns[:, :37] @ columns[:, :37].T), atol=1e-12
    )


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
