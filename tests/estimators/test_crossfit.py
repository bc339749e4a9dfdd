"""Averages of cross-fitted models by hand: shares, folds, drawn rankings of one or of both policies."""

from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import EstimatorError
from counterrank.data.source import MemorySource
from counterrank.estimators import View, Workspace
from counterrank.estimators.crossfit import (
    ModelAverage,
    Predictions,
    _between,
    draws_for,
    shares_of,
    trained,
)
from counterrank.estimators.doubly_robust import reward_model
from counterrank.models import (
    AmountModel,
    Close,
    Rankings,
    RewardModel,
    by_row,
    rankings_of,
    settings,
)

N, K, ALPHA = 6, 2, np.array([1.0, 0.5])
FOLD = np.array([0, 1, 2, 0, 1, 2])


class Sum(RewardModel):
    """Reward of a slot: `size` times its item, plus the number of the fold."""

    folds = 3

    def __init__(self, size):
        self.size = size

    @property
    def details(self):
        return {"size": self.size}

    def expected(self, rankings, fold):
        value = self.size * rankings.item + 1.0 * by_row(fold, 3, rankings.m)[:, None]
        return np.where(rankings.item >= 0, value, 0.0)

    def mean_under(self, batch, target, fold):
        return 10.0 * self.size + np.zeros(batch.action.shape)


@pytest.fixture
def log():
    """The logger showed 0, 1; the target always shows 2, 1."""
    sure = np.zeros((N, K, 3))
    sure[:, 0, 2] = sure[:, 1, 1] = 1.0
    made = cr.RankingLog(
        action=np.tile([0, 1], (N, 1)),
        reward=np.arange(2.0 * N).reshape(N, K),
        propensity=np.full((N, K), 1 / 3),
        position_weights=ALPHA,
        targets={"new": cr.Propensity("factored", np.full((N, K), 0.5))},
        dists={"propensity": np.full((N, 3), 1 / 3), "new": sure},
    )
    object.__setattr__(made, "bucket", FOLD)
    return made


MODELS, SHARES = (Sum(1.0), Sum(3.0)), np.array([0.75, 0.25])


@pytest.mark.parametrize("fold", [None, 2])
def test_drawn_models_are_averaged_over_the_targets_rankings(log, fold):
    look = Predictions(MODELS, SHARES, draws=2, seed=0).predict(View(log, "new"), fold)
    own = (FOLD if fold is None else np.full(N, 2)) * 1.0
    # Shares .75 and .25 of sizes 1 and 3 make a size of 1.5.
    np.testing.assert_allclose(look.q, np.stack([own, 1.5 + own], axis=1))
    np.testing.assert_allclose(look.mean, np.stack([3.0 + own, 1.5 + own], axis=1))
    np.testing.assert_allclose(look.delta, ALPHA * (log.reward - look.q))
    each = np.stack([ALPHA @ np.stack([2 * s + own, s + own]) for s in (1.0, 3.0)])
    for j, size in enumerate((1.0, 3.0)):
        q = np.stack([own, size + own], axis=1)
        np.testing.assert_allclose(look.totals[j], each[j] + (log.reward - q) @ ALPHA)
    assert look.volume is None


def test_a_fold_is_compared_by_the_models_that_count(log):
    little = Predictions(MODELS, np.array([0.9995, 0.0005]), draws=2, seed=0)
    assert little.predict(View(log, "new"), 1).totals.shape == (1, N)
    np.testing.assert_allclose(little.predict(View(log, "new"), 1).mean[:, 0], 3.0)
    assert little.predict(View(log, "new")).totals.shape == (2, N)
    shares = [
        replace(little, shares=np.array([1.0 - share, share])).supported().shares
        for share in (0.001 + 1e-9, 0.0015, 0.002)
    ]
    # No model comes with a jump.
    np.testing.assert_allclose(
        [each[1] for each in shares], [0.0, 0.00075 / 0.99925, 0.002], atol=1e-8
    )
    assert little.fold_draws == 2 and replace(little, draws=1).fold_draws == 1


def test_folds_are_compared_on_fewer_draws(log):
    view, drawn = View(log, "new"), Predictions(MODELS, SHARES, draws=3, seed=0)
    drawn.predict(view, 1)
    assert ("target draws", 2) in view.memo and ("target draws", 3) not in view.memo
    drawn.predict(view)
    assert ("target draws", 3) in view.memo


def test_a_linear_model_that_does_not_fit_into_memory_is_refused(log, monkeypatch):
    space = Workspace(MemorySource(log, threads=1), "new")
    assert trained(space, rich=False).layout.K == K
    monkeypatch.setattr(settings, "LARGEST_GRAM", 10)
    assert trained(space) is None
    with pytest.raises(EstimatorError, match="3 items at 2 positions would not fit"):
        reward_model(space)


def test_pages_of_both_policies_measure_a_change(log):
    """q on the shown page, plus the mean over the target's pages, less that over the logger's."""
    both = Predictions(MODELS, SHARES, draws=2, seed=0)
    logged = both._logged(View(log, "new"))
    new = logged.others(np.tile([2, 1], (N, 2, 1)))
    old = logged.others(np.tile([[1, 1], [0, 1]], (N, 1, 1)))
    view = View(log, "new")
    view.cached(("drawn rankings", 2), lambda: ((1.0, new), (-1.0, old)))
    look = both.predict(view)
    # At the first place 0 + 2 - (1 + 0) / 2 items of size 1.5, at the second nothing changes.
    np.testing.assert_allclose(look.mean, look.q + np.array([1.5 * 1.5, 0.0]))


def test_worth_counts_clicks_before_amounts_cancel(log):
    """A model without clicks of its own counts as it is: the volume is the whole change."""
    drawn = Predictions(MODELS, SHARES, draws=2, seed=0, worth=np.array([2.0, 5.0]))
    look = drawn.predict(View(log, "new"))
    np.testing.assert_allclose(look.volume, look.mean - look.q)


class Paid(AmountModel):
    """Clicks of `Sum`, each worth 7."""

    history = RewardModel.history


def test_the_volume_of_amounts_is_clicks_at_the_mean_amount_of_their_place(log):
    class Seven:
        def expected(self, rankings, fold):
            return np.full(rankings.item.shape, 7.0)

    paid = Paid(Sum(1.0), Seven())
    drawn = Predictions((paid,), np.ones(1), draws=2, seed=0, worth=np.array([2.0, 5.0]))
    look = drawn.predict(View(log, "new"))
    # The first place goes from item 0 to 2, which is two clicks more; the second stays.
    np.testing.assert_allclose(look.volume, np.tile([4.0, 0.0], (N, 1)))
    np.testing.assert_allclose(look.mean - look.q, np.tile([14.0, 0.0], (N, 1)))


def test_pages_of_some_rows_are_their_first_draws(log):
    both = Predictions(MODELS, SHARES, draws=4, seed=0)
    logged = both._logged(View(log, "new"))
    items = np.arange(N * 4 * 2).reshape(N, 4, 2)
    new, old = logged.others(items), logged.others(items + 100)
    view, rows = View(log, "new"), np.array([0, 2])
    view.cached(("drawn rankings", 4), lambda: ((1.0, new), (-1.0, old)))
    some = both._pages(both.compared(view, rows), both.fold_draws)
    assert [sign for sign, _ in some] == [1.0, -1.0] and both.fold_draws == 2
    for (_, part), more in zip(some, (0, 100), strict=True):
        np.testing.assert_array_equal(part.item, items[rows, 0] + more)


def test_closed_forms_are_averaged_by_their_shares(log):
    found = Predictions(MODELS, SHARES, details=MODELS[0].details)
    look = found.predict(View(log, "new"))
    np.testing.assert_allclose(look.mean, 15.0)
    np.testing.assert_allclose(look.q[:, 1], 1.5 + FOLD)
    for mean, model, total in zip((15.0, 45.0), MODELS, look.totals, strict=True):
        q = model.expected(rankings_of(log), FOLD)
        np.testing.assert_allclose(total, mean + (log.reward - q) @ ALPHA)
    np.testing.assert_allclose(look.delta, ALPHA * (log.reward - look.q))
    assert found.folds == 3 and found.details == {"size": 1.0}
    np.testing.assert_allclose(found.predict(View(log, "new"), 1).q[:, 0], 1.0)


def test_fitted_pages_average_by_share():
    fitted = ModelAverage((*MODELS, Sum(99.0)), np.array([0.5, 0.5, 0.0]))
    rankings = Rankings([[1, 2], [2, -1]], np.zeros((2, 0)))
    found = fitted.mean(rankings, np.array([0, 1]))
    np.testing.assert_allclose(found, [[2.0, 4.0], [5.0, 0.0]])
    assert fitted.supported().models == MODELS


def test_models_count_by_the_likelihood_of_rewards_they_have_not_seen():
    losses = np.array([[1.0, 1.0], [1.0, 1.5]])
    # The best leaves a variance of 2 / 4, so half a unit of loss is half a unit of log-likelihood.
    ratio = np.exp(-0.5 * 0.5 / 0.5)
    np.testing.assert_allclose(shares_of(losses, 4), [1 / (1 + ratio), ratio / (1 + ratio)])
    np.testing.assert_allclose(shares_of(losses, 4, power=0.5)[1], ratio**0.5 / (1 + ratio**0.5))
    assert shares_of(np.zeros((2, 3)), 4).tolist() == [0.5, 0.5]
    assert shares_of(np.array([[0.0], [1.0]]), 4).tolist() == [1.0, 0.0]


def test_rows_of_one_unit_repeat_each_other():
    best = np.array([1.0, 2.0, 3.0, 2.0])
    losses = np.array([best, best + np.array([2.0, 2.0, 0.0, 0.0])])
    # Differences 1, 1, -1, -1 from their mean sum to 2 and -2 by unit: twice the variance of rows.
    found = shares_of(losses, 8, np.array([0, 0, 1, 1]))
    ratio = np.exp(-0.5 * 4.0 / (8.0 / 8) / 2.0)
    np.testing.assert_allclose(found[1] / found[0], ratio)
    apart = shares_of(losses, 8, np.array([0, 1, 2, 3]))
    np.testing.assert_allclose(apart, shares_of(losses, 8))


def test_small_numbers():
    assert _between(np.array([0, 0, 1]), np.array([1.0, 3.0, 5.0])) == pytest.approx(
        np.var([1.0, 3.0, 5.0]) - 2.0
    )
    assert _between(np.array([0, 1]), np.array([2.0, 2.0])) == 0.0
    assert [draws_for(n) for n in (None, 50_000, 60_000, 100_000, 150_000)] == [1, 4, 3, 2, 1]


def test_closed_forms_fade_out_where_their_error_nears_the_limit():
    losses = np.array([[1.0], [1.03], [1.045], [1.0499]])
    counted = Close(MODELS, losses, 1, None).counted
    np.testing.assert_allclose(counted, [1.0, 1.0, 0.5, 0.01], atol=1e-9)
