"""The other policies without replacement, where the contract's five items do not reach."""

import itertools

import numpy as np
import pytest
from tests.policies.conftest import limited

from counterrank.common.errors import PolicyError
from counterrank.policies import (
    Autoregressive,
    Deterministic,
    Enumerated,
    Mixture,
    PlackettLuce,
    RandomSwap,
    RandTopN,
    SlotEpsilonGreedy,
    Softmax,
    TeamDraft,
    UniformPermutation,
    epsilon_mixture,
    pooled,
)


def greedy_steps(scores, epsilon):
    """Per-slot epsilon-greedy as a callback: the naive twin for larger rankings."""
    order = np.argsort(-scores, kind="stable")

    def step(rows, prefixes):
        probs = np.zeros((len(prefixes), len(scores)))
        for b, prefix in enumerate(prefixes):
            left = [a for a in order if a not in prefix]
            probs[b, left] = epsilon / len(left)
            probs[b, left[0]] += 1 - epsilon
        return probs

    return limited(Autoregressive(step, 1, len(scores)), max_states=10**6)


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0])
def test_slot_epsilon_greedy_agrees_with_enumeration(epsilon, all_masks):
    rng = np.random.default_rng(3)
    scores = rng.normal(size=7)
    policy, naive = SlotEpsilonGreedy([scores], epsilon), greedy_steps(scores, epsilon)
    items = np.concatenate(
        [policy.sample(5, rng, size=2)[0], [np.argsort(-scores)[:5], rng.permutation(7)[:5]]]
    )
    masks = all_masks(5)[rng.permutation(32)[:12]]
    found = policy.subset_log_prob(items, masks).log_prob
    truth = naive.subset_log_prob(items, masks)
    assert truth.method == "exact"
    np.testing.assert_allclose(np.exp(found), np.exp(truth.log_prob), rtol=1e-12, atol=1e-300)


def test_slot_epsilon_greedy_is_luce_when_it_only_explores():
    rng = np.random.default_rng(4)
    items = np.array([rng.permutation(30)[:12] for _ in range(4)])
    masks = rng.random((5, 12)) < 0.4
    found = SlotEpsilonGreedy(rng.normal(size=(4, 30)), 1.0).subset_log_prob(items, masks).log_prob
    np.testing.assert_allclose(
        found, UniformPermutation(30).subset_log_prob(items, masks).log_prob, rtol=1e-12
    )


def test_slot_epsilon_greedy_marginals_sum_to_one_among_many_items():
    A, K = 400, 8
    scores = np.random.default_rng(5).normal(size=(1, A))
    items = np.empty((A, K), np.int64)
    for b in range(A):
        items[b] = [*[a for a in range(K + 1) if a != b][: K - 1], b]
    last = np.zeros((1, K), bool)
    last[0, K - 1] = True
    total = np.exp(SlotEpsilonGreedy(scores, 0.3).subset_log_prob(items, last).log_prob).sum()
    assert total == pytest.approx(1, abs=1e-12)


def test_slot_epsilon_greedy_ties_rank_by_id_and_missing_items_never_show():
    policy = SlotEpsilonGreedy([[1.0, 1.0, -np.inf]], 0.0)
    assert policy.sample(3, np.random.default_rng(0))[0, 0].tolist() == [0, 1, -1]
    np.testing.assert_array_equal(
        policy.prefix_log_prob(np.array([[0, 1], [1, 0], [2, 0]]))[:, 1], [0, -np.inf, -np.inf]
    )
    np.testing.assert_array_equal(policy.position_log_prob(np.array([[2, 1]])), [[-np.inf, 0]])
    with pytest.raises(PolicyError, match="epsilon"):
        SlotEpsilonGreedy([[0.0]], -0.1)


def test_base_rankings_longer_than_the_log_are_cut(all_masks):
    base = np.array([[4, 2, 0, 1, 3]])
    masks = all_masks(2)
    for policy in (RandTopN(base, 4), RandomSwap(base, 0.7)):
        drawn = policy.sample(2, np.random.default_rng(0), size=2000)[0]
        assert drawn.shape == (2000, 2)
        every = np.array(list(itertools.permutations(range(5), 2)))
        joint = np.exp(policy.prefix_log_prob(every)[:, -1])
        assert joint.sum() == pytest.approx(1, abs=1e-12)
        for j, mask in enumerate(masks):
            agree = ((every[:, None] == every[None]) | ~mask).all(axis=2)
            np.testing.assert_allclose(
                np.exp(policy.subset_log_prob(every, masks).log_prob[:, j]),
                agree @ joint,
                rtol=1e-12,
                atol=1e-15,
            )


def test_padded_bases():
    short = np.array([[3, 1, -1, -1], [0, 1, 2, 3]])
    np.testing.assert_allclose(
        np.exp(RandTopN(short, 3).position_log_prob(np.array([[1, 3], [2, 0]]))),
        [[0.5] * 2, [1 / 3] * 2],
    )
    assert Deterministic(short).prefix_log_prob(np.array([[3, 1, 0], [0, 1, 2]]))[
        :, -1
    ].tolist() == [-np.inf, 0.0]
    with pytest.raises(PolicyError, match="row 0: the base ranking is padded"):
        RandomSwap(short, 0.5)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Deterministic([[0, 0]]), "row 0: ranking .* distinct"),
        (lambda: Deterministic([[-1, 0]]), "padded with -1 at the end"),
        (lambda: Deterministic([[0.5]]), "integers"),
        (lambda: TeamDraft([[0, 1]], [[1, 1]]), "row 0: ranking .* distinct"),
        (lambda: TeamDraft([[0]] * 2, [[0]] * 3), "2 and 3 rows"),
        (
            lambda: TeamDraft([[0]], [[0]]).prefix_log_prob(np.full((1, 31), -1)),
            "at most 30 positions, got 31",
        ),
        (lambda: RandTopN([[0, 1]], 0), "at least 1"),
        (lambda: RandomSwap([[0, 1]], [[0, 1.5], [0, 0]]), "sum at most 1"),
        (lambda: UniformPermutation(0), "at least one"),
        (lambda: Enumerated([[[0, 1]]], [[0.5]]), "group 0: probabilities sum to 0.5"),
        (lambda: Enumerated([[0, 1]], [[1.0]]), r"\(G, E, R\)"),
        (lambda: Enumerated([[[0, 1]]], [[1.0]], [1]), "list number 0..0"),
        (lambda: Enumerated([[[0, 7]]], [[1.0]], n_actions=3), "items 0..2"),
        (lambda: Mixture([], []), "0 components"),
        (lambda: Mixture([UniformPermutation(2)], [0.5]), "must be a distribution"),
        (
            lambda: Mixture([UniformPermutation(2), UniformPermutation(3)], [0.5, 0.5]),
            "differ in actions",
        ),
        (lambda: pooled([UniformPermutation(2)], [-1]), "non-negative"),
        (lambda: UniformPermutation(2).sample(3, np.random.default_rng(0)), "cannot rank 3"),
        (lambda: Deterministic([[0, 1]]).sample(3, np.random.default_rng(0)), "cannot draw 3"),
        (
            lambda: Enumerated([[[0, 1]]], [[1.0]]).sample(3, np.random.default_rng(0)),
            "2 positions, not 3",
        ),
    ],
)
def test_what_is_no_policy_is_refused(build, words):
    with pytest.raises(PolicyError, match=words):
        build()


def test_mixing_probabilities_is_not_mixing_ratios():
    """Two arms, uniform and fixed, half each: the second position depends on the first."""
    policy = Mixture([UniformPermutation(3), Deterministic([[0, 1, 2]])], [0.5, 0.5])
    prefix = np.exp(policy.prefix_log_prob(np.array([[0, 1, 2], [1, 0, 2]])))
    np.testing.assert_allclose(prefix, [[2 / 3, 7 / 12, 7 / 12], [1 / 6, 1 / 12, 1 / 12]])


def test_mixture_states_the_error_of_its_sampled_part():
    rng = np.random.default_rng(6)
    scores = rng.normal(size=(4, 12))
    drawn = limited(PlackettLuce(scores), max_states=1)
    items = drawn.sample(6, rng)[:, 0]
    mask = np.array([[False, True, False, False, True, True]])
    part, other = (
        drawn.subset_log_prob(items, mask),
        UniformPermutation(12).subset_log_prob(items, mask),
    )
    both = epsilon_mixture(drawn, 0.25).subset_log_prob(items, mask)
    share = (
        0.75
        * np.exp(part.log_prob)
        / (0.75 * np.exp(part.log_prob) + 0.25 * np.exp(other.log_prob))
    )
    np.testing.assert_allclose(both.rel_var, share**2 * part.rel_var, rtol=1e-12)
    assert both.method == "sampled"
    assert not epsilon_mixture(Softmax(scores), 0.25).factored


def test_enumerated_lists_by_group_and_beyond_their_length():
    policy = Enumerated.from_lists([[[0], [1, 2]], [[2, 1, 0]]], [[0.25, 0.75], [1.0]], [0, 1, 0])
    items = np.array([[1, 2, -1], [2, 1, 0], [1, 0, -1]])
    np.testing.assert_allclose(
        np.exp(policy.prefix_log_prob(items)), [[0.75] * 3, [1.0] * 3, [0.75, 0.0, 0.0]]
    )
    longer = np.array([[0, -1, -1, -1], [2, 1, 0, 1], [1, 2, 0, 1]])
    assert np.exp(policy.prefix_log_prob(longer))[:, -1].tolist() == [0.25, 0.0, 0.0]


def test_autoregressive_callbacks_are_checked():
    def wrong_shape(rows, prefixes):
        return np.ones((len(rows), 1))

    def wrong_sum(rows, prefixes):
        return np.full((len(rows), 2), 0.4)

    def repeats(rows, prefixes):
        return np.full((len(rows), 2), 0.5)

    items = np.array([[0, 1]])
    for step, words in [
        (wrong_shape, "shape"),
        (wrong_sum, "sum to 0.8"),
        (repeats, "used item probability 0.5"),
    ]:
        with pytest.raises(PolicyError, match=words):
            Autoregressive(step, 1, 2).prefix_log_prob(items)
    assert np.exp(
        Autoregressive(repeats, 1, 2, replacement=True).position_log_prob(items)
    ).tolist() == [[0.5, 0.5]]


def test_autoregressive_follows_its_rows():
    table = np.random.default_rng(7).dirichlet(np.ones(3), size=6)
    policy = Autoregressive(lambda rows, prefixes: table[rows], 6, 3, replacement=True)
    rows = np.array([4, 1])
    items = np.array([[0, 2], [1, 1]])
    expected = np.log(table[rows[:, None], items])
    np.testing.assert_allclose(policy.take(rows).position_log_prob(items), expected)
    np.testing.assert_allclose(
        policy.take(rows).prefix_log_prob(items), np.cumsum(expected, axis=1)
    )


def test_team_draft_goes_on_with_one_team_and_ends_with_both():
    policy = TeamDraft([[0, 1, -1]], [[2, 0, 3]])
    drawn = policy.sample(5, np.random.default_rng(0), size=300)[0]
    assert {tuple(r) for r in drawn.tolist()} == {
        (0, 2, 1, 3, -1),
        (0, 2, 3, 1, -1),
        (2, 0, 1, 3, -1),
        (2, 0, 3, 1, -1),
    }
    np.testing.assert_allclose(
        np.exp(policy.prefix_log_prob(np.array([[0, 2, 1, 3]]))), [[0.5, 0.5, 0.25, 0.25]]
    )
    assert policy.prefix_log_prob(np.array([[0, 2, 1, 3, 2]]))[0, -1] == -np.inf


def test_gaps_that_no_float_can_count_are_sampled():
    fair = Autoregressive(
        lambda rows, prefixes: np.full((len(rows), 10), 0.1), 1, 10, replacement=True
    )
    fair.max_samples = 8
    last = np.zeros((1, 320), bool)
    last[0, -1] = True
    found = fair.subset_log_prob(np.zeros((1, 320), int), last)
    assert np.exp(found.log_prob) == pytest.approx(0.1, rel=1e-12)
