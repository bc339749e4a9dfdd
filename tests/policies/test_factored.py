"""Factored policies: tables, ties, callables, classifiers."""

import numpy as np
import pytest

from counterrank.common.errors import PolicyError
from counterrank.policies import (
    EpsilonGreedy,
    Factored,
    Softmax,
    Uniform,
)


def test_ties_share_the_greedy_mass():
    np.testing.assert_allclose(
        EpsilonGreedy([[2.0, 2.0, 0.0, 2.0]], 0.4).dist(), [[0.3, 0.3, 0.1, 0.3]]
    )
    np.testing.assert_allclose(
        EpsilonGreedy([[1.0, 1.0], [0.0, 3.0]], 0.0).dist(), [[0.5, 0.5], [0.0, 1.0]]
    )
    table = EpsilonGreedy(
        np.random.default_rng(0).integers(0, 3, size=(50, 4, 7)).astype(float), 0.3
    ).dist()
    np.testing.assert_allclose(table.sum(axis=-1), 1, rtol=1e-14)


def test_unavailable_actions_are_never_explored():
    np.testing.assert_allclose(EpsilonGreedy([[1.0, -np.inf, 0.0]], 0.2).dist(), [[0.9, 0.0, 0.1]])
    np.testing.assert_allclose(Softmax([[0.0, -np.inf, 0.0]]).dist(), [[0.5, 0.0, 0.5]])


def test_softmax_keeps_tiny_probabilities_and_temperature_divides():
    policy = Softmax([[0.0, -2000.0]], temperature=2.0)
    np.testing.assert_allclose(policy.position_log_prob(np.array([[1]])), [[-1000.0]])


def test_one_row_serves_all_rows_and_positions_may_differ():
    table = np.array([[[0.5, 0.5], [0.1, 0.9]]])
    policy = Factored(table)
    found = np.exp(policy.prefix_log_prob(np.array([[0, 0], [1, 1], [-1, 1]])))
    np.testing.assert_allclose(found, [[0.5, 0.05], [0.5, 0.45], [1.0, 0.9]])
    assert policy.take(np.array([0, 0, 0])).n_rows == 1
    with pytest.raises(PolicyError, match="describes 2 positions, 3 were asked"):
        policy.prefix_log_prob(np.zeros((1, 3), int))
    with pytest.raises(PolicyError, match="describes 2 positions, 3 were asked"):
        policy.sample(3, np.random.default_rng(0))
    assert policy.dist().shape == (1, 2, 2)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Factored([[0.5, 0.6]]), "row 0: probabilities sum to 1.1"),
        (lambda: Factored([[1.5, -0.5]]), "row 0: probability -0.5 of action 1"),
        (lambda: Factored([[np.nan, 1.0]]), "row 0: probability nan of action 0"),
        (lambda: Factored([0.5, 0.5]), r"shape \(n, A\) or \(n, K, A\), got \(2,\)"),
        (lambda: Softmax([[np.inf, 0.0]]), "row 0: score inf of action 0"),
        (lambda: Softmax([[0.0]], temperature=-1), "temperature must be positive"),
        (lambda: EpsilonGreedy([[0.0]], epsilon=1.2), "epsilon must lie in"),
        (lambda: Uniform(0), "at least one action"),
    ],
)
def test_what_is_no_distribution_is_refused(build, words):
    with pytest.raises(PolicyError, match=words):
        build()


def test_zero_probability_actions_are_never_drawn():
    drawn = Factored([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]).sample(
        5, np.random.default_rng(1), size=400
    )
    assert (drawn[0] == 1).all()
    assert not (drawn[1] == 1).any()
