"""A policy written as a function is read by the reward models as the same policy with scores is."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.policies import attraction

N, C, K = 2_500, 8, 3


class Own(cr.Policy):
    """A policy of a user's own: nothing but what a policy must have."""

    capabilities = cr.PlackettLuce.capabilities

    def __init__(self, inner):
        self.inner = inner

    n_rows = property(lambda self: self.inner.n_rows)
    n_actions = property(lambda self: self.inner.n_actions)

    def take(self, rows):
        return Own(self.inner.take(rows))

    def sample(self, length, rng, *, size=1):
        return self.inner.sample(length, rng, size=size)

    def prefix_log_prob(self, actions):
        return self.inner.prefix_log_prob(actions)

    def position_log_prob(self, actions):
        return self.inner.position_log_prob(actions)

    def subset_log_prob(self, actions, masks):
        return self.inner.subset_log_prob(actions, masks)


def as_function(scores):
    """Plackett-Luce as a function of the items above."""

    def step(rows, prefixes):
        weight = np.exp(scores[rows])
        np.put_along_axis(weight, prefixes, 0.0, axis=1)
        return weight / weight.sum(axis=1, keepdims=True)

    return cr.Autoregressive(step, len(scores), scores.shape[1])


@pytest.fixture(scope="module")
def scores():
    return np.random.default_rng(3).normal(size=(N, C))


@pytest.fixture(scope="module")
def log(scores):
    """Uniform rankings; what the target likes is clicked more."""
    logger = cr.PlackettLuce(np.zeros((N, C)))
    rng = np.random.default_rng(4)
    action = logger.sample(K, rng)[:, 0]
    liked = np.take_along_axis(scores, action, axis=1)
    clicks = rng.random((N, K)) < 1 / (1 + np.exp(1.5 - 0.8 * liked))
    return cr.RankingLog(action=action, reward=clicks.astype(float), propensity=logger)


def test_a_function_thinks_of_items_what_its_scores_would_say(scores):
    items = np.random.default_rng(5).permuted(np.tile(np.arange(C), (N, 2, 1)), axis=2)[:, :, :K]
    by_scores = attraction(cr.PlackettLuce(scores), items)
    for told in (as_function(scores), Own(cr.PlackettLuce(scores))):
        np.testing.assert_allclose(attraction(told, items), by_scores, atol=1e-12)


def test_items_that_a_function_never_shows_first_have_no_score():
    first = cr.Autoregressive(
        lambda rows, above: np.tile([0.0, 0.5, 0.5], (len(rows), 1)), 1, 3, replacement=True
    )
    found = attraction(first, np.array([[[0, 1, -1]]]))
    assert np.isnan(found[0, 0, [0, 2]]).all() and found[0, 0, 1] == 0.0


@pytest.mark.parametrize("told", [as_function, lambda scores: Own(cr.PlackettLuce(scores))])
def test_both_tellings_give_the_same_lift_up_to_the_draws(log, scores, told):
    as_scores = cr.Auto().estimate(log, cr.PlackettLuce(scores)).lift
    found = cr.Auto().estimate(log, told(scores)).lift
    assert as_scores.value > 0.05
    assert abs(found.value - as_scores.value) < 0.5 * as_scores.stderr
    assert found.high - found.low == pytest.approx(as_scores.high - as_scores.low, rel=0.25)
