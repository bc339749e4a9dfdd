"""Plackett-Luce: each method against enumeration, closed forms, and each other."""

import numpy as np
import pytest
from scipy.stats import chi2
from tests.policies.conftest import limited

from counterrank.common.errors import PolicyError
from counterrank.policies import PlackettLuce
from counterrank.policies.kernels.plackett_luce_subsets import programme


def rows_of(rng, n, A, K, sd):
    return rng.normal(size=(n, A)) * sd, np.array([rng.permutation(A)[:K] for _ in range(n)])


@pytest.mark.parametrize(
    ("A", "K", "sd"), [(3, 3, 1), (5, 4, 3), (6, 6, 1), (7, 4, 0.3), (7, 5, 3)]
)
def test_programme_agrees_with_enumeration_on_all_masks(A, K, sd, all_masks, twin, luce_table):
    scores, items = rows_of(np.random.default_rng(A * K), 2, A, K, sd)
    masks = all_masks(K)
    result = PlackettLuce(scores).subset_log_prob(items, masks)
    truth = [[twin(luce_table(scores[i], K), items[i], mask) for mask in masks] for i in range(2)]
    assert result.method == "exact"
    np.testing.assert_allclose(np.exp(result.log_prob), truth, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("A", "K", "sd"), [(4, 4, 1), (7, 5, 3), (7, 7, 0.3)])
def test_quadrature_agrees_with_enumeration(A, K, sd, twin, luce_table):
    scores, items = rows_of(np.random.default_rng(A + K), 2, A, K, sd)
    found = PlackettLuce(scores).position_log_prob(items)
    eye = np.eye(K, dtype=bool)
    truth = [[twin(luce_table(scores[i], K), items[i], mask) for mask in eye] for i in range(2)]
    np.testing.assert_allclose(np.exp(found), truth, rtol=1e-12)


def test_scores_spanning_many_nats(all_masks, twin, luce_table):
    rng = np.random.default_rng(5)
    scores = np.array([rng.permutation(np.linspace(0, 110, 6)) for _ in range(4)])
    items = np.array([rng.permutation(6)[:4] for _ in range(4)])
    masks = all_masks(4)
    truth = np.array(
        [[twin(luce_table(scores[i], 4), items[i], mask) for mask in masks] for i in range(4)]
    )
    np.testing.assert_allclose(
        PlackettLuce(scores).subset_log_prob(items, masks).log_prob,
        np.log(truth),
        rtol=1e-12,
        atol=1e-13,
    )
    found = PlackettLuce(scores).position_log_prob(items)
    singles = truth[:, [8, 4, 2, 1]]
    np.testing.assert_allclose(np.exp(found), singles, rtol=1e-12)


def test_prefix_keeps_its_digits_when_almost_all_mass_is_used():
    scores = np.array([[0.0, -60.0, -61.0, -62.0]])
    found = PlackettLuce(scores).prefix_log_prob(np.array([[0, 2, 1, 3]]))
    rest = np.logaddexp.reduce([-60.0, -61.0, -62.0])
    expected = np.cumsum([0.0, -61.0 - rest, -60.0 - np.logaddexp(-60.0, -62.0), 0.0])
    np.testing.assert_allclose(found[0], expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("least", [-600.0, -643.0, -645.0, -690.0, -720.0, -900.0])
def test_prefixes_by_masses_and_by_logarithms_agree(least):
    """What is left holds from e^-600 to nothing that float64 could say of the best item's mass."""
    scores = np.array([[0.3, -1.0, least, least - 0.5, -np.inf]])
    items = np.array([[1, 0, 3], [0, 1, -1], [3, 1, 0], [0, 3, 2]])
    found = PlackettLuce(np.repeat(scores, 4, axis=0)).prefix_log_prob(items)
    for row, ranking in zip(found, items, strict=True):
        free, total = list(range(5)), 0.0
        for k, a in enumerate(ranking):
            if a >= 0:
                total += scores[0, a] - np.logaddexp.reduce(scores[0, free])
                free.remove(a)
            assert row[k] == pytest.approx(total, rel=1e-13, abs=1e-13)


def test_any_span_works_for_prefixes_and_sets():
    policy = PlackettLuce([[0.0, -2000.0, -4000.0]])
    items = np.array([[2, 1, 0]])
    np.testing.assert_allclose(policy.prefix_log_prob(items), [[-4000.0, -6000.0, -6000.0]])
    # Item 1 is second unless it or item 2 jumps ahead; item 0 is third only when both do, in either
    # order.
    np.testing.assert_allclose(
        policy.position_log_prob(items), [[-4000.0, 0.0, np.log(2) - 6000.0]], atol=1e-12
    )
    assert policy.sample(3, np.random.default_rng(0))[0, 0].tolist() == [0, 1, 2]


def test_programme_in_logarithms_agrees_with_the_linear_one(all_masks):
    rng = np.random.default_rng(12)
    scores, items = rows_of(rng, 4, 9, 6, 2.0)
    masks = all_masks(6)
    gapped = masks[(masks.sum(axis=1) > 0) & (np.diff(masks.astype(int), axis=1) > 0).any(axis=1)]
    for row, ranking in zip(scores, items, strict=True):
        for mask in gapped:
            pattern = mask[: np.flatnonzero(mask)[-1] + 1]
            asked = row[ranking[mask]]
            free = np.sort(np.delete(row, ranking[mask]))[::-1].copy()
            by_logs = programme(free, asked, pattern, 10**6, True)
            assert by_logs == pytest.approx(
                programme(free, asked, pattern, 10**6, False), abs=1e-12
            )
            assert np.isnan(programme(free, asked, pattern, 1, False))


def test_nearly_greedy_policies_need_few_states():
    rng = np.random.default_rng(13)
    scores = rng.normal(size=(3, 500)) * 1000
    greedy = np.argsort(-scores, axis=1)[:, :10]
    found = PlackettLuce(scores).subset_log_prob(greedy, np.eye(10, dtype=bool))
    assert found.method == "exact"
    assert np.exp(found.log_prob).min() > 0.4
    swapped = greedy.copy()
    swapped[:, [3, 4]] = swapped[:, [4, 3]]
    pair = np.zeros((1, 10), bool)
    pair[0, [3, 4]] = True
    gap = np.diff(np.take_along_axis(scores, greedy, axis=1), axis=1)[:, 3]
    found = PlackettLuce(scores).subset_log_prob(swapped, pair).log_prob[:, 0]
    np.testing.assert_allclose(
        found, gap - np.log1p(np.exp(gap)), rtol=1e-3
    )  # nobody else comes near
    flat = np.concatenate([np.zeros((1, 60)), [[-900.0]]], axis=1)
    mask = np.zeros((1, 8), bool)
    mask[0, [3, 7]] = True
    with pytest.raises(PolicyError, match="row 0: scores span more than 650 nats"):
        PlackettLuce(flat).subset_log_prob(np.arange(8)[None], mask)


def test_quadrature_and_programme_agree_beyond_enumeration():
    scores, items = rows_of(np.random.default_rng(1), 3, 18, 9, 1.5)
    eye = np.eye(9, dtype=bool)
    by_sets = limited(PlackettLuce(scores), max_states=10**6)
    quadrature = by_sets.subset_log_prob(items, eye)
    assert quadrature.method == "exact"
    # P(b at 6) adds up over the item at place 2, which the programme answers.
    total = np.full(3, -np.inf)
    pair = np.zeros((1, 9), bool)
    pair[0, [1, 5]] = True
    assert by_sets.subset_log_prob(items, pair).method == "exact"
    for a in range(18):
        for i in range(3):
            if a != items[i, 5]:
                asked = np.full((1, 9), -1)
                asked[0] = [x for x in range(18) if x not in (a, items[i, 5])][:9]
                asked[0, 1], asked[0, 5] = a, items[i, 5]
                value = by_sets.take(np.array([i])).subset_log_prob(asked, pair).log_prob[0, 0]
                total[i] = np.logaddexp(total[i], value)
    np.testing.assert_allclose(quadrature.log_prob[:, 5], total, rtol=1e-12)


def test_singles_of_all_items_at_a_place_sum_to_one():
    A, K = 60, 25
    rng = np.random.default_rng(8)
    scores = rng.normal(size=(1, A)) * 2
    place = np.zeros((1, K), bool)
    place[0, K - 1] = True
    items = np.tile(np.arange(K), (A, 1))
    for b in range(A):
        others = [a for a in range(A) if a != b]
        items[b] = [*others[: K - 1], b]
    found = PlackettLuce(scores).subset_log_prob(items, place)
    assert found.method == "exact"
    assert np.exp(found.log_prob).sum() == pytest.approx(1, abs=1e-12)


def test_ten_thousand_items():
    A = 10_000
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(2, A))
    policy = PlackettLuce(scores)
    items = policy.sample(6, rng)[:, 0]
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    own = np.take_along_axis(p, items, axis=1)
    used = np.concatenate([np.zeros((2, 1)), np.cumsum(own, axis=1)[:, :-1]], axis=1)
    np.testing.assert_allclose(
        policy.prefix_log_prob(items), np.cumsum(np.log(own / (1 - used)), axis=1), rtol=1e-12
    )
    second = own[:, 1] * ((p / (1 - p)).sum(axis=1) - own[:, 1] / (1 - own[:, 1]))
    np.testing.assert_allclose(np.exp(policy.position_log_prob(items)[:, 1]), second, rtol=1e-12)
    masks = np.zeros((2, 6), bool)
    masks[0, [1, 2]] = True  # one gap: 10,000 states, exact
    masks[1, [2, 4]] = True  # three gaps: sampled
    exact = policy.subset_log_prob(items, masks[:1])
    drawn = limited(PlackettLuce(scores), max_states=1).subset_log_prob(items, masks)
    assert (exact.method, drawn.method) == ("exact", "sampled")
    np.testing.assert_allclose(drawn.log_prob[:, 0], exact.log_prob[:, 0], atol=5e-2)
    assert (drawn.rel_var <= 1e-4).all()


def test_sampled_values_err_as_they_say():
    """z-scores of 300 rows, M = 1024 fixed: sum of squares and mean, each with false-alarm rate
    1e-6.

    The variance is estimated from the draws, which fattens tails a little: the chi-square bound
    gets 15 % slack.
    """
    n = 300
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(n, 12))
    items = PlackettLuce(scores).sample(6, rng)[:, 0]
    masks = np.zeros((n, 1, 6), bool)
    for i in range(n):
        masks[i, 0, rng.choice(np.arange(1, 6), size=3, replace=False)] = True
    truth = PlackettLuce(scores).subset_log_prob(items, masks)
    drawn = limited(
        PlackettLuce(scores), max_states=1, rtol=1e-9, max_samples=1024
    ).subset_log_prob(items, masks)
    z = (np.exp(drawn.log_prob - truth.log_prob) - 1) / np.sqrt(drawn.rel_var)
    assert truth.method == "exact"
    assert (z**2).sum() < 1.15 * chi2.ppf(1 - 1e-6, n)
    assert abs(z.mean()) * np.sqrt(n) < 4.9


def test_sampled_values_depend_on_content_and_seed_alone():
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(20, 30))
    items = PlackettLuce(scores).sample(8, rng)[:, 0]
    mask = np.array([[False, True, False, False, True, False, False, True]])
    policy = limited(PlackettLuce(scores), max_states=1)
    whole = policy.subset_log_prob(items, mask).log_prob
    backwards = np.arange(20)[::-1]
    np.testing.assert_array_equal(
        policy.take(backwards).subset_log_prob(items[::-1], mask).log_prob, whole[::-1]
    )
    assert (
        limited(PlackettLuce(scores), max_states=1, seed=1).subset_log_prob(items, mask).log_prob
        != whole
    ).all()


def test_more_draws_until_the_error_is_met():
    scores, items = rows_of(np.random.default_rng(6), 40, 15, 8, 1.0)
    mask = np.array([[False, False, True, False, True, False, False, True]])
    coarse = (
        limited(PlackettLuce(scores), max_states=1, rtol=0.1).subset_log_prob(items, mask).rel_var
    )
    fine = (
        limited(PlackettLuce(scores), max_states=1, rtol=0.02, max_samples=100_000)
        .subset_log_prob(items, mask)
        .rel_var
    )
    assert (coarse <= 0.1**2).all()
    assert (fine <= 0.02**2).all()


def test_unavailable_and_repeated_items():
    policy = PlackettLuce([[0.0, 1.0, -np.inf, 0.5]])
    eye = np.eye(3, dtype=bool)
    assert policy.position_log_prob(np.array([[0, 2, 1]]))[0, 1] == -np.inf
    found = policy.subset_log_prob(np.array([[0, 1, 0]]), np.array([[1, 0, 1], [0, 1, 1]], bool))
    assert found.log_prob[0, 0] == -np.inf
    assert found.log_prob[0, 1] > -np.inf
    np.testing.assert_array_equal(
        np.isinf(policy.prefix_log_prob(np.array([[0, 0, 1], [2, 0, 1]]))),
        [[False, True, True], [True] * 3],
    )
    drawn = policy.sample(4, np.random.default_rng(0), size=50)
    assert (drawn[..., 3] == -1).all()
    assert not (drawn == 2).any()
    three = PlackettLuce([[0.0, 1.0, 0.5]])
    items = np.array([[3, 1, 0]])
    np.testing.assert_allclose(
        policy.subset_log_prob(items, eye).log_prob,
        three.subset_log_prob(np.array([[2, 1, 0]]), eye).log_prob,
    )


def test_bad_scores_and_budgets_are_refused():
    for scores, words in [
        ([[0.0, np.nan]], "row 0: score nan of action 1"),
        ([[-np.inf, -np.inf]], "no action is available"),
        ([0.0, 1.0], "shape"),
    ]:
        with pytest.raises(PolicyError, match=words):
            PlackettLuce(scores)
    with pytest.raises(PolicyError, match="temperature"):
        PlackettLuce([[0.0]], 0.0)
    with pytest.raises(PolicyError, match="2 rows and the actions 3"):
        PlackettLuce([[0.0, 1.0]] * 2).prefix_log_prob(np.zeros((3, 1), int))
    with pytest.raises(PolicyError, match="row 0: position 1 is padding"):
        PlackettLuce([[0.0, 1.0]]).prefix_log_prob(np.array([[-1, 1]]))
    with pytest.raises(PolicyError, match="cannot rank 3 positions"):
        PlackettLuce([[0.0, 1.0]]).sample(3, np.random.default_rng(0))
