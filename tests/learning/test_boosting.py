"""Gradient boosting on top of the click model: folds, numbers, and what it is for."""

import numpy as np
import pytest

from counterrank.learning.trees import BoostedModel, fit_trees
from counterrank.models.base import ALL, squared_loss
from counterrank.models.clicks.fit import fit_history
from counterrank.models.rankings import Rankings, Variant

pytest.importorskip("lightgbm")
ITEMS, K = 6, 3


def _bent(n, rng):
    """Attraction that jumps with the context, in a way no linear model follows; a click halves what
    is seen below.
    """
    x = rng.normal(size=(n, 2))
    item = rng.permuted(np.tile(np.arange(ITEMS), (n, 1)), axis=1)[:, :K]
    own = 1 / (1 + np.exp(1.5 - 3.0 * (x[:, :1] * x[:, 1:] > 0) - 0.3 * item))
    click, seen = np.zeros((n, K)), np.ones(n)
    for k in range(K):
        click[:, k] = rng.random(n) < own[:, k] * seen
        seen = np.where(click[:, k] > 0, 0.5, seen)
    item[::9, 2] = -1
    return Rankings(item, x), np.where(item >= 0, click, 0.0)


@pytest.fixture(scope="module")
def fitted():
    rankings, click = _bent(2_500, np.random.default_rng(0))
    fold = np.arange(2_500) % 2
    return rankings, click, fold, fit_trees(rankings, click, fold, folds=2, seed=0)


def test_it_follows_what_bends(fitted):
    rankings, click, fold, model = fitted
    plain = fit_history(rankings, click, fold, folds=2, variants=(Variant(),))[0]
    gain = squared_loss(plain, rankings, click, fold) - squared_loss(model, rankings, click, fold)
    assert gain.mean() > 4 * gain.std() / np.sqrt(len(gain))
    assert isinstance(model, BoostedModel) and model.folds == 2


def test_surprises_sum_and_relevance_is_defined(fitted):
    rankings, click, fold, model = fitted
    part, y, own = rankings.take(slice(0, 200)), click[:200], fold[:200]
    alpha = np.array([1.0, 0.5, 2.0])
    history = model.history(part, y, own, alpha)
    np.testing.assert_allclose(
        history.delta.sum(axis=1), ((y - history.q) * alpha).sum(axis=1), atol=1e-12
    )
    key = model.relevance(part)
    assert np.isneginf(key[part.item < 0]).all() and np.isfinite(key[part.item >= 0]).all()
    alone = Rankings(part.item[:1, 1:2], part.x[:1])
    assert model.expected(alone, ALL)[0, 0] == pytest.approx(key[0, 1], abs=1e-12)


def test_numbers_and_constants():
    rng = np.random.default_rng(2)
    rankings, _ = _bent(600, rng)
    reward = np.where(
        rankings.item >= 0, 3.0 + rankings.item + rng.normal(size=rankings.item.shape), 0.0
    )
    fold = np.arange(600) % 2
    model = fit_trees(rankings, reward, fold, folds=2, seed=0)
    q = model.expected(rankings, fold)
    shown = rankings.item >= 0
    # Noise has variance 1; trees on 900 slots leave less than another half.
    assert ((q - 3.0 - rankings.item)[shown] ** 2).mean() < 0.5
    np.testing.assert_allclose(
        model.history(rankings, reward, fold).delta, np.where(shown, reward - q, 0.0)
    )
