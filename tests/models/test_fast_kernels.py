"""Plain loops beside the sums that `auto` spends its time in."""

import numpy as np
import pytest

from counterrank.models.clicks.likelihood import sigmoid
from counterrank.models.columns import (
    Arrays,
    Layout,
    columns_of,
    count_slots,
    indicators,
    logged_values,
    pair_slots,
)
from counterrank.models.linear import logistic_means, mean_values

K, A, D, F, N = 5, 3, 2, 3, 300


def batch(rng, *, padded, curved=False):
    lengths = rng.integers(1, K + 1, N) if padded else np.full(N, K)
    action = np.where(np.arange(K) < lengths[:, None], rng.integers(0, A, (N, K)), -1)
    return Arrays(action, lengths, rng.integers(0, F, N), requests(rng, curved=curved))


def requests(rng, *, curved=False):
    x = rng.standard_normal((N, D))
    return layout_of(curved=curved).requests(x)


def layout_of(**options):
    slots = options.pop("slots", pair_slots(K))
    return Layout(K, A, F, slots, np.zeros(D), np.ones(D), **options)


LAYOUTS = [
    {},
    {"slots": count_slots(K)},
    {"cross": True},
    {"squares": 1},
    {"cross": True, "squares": 2},
    {"cross": True, "squares": 1, "curved": True},
]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("options", LAYOUTS)
def test_values_equal_columns_times_coefficients(options, padded):
    """The compiled values against the columns that Gram matrices and means are made of."""
    rng = np.random.default_rng(1)
    curved = options.get("curved", False)
    layout, given = layout_of(**options), batch(rng, padded=padded, curved=curved)
    coef = rng.standard_normal((F, K, A, layout.width))
    found, twin = logged_values(layout, given, coef), np.zeros((N, K))
    columns = np.empty((layout.width, N))
    for k in columns_of(layout, given, indicators(given.action, A), range(K), columns):
        own = coef[given.fit, k, given.action[:, k]]
        twin[:, k] = np.where(given.action[:, k] >= 0, np.einsum("dn,nd->n", columns, own), 0.0)
    np.testing.assert_allclose(found, twin, atol=1e-11)
    assert (found[given.action < 0] == 0).all() and np.abs(found).max() > 1


@pytest.mark.parametrize("places", [1, K])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("options", LAYOUTS)
def test_means_equal_the_columns_that_they_stand_for(options, padded, places):
    """The compiled means against the columns that Gram matrices are made of; other positions are zero."""
    rng = np.random.default_rng(4)
    curved = options.get("curved", False)
    layout, arrays = layout_of(**options), batch(rng, padded=padded, curved=curved)
    chances = rng.dirichlet(np.ones(A), (N, places))
    coef, positions = rng.standard_normal((F, K, A, layout.width)), np.array([0, 1, 4])
    means, twin = mean_values(layout, arrays, chances, coef, positions), np.zeros((N, K))
    by_position = np.repeat(chances, K // places, axis=1)
    shown = (by_position * (arrays.action >= 0)[..., None]).transpose(1, 2, 0)
    columns = np.empty((layout.width, N))
    for k in columns_of(layout, arrays, shown, positions, columns):
        twin[:, k] = np.einsum("dn,nud,un->n", columns, coef[arrays.fit, k], shown[k])
    np.testing.assert_allclose(means, twin, atol=1e-11)
    assert np.abs(twin[:, positions]).max(axis=0).min() > 1


@pytest.mark.parametrize("places", [1, K])
def test_there_are_no_means_where_a_sigmoid_stands_at_every_position(places):
    rng = np.random.default_rng(4)
    layout, chances = layout_of(), rng.dirichlet(np.ones(A), (N, places))
    arrays, coef = batch(rng, padded=False), rng.standard_normal((F, K, A, layout.width))
    nowhere = np.array([], dtype=np.int64)
    np.testing.assert_array_equal(
        mean_values(layout, arrays, chances, coef, nowhere), np.zeros((N, K))
    )


@pytest.mark.parametrize("options", LAYOUTS)
def test_mean_of_the_model_equals_the_mean_over_every_ranking(options):
    rng = np.random.default_rng(2)
    curved = options.get("curved", False)
    layout, given = layout_of(**options), batch(rng, padded=False, curved=curved)
    wanted, coef = rng.dirichlet(np.ones(A), (N, 1)), rng.standard_normal((F, K, A, layout.width))
    found = mean_values(layout, given, wanted, coef, np.arange(K))
    rankings = np.stack(np.meshgrid(*[np.arange(A)] * K, indexing="ij"), axis=-1).reshape(-1, K)
    few = slice(0, 3)
    total = np.zeros((3, K))
    for ranking in rankings:
        shown = given.take(few)._replace(action=np.tile(ranking, (3, 1)))
        chance = wanted[few, 0][:, ranking].prod(axis=1)[:, None]
        total += chance * logged_values(layout, shown, coef)
    np.testing.assert_allclose(found[few], total, atol=1e-11)


@pytest.mark.parametrize("places", [1, K])
def test_logistic_means_of_draws_equal_plain_loops(places):
    rng = np.random.default_rng(3)
    layout, given = layout_of(), batch(rng, padded=True)
    coef, wanted = (
        rng.standard_normal((F, K, A, layout.width)),
        rng.dirichlet(np.ones(A), (N, places)),
    )
    logistic = np.array([1, 1, 0, 1, 0])
    draws = np.where(given.action[:, None] < 0, -1, rng.integers(0, A, (N, 4, K)))
    twin = np.zeros((N, K))
    for s in range(4):
        for i in range(N):
            for k in np.flatnonzero(logistic[: given.lengths[i]]):
                for u in range(A):
                    ranking = draws[i, s].copy()
                    ranking[k] = u
                    z = np.zeros(layout.width)
                    z[: D + 1] = given.x[i]
                    for m in range(given.lengths[i]):
                        if m != k:
                            z[D + 1 + layout.slots[k, m] * A + ranking[m]] += 1
                    q = 1 / (1 + np.exp(-z @ coef[given.fit[i], k, u]))
                    twin[i, k] += wanted[i, min(k, places - 1), u] * q / 4
    at = np.flatnonzero(logistic)
    found = logistic_means(layout, given, wanted, draws, coef[:, at], at)
    np.testing.assert_allclose(found, twin[:, at], atol=1e-12)


def test_the_sigmoid_has_no_far_end():
    t = np.linspace(-60, 60, 10_001)
    np.testing.assert_allclose(sigmoid(t), 1 / (1 + np.exp(-t)), rtol=2e-15)
    far = sigmoid(np.array([np.nan, np.inf, -np.inf, 5000.0, -5000.0]))
    assert np.isnan(far[0]) and far[1] == far[3] == 1.0 and far[2] < 1e-300 and far[4] < 1e-300
