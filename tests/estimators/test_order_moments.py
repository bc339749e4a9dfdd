"""Second moments of weights of each interaction order, by enumeration."""

from itertools import combinations, product

import numpy as np
import pytest

from counterrank.estimators.auto.rule import expected_squares
from counterrank.estimators.weights.ratios import excess_squares, of_others

MEMBERS = ("order-2", "order-3", "ips")


def order_weight(rho, k, order):
    others = [rho[m] - 1 for m in range(len(rho)) if m != k]
    return rho[k] * sum(np.prod(t) for size in range(order) for t in combinations(others, size))


@pytest.mark.parametrize("shapes", [(1, 1), (1, "K"), ("K", 1), ("K", "K")])
@pytest.mark.parametrize(("length", "used"), [(1, 1), (2, 2), (2, 1), (4, 4), (4, 3)])
def test_second_moments_of_orders_by_enumeration(shapes, length, used):
    rng = np.random.default_rng(8)
    rows = [length if shape == "K" else 1 for shape in shapes]
    tables = [
        rng.dirichlet(np.full(2, 4.0), size=(1, rows[0])),
        rng.dirichlet(np.ones(2), size=(1, rows[1])),
    ]
    found = expected_squares(MEMBERS, excess_squares(*tables), np.arange(length)[None] < used)[:, 0]
    p0, p1 = (np.broadcast_to(table, (1, length, 2))[0, :used] for table in tables)
    expected = np.zeros(len(found))
    for a in product(range(2), repeat=used):
        at = (np.arange(used), np.array(a))
        rho, chance = p1[at] / p0[at], p0[at].prod()
        for j, order in enumerate((2, 3, used)):
            expected[j] += chance * sum(order_weight(rho, k, order) ** 2 for k in range(used))
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_what_the_logger_never_shows_is_left_out_of_the_sum():
    p0 = np.array([[[0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0]], [[0.0, 0.5, 0.5]]])
    p1 = np.array([[[0.2, 0.8, 0.0]], [[0.5, 0.5, 0.0]], [[0.1, 0.9, 0.0]]])
    v = np.array([0.04 / 0.5 + 0.64 / 0.5, 0.25, 0.81 / 0.5])
    excess = excess_squares(p0, p1)
    np.testing.assert_allclose(excess[:, 0], v - 1, rtol=1e-12)
    found = expected_squares(("ips",), excess, np.ones((3, 2), dtype=bool))
    np.testing.assert_allclose(found, [2 * v**2], rtol=1e-12)


def test_pairs_of_others_keep_their_digits_beside_a_huge_value():
    one, two = of_others(np.array([[1e12, 0.1, 0.2, 0.3]]))
    np.testing.assert_allclose(one[0], [0.6, 1e12 + 0.5, 1e12 + 0.4, 1e12 + 0.3], rtol=1e-14)
    pairs = [0.11, 0.5e12 + 0.06, 0.4e12 + 0.03, 0.3e12 + 0.02]
    np.testing.assert_allclose(two[0], pairs, rtol=1e-14)
    assert np.isfinite(of_others(np.full((1, 60), 9.0))[1]).all()
