"""Weights by held-out loss, and means of models."""

import numpy as np
import pytest

from counterrank.errors import EstimatorError
from counterrank.models.clicks.averaging import Averaged, choose
from counterrank.models.clicks.base import ALL, VARIANTS, Kind, squared_loss
from counterrank.models.clicks.fit import fit_history
from counterrank.models.clicks.rankings import Rankings


def test_equal_models_share_and_a_clearly_worse_one_vanishes():
    rng = np.random.default_rng(0)
    base = rng.exponential(size=2_000)
    losses = np.stack([base, base, base + 0.5 + 0.1 * rng.normal(size=2_000)], axis=1)
    np.testing.assert_allclose(choose(losses), [0.5, 0.5, 0.0], atol=1e-12)


def test_weight_follows_the_paired_difference_not_the_noise_of_rows():
    """A difference of two paired standard errors weighs exp(-2), however noisy the rows are."""
    rng = np.random.default_rng(1)
    away = rng.normal(size=400)
    away = (away - away.mean()) / away.std() + 2 / np.sqrt(400)
    base = 100 * rng.exponential(size=400)
    weight = choose(np.stack([base, base + away], axis=1))
    assert weight[1] / weight[0] == pytest.approx(np.exp(-2), rel=1e-6)


def test_units_are_summed_before_they_are_compared():
    rng = np.random.default_rng(2)
    losses = np.repeat(rng.exponential(size=(50, 2)), 20, axis=0)
    weight = choose(losses, unit=np.repeat(np.arange(50), 20))
    np.testing.assert_allclose(weight, choose(losses[::20]), rtol=1e-9)
    assert weight.min() > choose(losses).min()


def test_losses_that_are_no_numbers_are_refused():
    with pytest.raises(EstimatorError, match="finite losses"):
        choose([[1.0, np.nan]])


def test_a_mean_of_models_keeps_the_identities():
    rng = np.random.default_rng(3)
    n, K = 300, 3
    item = rng.permuted(np.tile(np.arange(5), (n, 1)), axis=1)[:, :K]
    item[::7, 2] = -1
    rankings = Rankings(item, rng.normal(size=(n, 1)), extra=rng.normal(size=(n, K)))
    click = np.where(item >= 0, rng.random((n, K)) < 0.4, 0.0)
    fold = np.arange(n) % 2
    models = fit_history(rankings, click, fold, folds=2)
    weights = choose(np.stack([squared_loss(m, rankings, click, fold) for m in models], axis=1))
    mean = Averaged(models, weights)
    assert mean.kind is Kind.AVERAGE and mean.variant == VARIANTS[-1] and mean.folds == 2
    q = mean.expected(rankings, fold)
    np.testing.assert_allclose(q, sum(w * m.expected(rankings, fold) for w, m in zip(weights, models, strict=True)))
    history = mean.history(rankings, click, fold)
    np.testing.assert_allclose(history.delta.sum(axis=1), (click - q).sum(axis=1), atol=1e-12)
    assert np.isneginf(mean.relevance(rankings, ALL)[item < 0]).all()
    assert np.isfinite(mean.relevance(rankings, ALL)[item >= 0]).all() and mean.details["models"][0]["folds"] == 2
    with pytest.raises(EstimatorError, match="do not make a mean"):
        Averaged(models, weights[:2])
