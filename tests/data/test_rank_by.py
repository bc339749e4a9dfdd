"""A scorer of one's own becomes a policy: the same as its scores in a table."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import PolicyError

WORTH = np.array([0.3, 0.9, 0.1, 0.5])


def log_of(**more) -> cr.RankingLog:
    rng = np.random.default_rng(0)
    n = 30
    action = np.argsort(rng.random((n, 4)), axis=1)[:, :2]
    given = {"context": rng.normal(size=(n, 1)), **more}
    chance = cr.Propensity(kind="prefix", values=np.tile([1 / 4, 1 / 3], (n, 1)))
    return cr.RankingLog(action=action, reward=rng.random((n, 2)), propensity=chance, **given)


def by_worth(context, candidates, features):
    return WORTH[candidates] * np.exp(context)


def test_every_item_is_scored_where_there_are_no_candidates():
    log = log_of()
    found = cr.rank_by(log, by_worth, "plackett-luce:temperature=0.5")
    wanted = cr.PlackettLuce(WORTH * np.exp(log.context), 0.5)
    np.testing.assert_allclose(
        found.prefix_log_prob(log.action), wanted.prefix_log_prob(log.action), atol=1e-12
    )
    top = cr.rank_by(log, by_worth, "top").sample(2, np.random.default_rng(0))[:, 0]
    assert (top == [1, 3]).all()
    assert cr.evaluate(log, {"new": found}, estimators=["rips"]).estimate("new").n == 30


def test_candidates_of_unlike_number_are_scored_with_their_features():
    lists = [[0, 1, 2, 3] if i % 2 else [3, 2, 1, 0] for i in range(30)]
    lists = [one if i % 3 else [*one, 4] for i, one in enumerate(lists)]
    table = cr.ItemFeatures(np.array([[0.3], [0.9], [0.1], [0.5], [0.0]]), ("worth",))
    log = log_of(candidates=lists, item_features=table)

    def score(context, candidates, features):
        assert features.shape == (*candidates.shape, 1) and (candidates >= -1).all()
        return features[..., 0]

    top = cr.rank_by(log, score, "top").sample(2, np.random.default_rng(0))[:, 0]
    assert (top == [1, 3]).all()


def test_items_with_names_are_scored_by_them():
    log = log_of(action_names=("ant", "bee", "cat", "dog"))
    found = cr.rank_by(log, lambda x, items, z: np.vectorize(len)(items) + (items == "cat"), "top")
    assert (found.sample(1, np.random.default_rng(0))[:, 0, 0] == 2).all()


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda x, items, z: np.ones(3), "one number for each candidate"),
        (lambda x, items, z: np.full(items.shape, np.nan), "candidate 1 in row 0 is missing"),
        (lambda x, items, z: [["a"] * 4] * 30, "no number"),
    ],
)
def test_what_is_no_score_is_refused(score, message):
    with pytest.raises(PolicyError, match=message):
        cr.rank_by(log_of(), score, "top")
