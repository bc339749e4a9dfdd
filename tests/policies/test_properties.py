"""Laws that hold for every score table."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.policies import (
    Mixture,
    PlackettLuce,
    SlotEpsilonGreedy,
    UniformPermutation,
    superset_mask,
)

ROUGHLY = settings(max_examples=40, deadline=None)


@st.composite
def events(draw):
    A = draw(st.integers(2, 8))
    K = draw(st.integers(1, A))
    scores = draw(st.lists(st.floats(-40, 40), min_size=A, max_size=A))
    items = draw(st.permutations(range(A)))[:K]
    mask = draw(st.lists(st.booleans(), min_size=K, max_size=K))
    return np.array([scores]), np.array([items]), np.array(mask)


def policies_of(scores):
    yield PlackettLuce(scores)
    yield SlotEpsilonGreedy(scores, 0.25)
    yield Mixture([PlackettLuce(scores), UniformPermutation(scores.shape[1])], [0.5, 0.5])


@ROUGHLY
@given(events())
def test_asking_for_more_is_never_more_likely(event):
    scores, items, mask = event
    larger = np.stack([mask, *(mask | row for row in np.eye(len(mask), dtype=bool))])
    for policy in policies_of(scores):
        values = policy.subset_log_prob(items, larger).log_prob[0]
        assert (values[1:] <= values[0] + 1e-9).all()
        assert values[0] <= 1e-12


@ROUGHLY
@given(events())
def test_prefix_masks_are_prefixes_and_the_full_mask_the_joint(event):
    scores, items, mask = event
    K = len(mask)
    for policy in policies_of(scores):
        prefix = policy.prefix_log_prob(items)
        np.testing.assert_allclose(
            policy.subset_log_prob(items, np.tri(K, dtype=bool)).log_prob, prefix, rtol=1e-10
        )
        full = policy.subset_log_prob(items, np.ones((1, K), bool)).log_prob[:, 0]
        np.testing.assert_allclose(full, prefix[:, -1], rtol=1e-10)


@ROUGHLY
@given(events(), st.floats(-30, 30))
def test_only_score_differences_matter_and_labels_do_not(event, shift):
    scores, items, mask = event
    A = scores.shape[1]
    relabel = np.random.default_rng(A).permutation(A)
    moved = np.empty_like(scores)
    moved[0, relabel] = scores[0] + shift
    first = PlackettLuce(scores).subset_log_prob(items, mask[None]).log_prob
    second = PlackettLuce(moved).subset_log_prob(relabel[items], mask[None]).log_prob
    np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-9)


@ROUGHLY
@given(events())
def test_the_item_at_a_place_is_some_item(event):
    """Adding up over the item at one more place gives the set without it."""
    scores, items, mask = event
    K, A = len(mask), scores.shape[1]
    k = int(np.argmin(mask)) if not mask.all() else K - 1
    mask = mask.copy()
    mask[k] = False
    kept = set(items[0, mask].tolist())
    more = mask.copy()
    more[k] = True
    for policy in policies_of(scores):
        parts = []
        for a in set(range(A)) - kept:
            others = [b for b in range(A) if b != a and b not in kept]
            asked = np.empty((1, K), np.int64)
            for j in range(K):
                asked[0, j] = items[0, j] if mask[j] else a if j == k else others.pop()
            parts.append(policy.subset_log_prob(asked, more[None]).log_prob[0, 0])
        total = policy.subset_log_prob(items, mask[None]).log_prob[0, 0]
        np.testing.assert_allclose(np.logaddexp.reduce(parts), total, rtol=1e-9, atol=1e-9)


@ROUGHLY
@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_supersets_contain_the_mask_and_are_closed(mask):
    masks = np.array([mask])
    for capability in ("prefix", "joint", "subset"):
        larger = superset_mask(masks, capability)
        assert (larger >= masks).all()
        np.testing.assert_array_equal(superset_mask(larger, capability), larger)
    closed = superset_mask(masks, "prefix")[0]
    assert closed.sum() == (np.flatnonzero(mask)[-1] + 1 if any(mask) else 0)
    assert superset_mask(masks, "joint").all() == any(mask)
