"""The optimum: closed forms, a general solver beside it, budgets."""

import numpy as np
import pytest
from scipy.optimize import minimize

from counterrank.exploration.optimum import pruned, shares_at_budget, shares_at_price

ROUNDS = 400


def variance(shares, probs, weight):
    return (weight / (shares @ probs)).sum()


def test_one_place_without_a_price_is_the_root_of_the_mean_squared_contribution():
    weight = np.array([0.5, 0.1, 0.02, 0.3])
    shares = shares_at_price(np.eye(4), weight, np.zeros(4), 0.0, ROUNDS)
    np.testing.assert_allclose(shares, np.sqrt(weight) / np.sqrt(weight).sum(), atol=1e-12)


def test_one_place_with_a_price_is_the_closed_form():
    weight, loss, eta = np.array([0.5, 0.1, 0.02]), np.array([0.0, 0.4, 0.9]), 3.0
    shares = shares_at_price(np.eye(3), weight, loss, eta, ROUNDS)
    mu = weight / shares**2 - eta * loss
    # One multiplier for all: sqrt(v / (eta loss + mu)).
    np.testing.assert_allclose(mu, mu[0], rtol=1e-9)


def test_mixtures_are_the_minimum_that_a_general_solver_finds():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(30), size=4)
    weight, loss = rng.random(30), np.array([0.0, 0.1, 0.3, 0.5])
    eta = 100.0
    shares = shares_at_price(probs, weight, loss, eta, 3000)

    def objective(z):
        p = np.exp(z - z.max())
        p = p / p.sum()
        return variance(p, probs, weight) + eta * p @ loss

    best = min(
        minimize(objective, rng.normal(size=4), method="Nelder-Mead",
                 options={"xatol": 1e-10, "fatol": 1e-10, "maxiter": 10_000}).fun
        for _ in range(4)
    )  # fmt: skip
    assert variance(shares, probs, weight) + eta * shares @ loss <= best * (1 + 1e-6)


def test_no_step_makes_it_worse():
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.full(20, 0.3), size=5) + 1e-6
    weight, loss, eta = rng.random(20), rng.random(5), 20.0
    found = [
        variance(s, probs, weight) + eta * s @ loss
        for s in (shares_at_price(probs, weight, loss, eta, steps) for steps in range(1, 30))
    ]
    assert (np.diff(found) <= 1e-9).all()


@pytest.mark.parametrize("budget", [0.01, 0.05, 0.2])
def test_the_budget_is_kept_and_used(budget):
    rng = np.random.default_rng(2)
    probs = np.vstack([np.eye(1, 12)[0] + 1e-9, rng.dirichlet(np.ones(12), size=3)])
    weight, loss = rng.random(12), np.array([0.0, 0.3, 0.4, 0.5])
    shares = shares_at_budget(probs, weight, loss, budget, ROUNDS)
    assert shares.sum() == pytest.approx(1.0)
    assert 0.95 * budget <= shares @ loss <= budget
    less = shares_at_budget(probs, weight, loss, budget / 2, ROUNDS)
    assert variance(shares, probs, weight) < variance(less, probs, weight)


def test_what_nothing_can_keep_is_the_cheapest():
    shares = shares_at_budget(np.eye(2), np.ones(2), np.array([0.5, 0.3]), 0.1, 50)
    assert shares.tolist() == [0.0, 1.0]


def test_parts_that_hardly_matter_are_left_out():
    probs = np.array([[0.5, 0.5], [0.5 + 1e-9, 0.5 - 1e-9]])
    shares = pruned(probs, np.ones(2), np.zeros(2), np.array([0.9, 0.1]), 0.1)
    assert shares.tolist() == [1.0, 0.0]
    apart = pruned(np.eye(2), np.ones(2), np.zeros(2), np.array([0.9, 0.1]), 0.1)
    assert apart.tolist() == [0.9, 0.1]
