"""What was shown against the policy that is said to have shown it."""

import numpy as np
import pytest

from counterrank.policies import Candidates, candidate_fit, parse_policy
from counterrank.policies.scored import RANKS


def made(rng, n, spec="plackett-luce"):
    lists = [rng.permutation(40)[: rng.integers(5, 30)].tolist() for _ in range(n)]
    sets = Candidates.from_lists(lists, n_items=40)
    return parse_policy(spec).bind(candidates=sets, scores=rng.normal(size=len(sets.items)))


def naive(policy, actions):
    """Observed and expected counts by score rank, choice by choice."""
    observed, expected, variance = np.zeros(RANKS), np.zeros(RANKS), np.zeros(RANKS)
    sets = policy.candidates
    for i, shown in enumerate(actions):
        ends = slice(*sets.offsets[[i, i + 1]])
        left = dict(zip(sets.items[ends].tolist(), policy.scores[ends].tolist(), strict=True))
        for item in shown.tolist():
            order = sorted(left, key=lambda a: -left[a])
            chances = np.exp(
                np.array([left[a] for a in order]) / policy.spec.options["temperature"]
            )
            chances /= chances.sum()
            cells = np.minimum(np.arange(len(order)), RANKS - 1)
            p = np.bincount(cells, weights=chances, minlength=RANKS)
            observed[min(order.index(item), RANKS - 1)] += 1
            expected += p
            variance += p * (1 - p)
            del left[item]
    return observed, expected, variance


def test_counts_agree_with_a_naive_twin_and_add():
    rng = np.random.default_rng(0)
    policy = made(rng, 40, "plackett-luce:temperature=0.7")
    actions = policy.sample(4, rng)[:, 0]
    found = candidate_fit(policy, actions)
    for mine, twin in zip(
        (found.observed, found.expected, found.variance), naive(policy, actions), strict=True
    ):
        np.testing.assert_allclose(mine, twin, atol=1e-11)
    parts = [
        candidate_fit(policy.take(part), actions[part], start=part.start)
        for part in (slice(0, 7), slice(7, 40))
    ]
    both = parts[0] + parts[1]
    np.testing.assert_allclose(both.z, found.z, atol=1e-9)
    assert (both.rows, both.contradicted, both.outside) == (40, found.contradicted, 0)


def test_a_true_policy_passes_and_a_wrong_temperature_fails():
    """Seeded; the true policy fails once in 10,000 runs at this level."""
    rng = np.random.default_rng(1)
    policy = made(rng, 3000)
    actions = policy.sample(5, rng)[:, 0]
    assert candidate_fit(policy, actions).p_value > 1e-4
    sharper = parse_policy("plackett-luce:temperature=0.7").bind(
        candidates=policy.candidates, scores=policy.scores
    )
    wrong = candidate_fit(sharper, actions)
    assert wrong.p_value < 1e-6


def test_outside_ineligible_and_contradicted_rows_are_counted():
    sets = Candidates.from_lists([[0, 1, 2], [0, 1, 2], [0, 1, 2], [3, 1, 2]])
    scores = np.array([3.0, 2, 1, 3, 2, 1, 3, -np.inf, 1, 3, 2, 1])
    policy = parse_policy("top").bind(candidates=sets, scores=scores)
    actions = np.array([[0, 1], [1, 0], [0, 1], [3, 0]])
    found = candidate_fit(policy, actions, start=10)
    assert (found.rows, found.contradicted, found.ineligible) == (4, 1, 1)
    assert (found.outside, found.first_outside) == (1, 13)
    assert candidate_fit(policy.take(slice(0, 1)), actions[:1]).first_outside == -1


def test_one_candidate_is_no_choice():
    sets = Candidates.from_lists([[4]])
    found = candidate_fit(
        parse_policy("plackett-luce").bind(candidates=sets, scores=[0.0]), np.array([[4]])
    )
    assert found.p_value == 1.0
    assert found.z.tolist() == [0.0] * RANKS
    assert found.observed.sum() == pytest.approx(0)
