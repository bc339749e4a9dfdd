"""Candidate sets."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.behavior import Candidate, generated
from counterrank.errors import BehaviorError


@pytest.mark.parametrize("kind", ["default", "paper", "published", "real-world", "generated"])
@pytest.mark.parametrize("K", [1, 2, 4, 8])
def test_sets_hold_distinct_models_with_the_own_item(kind, K):
    found = cr.candidates(K, kind)
    keys = {(c.mask.tobytes(), c.order) for c in found}
    assert len(keys) == len(found) >= 1
    assert all(c.mask.shape == (K, K) and c.mask.diagonal().all() for c in found)
    assert found[0].mask.all()


def test_the_papers_sets():
    assert [c.name for c in cr.candidates(8, "paper")] == ["S", "R6", "R3", "C2", "C1", "I1"]
    assert [c.name for c in cr.candidates(8, "published")] == ["S", "R6", "R3", "C3", "C2", "I1"]
    assert [c.label for c in cr.candidates(8)] == ["S", "C", "I"]
    # With four positions C3 is S, and appears once.
    assert "C3" not in [c.name for c in cr.candidates(4, "published")]


def test_users_own_models():
    mine = np.eye(3, dtype=int)
    found = cr.candidates(3, ["S", mine, Candidate("pairs", np.ones((3, 3), dtype=bool), 2)])
    assert [c.order for c in found] == [None, None, 2]
    assert found[1].mask.sum() == 3
    assert (
        found[1].name == cr.candidates(3, [mine])[0].name
    )  # named by content, the same in every run


def test_generated_names_span_reaches_below_k():
    assert generated(8)[:3] == ("S", "C", "I")
    assert {"N4", "W2", "P1", "C4"} <= set(generated(8))


def test_wrong_sets_are_refused():
    with pytest.raises(BehaviorError, match="candidate set 'papr' is unknown"):
        cr.candidates(4, "papr")
    with pytest.raises(BehaviorError, match="start at 1"):
        cr.candidates(4, orders=[0])
    with pytest.raises(BehaviorError, match=r"\(4, 4\); got \(3, 3\)"):
        cr.candidates(4, [np.eye(3)])
