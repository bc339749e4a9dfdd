"""The optimum: closed forms, a general solver beside it, budgets."""

import numpy as np
import pytest
from scipy.optimize import minimize

from counterrank.exploration.options import drop_small_shares, shares_at_budget


def variance(shares, probs, weight):
    return (weight / (shares @ probs)).sum()


def test_one_place_with_any_budget_is_the_root_of_the_mean_squared_contribution():
    weight = np.array([0.5, 0.1, 0.02, 0.3])
    shares = shares_at_budget(np.eye(4), weight, np.zeros(4), 1.0)
    np.testing.assert_allclose(shares, np.sqrt(weight) / np.sqrt(weight).sum(), atol=1e-4)


def test_one_place_with_a_budget_is_the_closed_form():
    weight, loss = np.array([0.5, 0.1, 0.02, 0.2]), np.array([0.0, 0.4, 0.9, 0.7])
    shares = shares_at_budget(np.eye(4), weight, loss, 0.1)
    assert shares @ loss == pytest.approx(0.1, rel=1e-5)
    # One price of loss and one multiplier for all: m = sqrt(v / (eta loss + mu)).
    eta, mu = np.polyfit(loss, weight / shares**2, 1)
    assert eta > 0
    np.testing.assert_allclose(shares, np.sqrt(weight / (eta * loss + mu)), rtol=2e-3)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("budget", [0.02, 0.1, 1.0])
def test_mixtures_are_the_minimum_that_a_general_solver_finds(seed, budget):
    """Without derivatives, over softmax shares, what exceeds the budget given to the cheapest policy."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(30), size=4)
    weight, loss = rng.random(30), np.array([0.0, 0.1, 0.3, 0.5])

    def objective(z):
        p = np.exp(z - z.max())
        p = p / p.sum()
        p = p * min(1.0, budget / (p @ loss))
        p[0] += 1.0 - p.sum()
        return variance(p, probs, weight)

    best = min(
        minimize(objective, rng.normal(size=4), method="Nelder-Mead",
                 options={"xatol": 1e-10, "fatol": 1e-10, "maxiter": 10_000}).fun
        for _ in range(4)
    )  # fmt: skip
    shares = shares_at_budget(probs, weight, loss, budget)
    assert shares @ loss <= budget
    assert variance(shares, probs, weight) <= best * (1 + 1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_no_step_of_the_multiplicative_algorithm_makes_it_better(seed):
    """The algorithm of optimal design, m sqrt(g / (eta loss + mu)), stays where the minimum is."""
    rng = np.random.default_rng(seed)
    probs = np.exp(-3 * np.abs(rng.normal(size=(8, 400))) - 5)
    weight, loss = rng.gamma(0.3, size=400), np.r_[0.0, 0.3 * rng.random(7)]
    shares = shares_at_budget(probs, weight, loss, 0.02)
    g = probs @ (weight / (shares @ probs) ** 2)
    used = shares > 1e-3
    eta, mu = np.polyfit(loss[used], g[used], 1)
    np.testing.assert_allclose(g[used], eta * loss[used] + mu, rtol=2e-2)
    assert (g[~used] <= 1.02 * (eta * loss[~used] + mu)).all()


@pytest.mark.parametrize("budget", [0.01, 0.05, 0.2])
def test_the_budget_is_kept_and_used(budget):
    rng = np.random.default_rng(2)
    probs = np.vstack([np.eye(1, 12)[0] + 1e-9, rng.dirichlet(np.ones(12), size=3)])
    weight, loss = rng.random(12), np.array([0.0, 0.3, 0.4, 0.5])
    shares = shares_at_budget(probs, weight, loss, budget)
    assert shares.sum() == pytest.approx(1.0)
    assert 0.95 * budget <= shares @ loss <= budget
    less = shares_at_budget(probs, weight, loss, budget / 2)
    assert variance(shares, probs, weight) < variance(less, probs, weight)


def test_what_nothing_can_keep_is_the_cheapest():
    shares = shares_at_budget(np.eye(2), np.ones(2), np.array([0.5, 0.3]), 0.1)
    assert shares.tolist() == [0.0, 1.0]


def test_parts_that_hardly_matter_are_left_out():
    probs = np.array([[0.5, 0.5], [0.5 + 1e-9, 0.5 - 1e-9]])
    shares = drop_small_shares(probs, np.ones(2), np.zeros(2), np.array([0.9, 0.1]), 0.1)
    assert shares.tolist() == [1.0, 0.0]
    apart = drop_small_shares(np.eye(2), np.ones(2), np.zeros(2), np.array([0.9, 0.1]), 0.1)
    assert apart.tolist() == [0.9, 0.1]
