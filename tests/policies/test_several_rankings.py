"""Several rankings of a row at once are the same as one after the other, for every policy."""

import numpy as np
import pytest

import counterrank as cr

A, K, N, S = 7, 4, 30, 5


def scores(seed):
    out = np.random.default_rng(seed).normal(size=(N, A))
    out[3, 2] = -np.inf
    # Nearly all mass on two items: the rest is what underflows beside it.
    out[4, :2] += 900.0
    return out


def rankings():
    rng = np.random.default_rng(5)
    out = np.array([[rng.permutation(A)[:K] for _ in range(S)] for _ in range(N)])
    out[6, 1, 2:] = -1
    out[7, 2, 3] = out[7, 2, 0]
    return out


@pytest.mark.parametrize(
    "policy",
    [
        cr.PlackettLuce(scores(0)),
        cr.PlackettLuce(scores(1)[:1]),
        cr.SlotEpsilonGreedy(np.argsort(scores(2), axis=1), 0.3),
    ],
    ids=lambda policy: f"{type(policy).__name__} of {policy.n_rows} rows",
)
def test_several_rankings_a_row_are_those_one_by_one(policy):
    shown = rankings()
    if not isinstance(policy, cr.PlackettLuce):
        shown[7, 2, 3] = shown[8, 2, 3]
    found = policy.prefix_log_probs(shown)
    for s in range(S):
        np.testing.assert_array_equal(found[:, s], policy.prefix_log_prob(shown[:, s]))


def test_an_item_of_another_ranking_does_not_stay_taken():
    policy = cr.PlackettLuce(np.zeros((1, 3)))
    twice = np.array([[[0, 0], [0, 1], [1, 0]]])
    found = np.exp(policy.prefix_log_probs(twice))
    np.testing.assert_allclose(found, [[[1 / 3, 0], [1 / 3, 1 / 6], [1 / 3, 1 / 6]]], rtol=1e-12)
