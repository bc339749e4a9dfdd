"""The value from pairs of items, on spaces small enough to enumerate."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.behavior.pairs import excess, pair_rows, pair_weights
from counterrank.estimators.weights.ratios import ratios_of

LENGTH, ITEMS = 3, 3
RANKINGS = np.array(list(product(range(ITEMS), repeat=LENGTH)))
TARGET = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.25, 0.5, 0.25]])


def every_ranking(reward, kind="factored"):
    """Return each ranking once: the logger is uniform, so this log is its whole distribution."""
    shown = np.take_along_axis(TARGET[None], RANKINGS[:, :, None], axis=2)[:, :, 0]
    target = shown.copy()
    if kind == "prefix":
        # The third item depends on the second: chances given what stands above.
        target[:, 2] = np.where(RANKINGS[:, 1] == 0, 1 / 3, shown[:, 2])
    log = cr.RankingLog(
        action=RANKINGS,
        reward=reward,
        propensity=cr.Propensity(kind, np.full(RANKINGS.shape, 1 / 3)),
        targets={"new": cr.Propensity(kind, target)},
    )
    value = (target.prod(axis=1)[:, None] * reward).sum(axis=0)
    return ratios_of(log, "new"), value


def pair_rewards(rng):
    effects = rng.normal(size=(LENGTH, LENGTH, ITEMS, ITEMS))
    reward = np.zeros(RANKINGS.shape)
    for k, m in product(range(LENGTH), repeat=2):
        reward[:, k] += effects[k, m][RANKINGS[:, k], RANKINGS[:, m]]
    return reward


@pytest.mark.parametrize("seed", range(5))
def test_exact_where_effects_are_of_pairs(seed):
    ratios, value = every_ranking(pair_rewards(np.random.default_rng(seed)))
    found = pair_rows(ratios).summed(1.0, 0.0).mean(axis=0)
    np.testing.assert_allclose(found, value, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_with_triples_it_is_interaction_order_three(seed):
    """With three positions any reward is one of three items: then it is exact."""
    rng = np.random.default_rng(seed)
    ratios, value = every_ranking(rng.normal(size=RANKINGS.shape))
    found = pair_rows(ratios).summed(1.0, 1.0).mean(axis=0)
    np.testing.assert_allclose(found, value, rtol=1e-12)
    weights = ratios.ordered(np.ones((LENGTH, LENGTH), dtype=bool), 3)
    np.testing.assert_allclose(pair_weights(ratios, 1.0), weights, rtol=1e-10, atol=1e-12)


def test_exact_below_the_items_above_where_positions_depend_on_each_other():
    rng = np.random.default_rng(7)
    free = rng.normal(size=(ITEMS,) * 3)
    reward = np.zeros(RANKINGS.shape)
    reward[:, 0] = free[RANKINGS[:, 0], RANKINGS[:, 1], 0]  # an effect of one item below
    reward[:, 1] = free[RANKINGS[:, 0], RANKINGS[:, 1], 1]  # any effect of the items above
    reward[:, 2] = free[tuple(RANKINGS.T)]
    ratios, value = every_ranking(reward, "prefix")
    found = pair_rows(ratios).summed(1.0, 0.0).mean(axis=0)
    np.testing.assert_allclose(found, value, rtol=1e-12)


def test_without_centres_it_is_interaction_order_two():
    rng = np.random.default_rng(3)
    ratios, _ = every_ranking(rng.normal(size=RANKINGS.shape))
    weights = ratios.ordered(np.ones((LENGTH, LENGTH), dtype=bool), 2)
    np.testing.assert_allclose(pair_weights(ratios, 0.0), weights, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["factored", "prefix"])
def test_rows_are_weighed_rewards_around_the_centre(kind):
    ratios, _ = every_ranking(np.random.default_rng(9).normal(size=RANKINGS.shape), kind)
    rows = pair_rows(ratios)
    for triples in (0.0, 0.4):
        weighed = pair_weights(ratios, triples) * (ratios.batch.reward - rows.centre)
        np.testing.assert_allclose(rows.summed(1.0, triples), rows.centre + weighed, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_without_trust_it_is_the_estimate_of_single_items(seed):
    ratios, _ = every_ranking(pair_rewards(np.random.default_rng(seed)))
    found = pair_rows(ratios).summed(0.0, 0.0).mean(axis=0)
    # Every ratio has mean one in the whole distribution: centres then change nothing at all.
    single = (ratios.rho * ratios.batch.reward).mean(axis=0)
    np.testing.assert_allclose(found, single, rtol=1e-12)


def test_noise_gets_no_trust_and_clear_effects_all_of_it():
    rng = np.random.default_rng(5)
    n, length = 20_000, 4
    action = rng.integers(2, size=(n, length))
    rewards = {
        "noise": rng.normal(size=(n, length)),
        "clear": 3.0 * action * np.roll(action, 1, axis=1) + rng.normal(size=(n, length)),
    }
    trust = {}
    for name, reward in rewards.items():
        log = cr.RankingLog(
            action=action, reward=reward, propensity=np.full(action.shape, 0.5),
            targets={"new": np.where(action == 1, 0.8, 0.2)},
        )  # fmt: skip
        trust[name] = pair_rows(ratios_of(log, "new")).shares()
    # Four squares of independent normal numbers have a mean above 2.5 with probability .04.
    assert trust["noise"] == (0.0, 0.0)
    assert trust["clear"] == (pytest.approx(1.0, abs=1e-6), 0.0)


@pytest.mark.parametrize("kind", ["joint", "position"])
def test_what_knows_no_pairs_has_no_effects(kind):
    rng = np.random.default_rng(6)
    shape = (50,) if kind == "joint" else (50, 2)
    log = cr.RankingLog(
        action=rng.integers(3, size=(50, 2)), reward=rng.normal(size=(50, 2)),
        propensity=cr.Propensity(kind, np.full(shape, 0.3)),
        targets={"new": cr.Propensity(kind, rng.uniform(0.1, 0.9, shape))},
    )  # fmt: skip
    ratios = ratios_of(log, "new")
    found = pair_rows(ratios)
    assert found.shares() == (0.0, 0.0)
    weight = ratios.rho[:, :1] if kind == "joint" else ratios.rho
    expected = found.centre + (weight * (log.reward - found.centre)).mean(axis=0)
    np.testing.assert_allclose(found.summed(0.0, 0.0).mean(axis=0), expected, rtol=1e-12)


def test_effects_of_triples_are_what_pairs_leave():
    """With three positions V = V_2 + what triples add, exactly; without triples they add nothing."""
    rng = np.random.default_rng(3)
    for reward, some in ((rng.normal(size=RANKINGS.shape), True), (pair_rewards(rng), False)):
        ratios, value = every_ranking(reward)
        left = value - pair_rows(ratios).summed(1.0, 0.0).mean(axis=0)
        added = pair_rows(ratios).triples.mean(axis=0)
        np.testing.assert_allclose(added, left, atol=1e-12)
        assert (np.abs(left).max() > 0.01) == some
    dependent, _ = every_ranking(reward, "prefix")
    assert not pair_rows(dependent).triples.any()


@pytest.mark.parametrize("strength", [0.0, 6.0])
def test_the_doubt_holds_the_size_of_triples_less_their_noise(strength):
    rng = np.random.default_rng(4)
    action = rng.integers(2, size=(400, 3))
    reward = rng.normal(size=(400, 3)) + strength * action.prod(axis=1, keepdims=True)
    log = cr.RankingLog(
        action=action,
        reward=reward,
        propensity=np.full((400, 3), 0.5),
        targets={"new": np.where(action == 1, 0.8, 0.2)},
    )
    tree = cr.BehaviorTree(candidates=cr.candidates(3, ["I"]), mse="pairs").fit(log, "new")
    rows = pair_rows(ratios_of(log, "new"), excess(log, "new", ratios_of(log, "new")))
    value = cr.AIPS(behavior=tree).estimate(log, "new").value
    _, triples = rows.shares()
    all_pairs = rows.summed(1.0, triples).sum(axis=1).mean()
    added = rows.triples.sum(axis=1)
    # Two standard errors are chance.
    square = added.mean() ** 2 - 4 * added.var() / 400
    size = np.sqrt(max(square, 0.0))
    assert 0.0 <= tree.fitted.doubt.gap <= abs(value - all_pairs)
    assert tree.fitted.doubt.left_out == pytest.approx(size, rel=1e-9)
    assert (size > 1.0) == (strength > 0)


def test_stretched_rows_have_the_corrected_variances():
    """Whatever the log lacks: pairs alone, then with a share of triples, whose parts are told apart."""
    ratios, _ = every_ranking(np.random.default_rng(8).normal(size=RANKINGS.shape))
    rows = replace(pair_rows(ratios), inflation=np.array([[1.0, 2.0, 5.0], [3.0, 1.0, 2.0]]))
    second = np.stack([(rows.pairs**2).mean(axis=0), (rows.triples**2).mean(axis=0)])
    mean = np.stack([rows.pairs.mean(axis=0), rows.triples.mean(axis=0)])
    expected = rows.inflation * second - mean**2
    np.testing.assert_allclose(rows.variances, expected, rtol=1e-12)
    alone = rows.summed(*rows.tail_shares(0.0)) - rows.single
    np.testing.assert_allclose(alone.var(axis=0), expected[0], rtol=1e-12)
    with_triples = rows.summed(*rows.tail_shares(0.25)) - rows.summed(*rows.tail_shares(0.0))
    np.testing.assert_allclose(with_triples.var(axis=0), 0.25**2 * expected[1], rtol=1e-10)
