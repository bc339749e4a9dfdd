"""What was shown against the policy that is said to have shown it."""

import numpy as np
from scipy.special import ndtr

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


def p_value(sums):
    """Chance of a largest |z| like this one; Bonferroni over the ranks that can vary."""
    observed, expected, variance = sums
    can = variance > 1e-9
    z = (observed - expected)[can] / np.sqrt(variance[can])
    return min(1.0, 2 * can.sum() * ndtr(-np.abs(z).max()))


def test_counts_agree_with_a_naive_twin_and_add():
    rng = np.random.default_rng(0)
    policy = made(rng, 40, "plackett-luce:temperature=0.7")
    actions = policy.sample(4, rng)[:, 0]
    sums, counts = candidate_fit(policy, actions)
    np.testing.assert_allclose(sums, naive(policy, actions), atol=1e-11)
    parts = [
        candidate_fit(policy.take(part), actions[part]) for part in (slice(0, 7), slice(7, 40))
    ]
    np.testing.assert_allclose(parts[0][0] + parts[1][0], sums, atol=1e-9)
    assert (parts[0][1] + parts[1][1] == counts).all()


def test_a_true_policy_passes_and_a_wrong_temperature_fails():
    """Seeded; the true policy fails once in 10,000 runs at this level."""
    rng = np.random.default_rng(1)
    policy = made(rng, 3000)
    actions = policy.sample(5, rng)[:, 0]
    assert p_value(candidate_fit(policy, actions)[0]) > 1e-4
    sharper = parse_policy("plackett-luce:temperature=0.7").bind(
        candidates=policy.candidates, scores=policy.scores
    )
    assert p_value(candidate_fit(sharper, actions)[0]) < 1e-6


def test_ineligible_and_contradicted_rows_are_counted():
    sets = Candidates.from_lists([[0, 1, 2], [0, 1, 2], [0, 1, 2], [3, 1, 2]])
    scores = np.array([3.0, 2, 1, 3, 2, 1, 3, -np.inf, 1, 3, 2, 1])
    policy = parse_policy("top").bind(candidates=sets, scores=scores)
    actions = np.array([[0, 1], [1, 0], [0, 1], [3, 0]])
    assert candidate_fit(policy, actions)[1].tolist() == [1, 1]


def test_one_candidate_is_no_choice():
    sets = Candidates.from_lists([[4]])
    policy = parse_policy("plackett-luce").bind(candidates=sets, scores=[0.0])
    assert not candidate_fit(policy, np.array([[4]]))[0].any()
