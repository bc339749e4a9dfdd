"""Second moments of weights of each interaction order, by enumeration."""

from itertools import combinations, product

import numpy as np
import pytest

from counterrank.estimators.weights.kernels.weights import exact_squares


def order_weight(rho, k, order):
    others = [rho[m] - 1 for m in range(len(rho)) if m != k]
    return rho[k] * sum(np.prod(t) for size in range(order) for t in combinations(others, size))


@pytest.mark.parametrize("shapes", [(1, 1), (1, "K"), ("K", 1), ("K", "K")])
@pytest.mark.parametrize(("length", "used"), [(1, 1), (2, 2), (2, 1), (4, 4), (4, 3)])
def test_second_moments_of_orders_by_enumeration(shapes, length, used):
    rng = np.random.default_rng(8)
    orders = np.arange(1, length)
    rows = [length if shape == "K" else 1 for shape in shapes]
    tables = [
        rng.dirichlet(np.full(2, 4.0), size=(1, rows[0])),
        rng.dirichlet(np.ones(2), size=(1, rows[1])),
    ]
    out = np.zeros(len(orders) + 1)
    assert exact_squares(*tables, np.array([used]), orders, out) == 0
    p0, p1 = (np.broadcast_to(table, (1, length, 2))[0, :used] for table in tables)
    expected = np.zeros(len(out))
    for a in product(range(2), repeat=used):
        at = (np.arange(used), np.array(a))
        rho, chance = p1[at] / p0[at], p0[at].prod()
        for j, order in enumerate((*orders, used)):
            expected[j] += chance * sum(order_weight(rho, k, order) ** 2 for k in range(used))
    np.testing.assert_allclose(out, expected, rtol=1e-11)


def test_rows_without_support_are_counted():
    p0 = np.array([[[0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0]], [[0.0, 0.5, 0.5]]])
    p1 = np.array([[[0.2, 0.8, 0.0]], [[0.5, 0.5, 0.0]], [[0.1, 0.9, 0.0]]])
    out = np.zeros(2)
    assert exact_squares(p0, p1, np.array([2, 2, 2]), np.array([1]), out) == 2
    # What the logger never shows is left out of the sum.
    v = np.array([0.04 / 0.5 + 0.64 / 0.5, 0.25, 0.81 / 0.5])
    np.testing.assert_allclose(out, [2 * v.sum(), 2 * (v**2).sum()], rtol=1e-12)
