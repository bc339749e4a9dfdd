"""Best of m against the list of all rankings: probabilities, the drawn weight's mean, draws,
estimators.
"""

import itertools

import numpy as np
import pytest
from tests.policies.conftest import best_of_probs, listed_best_of

import counterrank as cr
from counterrank.common.errors import PolicyError
from counterrank.policies import (
    BestOf,
    Candidates,
    PlackettLuce,
    RowRandom,
    UniformPermutation,
    parse_policy,
)
from counterrank.policies.best_of import drawn_weight


def tie_aware(rows, rankings):
    """A score with many ties, different by row."""
    return ((rankings[:, :, 0] * 2 + rankings[:, :, 1] + rows[:, None]) % 3).astype(float)


def served_by_enumeration(probs, scores, m):
    """All m-tuples of draws; equal best scores share the win by their keys."""
    out = np.zeros(len(probs))
    for drawn in itertools.product(range(len(probs)), repeat=m):
        chance = np.prod(probs[list(drawn)])
        best = [a for a in drawn if scores[a] == max(scores[list(drawn)])]
        for a in best:
            out[a] += chance / len(best)
    return out


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_probabilities_agree_with_all_draws(m):
    rng = np.random.default_rng(m)
    probs, scores = rng.dirichlet(np.ones(5)), np.array([0.0, 2.0, 1.0, 2.0, 0.5])
    np.testing.assert_allclose(
        best_of_probs(probs, scores, m), served_by_enumeration(probs, scores, m), atol=1e-14
    )


@pytest.mark.parametrize(("m", "L"), [(1, 1), (2, 1), (2, 3), (3, 4), (4, 5)])
def test_the_drawn_weight_has_the_exact_mean(m, L):
    """Every outcome of L reference draws; with t ties the logged ranking's key is equally likely in
    each place.
    """
    rng = np.random.default_rng(L)
    probs, scores = rng.dirichlet(np.ones(4)), np.array([1.0, 0.0, 1.0, 3.0])
    exact = best_of_probs(probs, scores, m) / probs
    for a in range(4):
        mean = 0.0
        for drawn in itertools.product(range(4), repeat=L):
            found = scores[list(drawn)]
            ties = int((found == scores[a]).sum())
            below = int((found < scores[a]).sum()) + np.arange(ties + 1)
            mean += np.prod(probs[list(drawn)]) * drawn_weight(below, L, m).mean()
        # One ranking's own weight depends on its key; its mean over keys is the ratio of the whole
        # score level.
        assert mean == pytest.approx(exact[a], abs=1e-12)


def test_weights_are_at_most_m_and_one_for_the_logger():
    rng = np.random.default_rng(3)
    logger = PlackettLuce(rng.normal(size=(50, 6)))
    items = logger.sample(3, rng)[:, 0]
    for m in (1, 2, 8):
        weight = BestOf(logger, tie_aware, m).joint_weight(items)
        assert (weight >= 0).all() and (weight <= m).all()
    np.testing.assert_array_equal(BestOf(logger, tie_aware, 1).joint_weight(items), 1.0)


def test_weights_do_not_depend_on_how_the_rows_are_cut():
    rng = np.random.default_rng(4)
    logger = PlackettLuce(rng.normal(size=(2500, 6)))
    items = logger.sample(3, rng)[:, 0]
    policy = BestOf(logger, tie_aware, 4)
    whole = policy.joint_weight(items)
    rows = rng.permutation(2500)[:300]
    np.testing.assert_array_equal(
        BestOf(logger, tie_aware, 4).take(rows).joint_weight(items[rows]), whole[rows]
    )
    np.testing.assert_array_equal(
        policy.take(slice(1000, 1100)).joint_weight(items[1000:1100]), whole[1000:1100]
    )
    assert not np.array_equal(BestOf(logger, tie_aware, 4, seed=1).joint_weight(items), whole)


def test_draws_follow_the_listed_probabilities():
    """Chi-square over 24 rankings, three rows, seeded; a false alarm once in 1e6 runs with a free
    seed.
    """
    from scipy.stats import chisquare

    rng = np.random.default_rng(5)
    policy = BestOf(PlackettLuce(rng.normal(size=(3, 4))), tie_aware, 3)
    listed = listed_best_of(policy, 3)
    drawn = policy.sample(3, rng, size=6000)
    for i in range(3):
        every = listed.rankings[i]
        index = {tuple(r): e for e, r in enumerate(every.tolist())}
        counts = np.bincount([index[tuple(r)] for r in drawn[i].tolist()], minlength=len(every))
        expected = listed.probs[i] * 6000
        assert (counts[expected == 0] == 0).all()
        common = expected >= 5
        observed, wanted = (
            np.append(counts[common], counts[~common].sum()),
            expected[common].tolist(),
        )
        wanted.append(max(expected[~common].sum(), 1e-9))
        keep = np.array(wanted) > 1e-6
        wanted = np.array(wanted)[keep] * observed[keep].sum() / np.array(wanted)[keep].sum()
        assert chisquare(observed[keep], wanted).pvalue > 1e-6


def test_ips_with_drawn_weights_finds_the_value_of_what_is_served():
    """z-test over 4,000 rows, |z| < 5: false alarms 6e-7 were the seed free."""
    rng = np.random.default_rng(6)
    n = 4000
    logger = PlackettLuce(np.tile(0.3 * rng.normal(size=(1, 5)), (n, 1)))
    policy = BestOf(logger, lambda rows, rankings: -np.abs(rankings[:, :, 0] - 2.0), 4)
    items = logger.sample(3, rng)[:, 0]
    worth = np.array([3.0, 1.0, 1.0])
    reward = worth * (items == 2) + 0.5 * (np.roll(items, 1, axis=1) > items)
    log = cr.RankingLog(action=items, reward=reward, propensity=logger, targets={"best": policy})
    found = cr.IPS().estimate(log, "best")
    fresh = policy.sample(3, rng)[:, 0]
    gain = (worth * (fresh == 2) + 0.5 * (np.roll(fresh, 1, axis=1) > fresh)).sum(axis=1)
    error = np.hypot(found.stderr, gain.std() / np.sqrt(n))
    assert abs(found.value - gain.mean()) < 5 * error
    assert abs(found.value - log.value) > 5 * found.stderr  # and it is not the logger's
    with pytest.raises(
        PolicyError, match="a weight for the whole ranking, none for single positions"
    ):
        cr.IIPS().estimate(log, "best")
    with pytest.raises(PolicyError, match="none for prefixes"):
        cr.RIPS().estimate(log, "best")


def test_what_cannot_be_is_refused():
    logger = UniformPermutation(4)
    with pytest.raises(PolicyError, match="a whole m of at least 1"):
        BestOf(logger, tie_aware, 0)
    with pytest.raises(PolicyError, match="at least 9 reference draws"):
        BestOf(logger, tie_aware, 10, draws=8)
    with pytest.raises(PolicyError, match="row 0: the score of a ranking is NaN"):
        BestOf(logger, lambda rows, rankings: np.full(rankings.shape[:2], np.nan), 2).joint_weight(
            np.array([[0, 1]])
        )
    with pytest.raises(PolicyError, match="the score returned shape"):
        BestOf(logger, lambda rows, rankings: np.zeros(3), 2).joint_weight(np.array([[0, 1]]))
    two = BestOf(logger, tie_aware, 2, numbers=np.arange(2))
    with pytest.raises(PolicyError, match="2 rows and the actions 3"):
        two.joint_weight(np.zeros((3, 1), int))
    for ask in (two.prefix_log_prob, two.position_log_prob):
        with pytest.raises(PolicyError, match="best of 2 has a weight for the whole ranking"):
            ask(np.array([[0, 1]]))


def test_reference_draws_hang_on_the_row_and_not_on_the_batch():
    rng = np.random.default_rng(8)
    table = (
        rng.normal(size=(2600, 6)) * np.where(np.arange(2600) % 500 == 0, 400.0, 1.0)[:, None]
    )  # some too wide
    logger = PlackettLuce(table)
    items = logger.sample(3, rng)[:, 0]

    def first(rows, rankings):
        return rankings[:, :, 0].astype(float)

    whole = BestOf(logger, first, 3).joint_weight(items)
    for part in (slice(0, 900), slice(900, 2600)):
        cut = BestOf(logger.take(part), first, 3, numbers=np.arange(2600)[part])
        np.testing.assert_array_equal(cut.joint_weight(items[part]), whole[part])
    assert not np.array_equal(
        BestOf(logger.take(slice(900, 2600)), first, 3).joint_weight(items[900:]), whole[900:]
    )


@pytest.mark.parametrize(
    "text",
    ["plackett-luce", "softmax", "epsilon:epsilon=0.3", "rand-top-n:n=3", "swap:probability=0.5"],
)
def test_policies_draw_by_row_whatever_the_batch(text):
    """Each row's draws are the same alone, in any part, and in blocks; and they follow the policy."""
    rng = np.random.default_rng(9)
    lists = [
        rng.choice(12, size=int(rng.integers(4, 9)), replace=False).tolist() for _ in range(40)
    ]
    sets = Candidates.from_lists(lists)
    policy = parse_policy(text).bind(candidates=sets, scores=rng.normal(size=len(sets.items)))
    whole = policy.sample(3, RowRandom(np.arange(40), [5]), size=4)
    for rows in (np.arange(7, 40), np.array([39, 3, 11])):
        np.testing.assert_array_equal(
            policy.take(rows).sample(3, RowRandom(rows, [5]), size=4), whole[rows]
        )
    many = policy.take(np.zeros(20_000, np.int64))
    drawn = many.sample(3, RowRandom(np.arange(20_000), [6]))[:, 0]
    shown, count = np.unique(drawn, axis=0, return_counts=True)
    expected = 20_000 * np.exp(
        policy.take(np.zeros(len(shown), np.int64)).prefix_log_prob(shown)[:, -1]
    )
    common = expected > 5
    z = (count - expected)[common] / np.sqrt(expected[common])
    # Under 600 lists, each |z| above 5 with chance 6e-7: a false alarm in 3,000 runs; the seed is
    # fixed.
    assert np.abs(z).max() < 5
