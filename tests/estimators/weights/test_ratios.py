"""Ratios of two policies, exact on small pages, for every kind of propensity."""

import numpy as np
import pytest
from tests.estimators.weights.sums import ITEMS, ratios

import counterrank as cr
from counterrank.estimators.weights.ratios import numbers

SCORES = np.random.default_rng(5).normal(size=(30, 4))


@pytest.mark.parametrize("kind", [cr.Softmax, cr.PlackettLuce])
def test_a_choice_among_masks_takes_each_rows_own(kind):
    found = ratios(kind(SCORES), kind(-SCORES))
    masks = np.stack([np.eye(3, dtype=bool), np.tri(3, dtype=bool), np.ones((3, 3), dtype=bool)])
    single = np.stack([found.masked(mask) for mask in masks])  # (3, n, K)
    for used in (2, 3):
        choice = np.random.default_rng(6).integers(0, used, (30, 3))
        expected = np.take_along_axis(single, choice[None], axis=0)[0]
        np.testing.assert_allclose(found.by_choice(masks[:used], choice), expected, rtol=1e-10)


def test_one_policy_with_and_one_without_replacement():
    soft, luce = cr.Softmax(SCORES), cr.PlackettLuce(SCORES)
    for logging, target in ((luce, soft), (soft, luce)):
        found = ratios(logging, target)
        assert found.kind == "policy"
        expected = np.exp(target.prefix_log_prob(ITEMS) - logging.prefix_log_prob(ITEMS))
        np.testing.assert_allclose(found.prefix(), expected, rtol=1e-10)
        np.testing.assert_allclose(found.full(), np.repeat(expected[:, -1:], 3, axis=1), rtol=1e-10)


def test_a_policy_against_logged_numbers_of_every_kind():
    soft, luce, even = cr.Softmax(SCORES), cr.PlackettLuce(SCORES), np.full((30, 3), 0.5)
    joint = ratios(cr.Propensity("joint", np.full(30, 0.25)), luce).full()
    np.testing.assert_allclose(
        joint[:, 0], np.exp(luce.prefix_log_prob(ITEMS)[:, -1]) / 0.25, rtol=1e-10
    )
    prefix = ratios(cr.Propensity("prefix", even), luce).prefix()
    np.testing.assert_allclose(
        prefix, np.exp(luce.prefix_log_prob(ITEMS)) / 0.5 ** np.arange(1, 4), rtol=1e-10
    )
    own = ratios(cr.Propensity("factored", even), soft).position()
    np.testing.assert_allclose(own, np.exp(soft.position_log_prob(ITEMS)) / 0.5, rtol=1e-10)
    with pytest.raises(cr.CounterrankError, match="ranks without replacement"):
        ratios(cr.Propensity("factored", even), luce)


@pytest.mark.parametrize("kind", [cr.Softmax, cr.PlackettLuce])
def test_exact_probabilities_have_no_sampling_error(kind):
    found = ratios(kind(SCORES), kind(-SCORES))
    assert found.sampling_error == 0.0
    found.masked(np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]], dtype=bool))
    assert found.sampling_error == 0.0


def test_after_an_impossible_item_all_factors_are_zero():
    class Never:
        factored = False

        def prefix_log_prob(self, actions):
            return np.array([[np.log(0.5), -np.inf, -np.inf]])

    log = cr.RankingLog(action=[[0, 1, 2]], reward=np.ones((1, 3)), propensity=np.full((1, 3), 0.5))
    assert numbers(Never(), log, "prefix").tolist() == [[0.5, 0.0, 0.0]]


def test_weights_too_large_for_a_number_are_said_where_they_are():
    """Single propensities below 1e-100 are refused at the door; products of smaller ones overflow
    here.
    """
    p0 = np.full((3, 3), 0.5)
    p0[1, 1:] = 1e-99

    def log_of(values):
        return cr.RankingLog(
            action=np.zeros((3, 3), int), reward=np.ones((3, 3)), propensity=values
        )

    target = np.full((3, 3), 0.5)
    with pytest.raises(
        cr.CounterrankError,
        match=r"'rips' overflows: the largest weight at position 3 is 2.5e\+197",
    ):
        cr.RIPS().estimate(log_of(p0), target)
    with pytest.raises(cr.CounterrankError, match="position 2"):
        cr.RIPS().estimate(log_of(p0[:, [1, 2, 0]]), target)
    # At a position that does not count the sums over rows are numbers, those of the position are
    # not.
    with pytest.raises(cr.CounterrankError, match="position 3"):
        cr.RIPS().estimate(log_of(p0).with_position_weights(np.array([1.0, 1.0, 0.0])), target)
