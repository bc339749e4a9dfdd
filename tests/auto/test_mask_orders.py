"""Orders inside masks: kernels against naive twins and enumeration of every ranking."""

from itertools import combinations, product

import numpy as np
import pytest

from counterrank.behavior import mask
from counterrank.estimators.auto.masked import inside, steps
from counterrank.estimators.auto.state import AutoState, _second_moments
from counterrank.estimators.kernels.mask_orders import masked_members, masked_squares
from counterrank.estimators.kernels.orders import excess_squares

MASKS = ("C", "N1", "W2", "C1", "IC", "R2")


def naive_weight(rho, row, k, order):
    others = [rho[j] - 1 for j in range(len(rho)) if row[j] and j != k]
    largest = len(others) + 1 if order == 0 else order
    return rho[k] * sum(np.prod(t) for size in range(largest) for t in combinations(others, size))


def table_of(names, K):
    """Return every name's orders 1, 2, 3 and whole, with the steps of its mask."""
    pairs = np.array([(m, order) for m in range(len(names)) for order in (1, 2, 3, 0)])
    return pairs, *steps([mask(name, K) for name in names], K)


def test_members_equal_their_formula():
    rng = np.random.default_rng(0)
    n, K = 25, 5
    lengths = rng.integers(1, K + 1, n)
    pad = np.arange(K) >= lengths[:, None]
    rho, error, mean = np.where(pad, 1.0, rng.exponential(size=(n, K))), *rng.standard_normal((2, n, K))
    table = table_of(MASKS, K)
    out, square = np.zeros((K, len(table[0]), n)), np.zeros(len(table[0]))
    masked_members(rho, error, mean, *table, lengths, out, square)
    for p, (m, order) in enumerate(table[0]):
        rows = mask(MASKS[m], K)
        w = np.array([[naive_weight(row, rows[k], k, order) for k in range(K)] for row in rho])
        np.testing.assert_allclose(out[:, p].T, np.where(pad, 0.0, mean + w * error), atol=1e-11)
        assert square[p] == pytest.approx((np.where(pad, 0.0, w) ** 2).sum(), rel=1e-11)


def rankings(p0, p1):
    """Return every ranking with its chances and ratios."""
    K, A = p0.shape
    shown = np.array(list(product(range(A), repeat=K)))
    at = np.arange(K)
    return shown, p0[at, shown].prod(axis=1), p1[at, shown].prod(axis=1), p1[at, shown] / p0[at, shown]


@pytest.mark.parametrize("name", ["C", "N1"])
@pytest.mark.parametrize("order", [2, 3, 0])
def test_expectation_is_exact_where_rewards_stay_inside(name, order):
    """Rewards: a sum of arbitrary functions of at most `order` items of the mask's row; E_0[w r] = E_pi r to 1e-12."""
    rng = np.random.default_rng(1)
    K, A = 4, 3
    p0, p1 = rng.dirichlet(np.ones(A) * 4, K), rng.dirichlet(np.ones(A), K)
    shown, chance, wanted, rho = rankings(p0, p1)
    rows = mask(name, K)
    reward = np.zeros(shown.shape)
    for k in range(K):
        others = [j for j in range(K) if rows[k, j] and j != k]
        for size in range(order or K):
            for group in combinations(others, size):
                effect = rng.standard_normal((A,) * (size + 1))
                reward[:, k] += effect[tuple(shown[:, [k, *group]].T)]
    pairs, added, base = np.array([(0, order)]), *steps([rows], K)
    out = np.zeros((K, 1, len(shown)))
    masked_members(rho, reward, np.zeros_like(reward), pairs, added, base, np.full(len(shown), K), out, np.zeros(1))
    np.testing.assert_allclose(out[:, 0] @ chance, wanted @ reward, atol=1e-12)


@pytest.mark.parametrize("places", [(1, 1), (4, 4), (1, 4)])
@pytest.mark.parametrize("used", [4, 3])
def test_exact_second_moments_equal_enumeration(places, used):
    rng = np.random.default_rng(2)
    K, A = 4, 3
    p0, p1 = rng.dirichlet(np.ones(A) * 4, (1, places[0])), rng.dirichlet(np.ones(A), (1, places[1]))
    table = table_of(MASKS, K)
    out = np.zeros(len(table[0]))
    excess = np.zeros((1, max(places)))
    assert excess_squares(p0, p1, np.array([used]), excess) == 0
    masked_squares(excess, np.array([used]), *table, out)
    wide = [np.broadcast_to(p, (1, K, A))[0, :used] for p in (p0, p1)]
    _, chance, _, rho = rankings(*wide)
    for p, (m, order) in enumerate(table[0]):
        rows = mask(MASKS[m], K)[:, :used]
        squares = [sum(naive_weight(row, rows[k], k, order) ** 2 for k in range(used)) for row in rho]
        assert out[p] == pytest.approx(chance @ np.array(squares), rel=1e-12)


def test_second_moments_without_distributions_are_those_of_the_mean_squares():
    """Where every row has the same v_k, mean rho^2 - 1 = v_k gives what the distributions would."""
    rng = np.random.default_rng(3)
    K, A, n = 5, 3, 7
    p0, p1 = rng.dirichlet(np.ones(A) * 4, (1, K)), rng.dirichlet(np.ones(A), (1, K))
    masked, excess = inside(K), np.zeros((1, K))
    exact = np.zeros(len(masked.names))
    excess_squares(p0, p1, np.array([K]), excess)
    masked_squares(excess, np.array([K]), masked.pairs, masked.added, masked.base, exact)
    empty = np.zeros(0)
    state = AutoState(
        n=n, alpha=np.ones(K), first=empty, second=empty, total=empty, mixed=empty, control=empty, control_sum=empty,
        square=empty, exact=empty, ratio=n * (p1**2 / p0).sum(axis=2)[0], weights=empty, buckets=empty,
    )  # fmt: skip
    np.testing.assert_allclose(_second_moments(state, np.array([1, 2, 3]))[4:], n * exact, rtol=1e-12)


def test_candidates_that_coincide_are_one():
    assert inside(2).names == ("dr-rips",)
    assert [c.twin for c in inside(3).candidates] == ["dr-order-2", "dr-order-2", "dr-ips", "dr-ips", "dr-ips"]
    assert [(c.name, c.larger) for c in inside(8).candidates] == [
        ("dr-N1-order-2", ("dr-order-2",)),
        ("dr-C-order-2", ("dr-order-2",)),
        ("dr-N1", ("dr-C1-order-3", "dr-order-3")),
        ("dr-C-order-3", ("dr-C1-order-3", "dr-order-3")),
        ("dr-rips", ("dr-ips",)),
        ("dr-C1-order-3", ("dr-order-3",)),
    ]
    assert inside(5000).names == ()
