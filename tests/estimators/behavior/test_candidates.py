"""Candidate sets."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import BehaviorError
from counterrank.estimators.behavior import Candidate, generated


@pytest.mark.parametrize("kind", ["default", "paper", "published", "real-world", "generated"])
@pytest.mark.parametrize("K", [1, 2, 4, 8])
def test_sets_hold_distinct_models_with_the_own_item(kind, K):
    found = cr.candidates(K, kind)
    keys = {c.mask.tobytes() for c in found}
    assert len(keys) == len(found) >= 1
    assert all(c.mask.shape == (K, K) and c.mask.diagonal().all() for c in found)
    assert found[0].mask.all()


def test_the_papers_sets():
    assert [c.name for c in cr.candidates(8, "paper")] == ["S", "R6", "R3", "C2", "C1", "I1"]
    assert [c.name for c in cr.candidates(8, "published")] == ["S", "R6", "R3", "C3", "C2", "I1"]
    default = [c.name for c in cr.candidates(8)]
    assert default == [c.name for c in cr.candidates(8, "generated")]
    assert {"S", "C", "I", "N1", "N4", "W2", "P1"} <= set(default)
    # With four positions C3 is S, and appears once.
    assert "C3" not in [c.name for c in cr.candidates(4, "published")]


@pytest.mark.parametrize(
    "K, ones",
    [
        (4, [16, 13, 14, 15, 10]),
        (8, [64, 46, 29, 54, 49, 22]),
        (14, [196, 87, 53, 141, 130, 40]),
    ],
)
def test_the_published_set_is_that_of_the_code_behind_the_figures(K, ones):
    """Counts of ones of the authors' own masks; with 4 positions C3 is S, and appears once."""
    assert [int(c.mask.sum()) for c in cr.candidates(K, "published")] == ones


def test_the_published_random_models_are_the_authors_own():
    """Items beside the own one at the first and the last position of R6 and R3, K = 8."""
    rows = {c.name: c.mask for c in cr.candidates(8, "published")}
    found = {
        name: [np.flatnonzero(rows[name][k]).tolist() for k in (0, 7)] for name in ("R6", "R3")
    }
    assert found == {
        "R6": [[0, 2, 3, 5, 6], [0, 2, 3, 4, 5, 6, 7]],
        "R3": [[0, 6, 7], [0, 4, 6, 7]],
    }


def test_users_own_models():
    mine = np.eye(3, dtype=int)
    found = cr.candidates(3, ["S", mine, Candidate("again", np.ones((3, 3), dtype=bool))])
    assert len(found) == 2
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
    with pytest.raises(BehaviorError, match=r"\(4, 4\); got \(3, 3\)"):
        cr.candidates(4, [np.eye(3)])
