"""Behaviour models by name, against their definitions."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.behavior import as_mask, draw, mask

K = 6
CELLS = [(k, m) for k in range(K) for m in range(K)]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("S", lambda k, m: True),
        ("C", lambda k, m: m <= k),
        ("I", lambda k, m: m == k),
        ("IC", lambda k, m: m >= k),
        ("N2", lambda k, m: abs(k - m) <= 2),
        ("I1", lambda k, m: abs(k - m) <= 1),
        ("C1", lambda k, m: m <= k + 1),
        ("C3", lambda k, m: m <= k + 3),
        ("W2", lambda k, m: k - 2 <= m <= k),
        ("P2", lambda k, m: m < 2 or m == k),
    ],
)
def test_named_masks(name, rule):
    assert mask(name, K).tolist() == [[bool(rule(k, m)) for m in range(K)] for k in range(K)]


@pytest.mark.parametrize(("name", "count"), [("R3", 3), ("R6", 5)])
def test_random_masks_are_the_same_in_every_run(name, count):
    one = mask(name, K)
    assert (one == mask(name, K)).all() and one.diagonal().all()
    assert (one.sum(axis=1) == count + 1).all()
    assert not (one == mask(name, K, rng=np.random.default_rng(1))).all() or count == 5


def test_inclusion_and_drawing():
    def contains(larger, smaller):
        return (larger | ~smaller).all()

    assert contains(mask("S", K), mask("N2", K)) and contains(mask("C", K), mask("W2", K))
    assert not contains(mask("C", K), mask("N1", K))
    assert draw(mask("C", 2)) == "■ ·\n■ ■"


def test_refusals():
    with pytest.raises(cr.CounterrankError, match="behaviour model 'Q7' is unknown"):
        mask("Q7", K)
    with pytest.raises(cr.CounterrankError, match=r"is \(6, 6\); got \(2, 2\)"):
        as_mask([[1, 0], [0, 1]], K)
    with pytest.raises(cr.CounterrankError, match="only 0 and 1"):
        as_mask(np.full((K, K), 2), K)
    log = cr.RankingLog(action=[[0, 1]] * 3, reward=[[1, 1]] * 3, propensity=[[0.5, 0.5]] * 3)
    with pytest.raises(cr.CounterrankError, match=r"behavior has shape \(2,\)"):
        cr.AIPS(behavior=["S", "I"]).estimate(log, [[0.5, 0.5]] * 3)
    with pytest.raises(cr.CounterrankError, match="no 'behavior' column"):
        cr.AIPS(behavior="log").estimate(log, [[0.5, 0.5]] * 3)
