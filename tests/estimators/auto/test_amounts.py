"""Amounts: prices as features, gross changes, and a word where nothing tells the price."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.encoding import Scaling
from counterrank.data.source import MemorySource
from counterrank.estimators.auto.nuisances import fit_aimed
from counterrank.estimators.base import View, Workspace
from counterrank.estimators.crossfit import logged_rankings, scores
from counterrank.models import paired_draws
from counterrank.policies import ItemFeatures

ITEMS, K, N = 400, 4, 4_000


def _shop(price, n=N, seed=0):
    """Amounts are prices; the target prefers cheap items, which are clicked more often, or, where the
    price is not known, any: its scores would tell.
    """
    rng = np.random.default_rng(seed)
    level = rng.normal(size=ITEMS)
    liked = level if price else rng.normal(size=ITEMS)
    logger, target = (cr.PlackettLuce(np.tile(s * liked, (n, 1))) for s in (0.0, -0.7))
    item = logger.sample(K, rng).reshape(n, K)
    chance = 0.12 * np.exp(-0.6 * level)
    paid = np.exp(level)

    def value(shown):
        return (np.minimum(chance[shown], 1.0) * paid[shown]).sum(axis=1).mean()

    click = rng.random((n, K)) < chance[item]
    features = np.stack([paid if price else rng.normal(size=ITEMS)], axis=1)
    log = cr.RankingLog(
        action=item,
        reward=click * paid[item],
        propensity=logger,
        targets={"new": target},
        item_features=ItemFeatures(features, ("price" if price else "colour",)),
    )
    truth = value(target.sample(K, rng).reshape(n, K)) - value(item)
    return log, truth


def _look(log):
    found = fit_aimed(Workspace(MemorySource(log), "new", seed=0))
    return found, found.predict(View(log, "new"))


def test_a_price_is_read_as_a_logarithm_and_makes_revenue_right():
    """The start within one standard error of an A/B test of this size."""
    log, truth = _shop(price=True)
    found, look = _look(log)
    assert found.flags == ()
    change = float((look.mean - look.q).sum(axis=1).mean())
    error = np.sqrt(2 * log.reward.sum(axis=1).var() / log.n)
    assert abs(change - truth) < error


def test_gains_in_clicks_and_losses_in_amounts_are_told_apart():
    log, _ = _shop(price=True)
    found, look = _look(log)
    clicks = look.volume.mean(axis=0)
    amounts = (look.mean - look.q).mean(axis=0) - clicks
    assert (clicks > 0).all() and (amounts < 0).all()
    # By hand: the clicks that the models expect of both policies' pages, each worth the mean amount of
    # its position.
    rankings = logged_rankings(log, "new")
    half, fold = found.draws // 2, np.repeat(log.bucket % 5, found.draws // 2)
    new, old = (
        paired_draws(log, policy, found.draws, 0)[:, :half]
        for policy in (log.target("new"), log.propensity)
    )
    by_target, by_logger = (
        sum(
            s * m.clicks.expected(rankings.others(pages, extra=scores(log, "new", pages)), fold)
            for s, m in zip(found.shares, found.models, strict=True)
        )
        .reshape(log.n, half, K)
        .mean(axis=1)
        for pages in (new, old)
    )
    np.testing.assert_allclose(look.volume, found.worth * (by_target - by_logger), atol=1e-12)
    paid = log.reward > 0
    np.testing.assert_allclose(
        found.worth, [log.reward[paid[:, k], k].mean() for k in range(K)], rtol=1e-12
    )
    one = _look(log.take(np.arange(300)))[1]
    assert one.volume.shape == (300, K)


def test_a_word_where_no_feature_tells_the_price():
    log, _ = _shop(price=False)
    found, _ = _look(log)
    (flag,) = found.flags
    assert flag.startswith("amount-unknown: ")
    assert flag in cr.Auto().estimate(log, "new").flags
    clicks = cr.RankingLog(
        action=log.action, reward=log.reward > 0, propensity=log.propensity, targets=log.targets
    )
    assert _look(clicks)[0].flags == () and _look(clicks)[1].volume is None


def test_columns_like_prices_are_logarithms_and_others_are_not():
    rng = np.random.default_rng(0)
    price = np.exp(rng.normal(size=500))
    values = np.stack([price, rng.normal(size=500), rng.integers(1, 6, 500)], axis=1)
    scaling = Scaling.fitted(values, logs=True)
    assert np.isnan(scaling.least).tolist() == [False, True, True]
    log = np.log(price)
    np.testing.assert_allclose(scaling.apply(values)[:, 0], (log - log.mean()) / log.std())
    np.testing.assert_array_equal(
        scaling.apply(values)[:, 1:], Scaling.fitted(values).apply(values)[:, 1:]
    )
    # What was never that cheap is read as the cheapest; missing stays in the middle.
    far = np.array([[0.0, 0.0, 1.0], [np.nan, 0.0, 1.0]])
    assert scaling.apply(far)[0, 0] == pytest.approx((log.min() - log.mean()) / log.std())
    assert scaling.apply(far)[1, 0] == 0.0
