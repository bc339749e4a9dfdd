"""One reward of the whole page: its likelihood, its fit and its model."""

from dataclasses import replace

import numpy as np
import pytest

from counterrank.common.errors import EstimatorError
from counterrank.models.clicks import likelihood
from counterrank.models.clicks.amounts import NumberModel, fit_list_models
from counterrank.models.clicks.blocks import blocks_of
from counterrank.models.clicks.fit import prepared, prior_of
from counterrank.models.clicks.likelihood import (
    Family,
    MeanLikelihood,
    newton,
    page_weights,
)
from counterrank.models.rankings import Rankings, Variant

CHANCE, TOTAL, NUMBER = Family.CHANCE, Family.TOTAL, Family.NORMAL
FAMILIES = (CHANCE, TOTAL, NUMBER)
ROW = np.repeat(np.arange(6), [3, 1, 4, 2, 5, 3])
LAST = np.flatnonzero(np.diff(ROW, append=6))
N = len(ROW)


def _slots(family, seed=0):
    """u, v and y of six pages."""
    rng = np.random.default_rng(seed)
    u, v, y = rng.normal(-1, 0.5, N), rng.normal(0, 0.5, N), np.zeros(N)
    if family == CHANCE:
        y[LAST] = [1, 0, 0.5, 1, 0, 0.25]
    else:
        y[LAST] = rng.exponential(size=6) if family == TOTAL else rng.normal(size=6)
    return u, v, y


def _slow(u, v, y, family, dispersion):
    """The log likelihood page by page, as the module's docstring has it."""
    total = 0.0
    for page in range(6):
        at = page == ROW
        h, own = (u + v)[at], y[at]
        S, Y = h @ (1 + np.arange(len(h))) ** -0.5, own.sum()
        if family == CHANCE:
            total += Y * S - np.log(1 + np.exp(S))
        else:
            total += Y * S - np.exp(S) if family == TOTAL else -((Y - S) ** 2) / 2
    return total / dispersion


def _rewards(y, family, dispersion=0.7, row=ROW):
    first = np.flatnonzero(np.diff(row, prepend=-1))
    place = np.arange(len(row)) - first[np.searchsorted(first, np.arange(len(row)), "right") - 1]
    return MeanLikelihood(
        family, np.add.reduceat(y, first), (1.0 + place) ** -0.5, first, dispersion
    )


def _matrix(u, v, rewards):
    """Minus the second derivatives (N, N) in h, by products with unit vectors."""
    _, curvature = rewards.derivatives(u, v, exact=True)
    return np.array(
        [rewards.product(curvature, unit, np.zeros(len(u)))[0] for unit in np.eye(len(u))]
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_likelihood_equals_its_slow_twin(family):
    u, v, y = _slots(family)
    found = _rewards(y, family).value(u, v)
    assert found == pytest.approx(_slow(u, v, y, family, 0.7), rel=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_slopes_and_curvature_are_those_of_finite_differences(family):
    u, v, y = _slots(family, 1)
    step, rewards = 1e-5, _rewards(y, family)

    def at(u):
        return rewards.value(u, v), rewards.derivatives(u, v, exact=True)[0][0]

    slope, matrix = at(u)[1], _matrix(u, v, rewards)
    for s, unit in enumerate(step * np.eye(N)):
        up, down = at(u + unit), at(u - unit)
        assert slope[s] == pytest.approx((up[0] - down[0]) / (2 * step), abs=1e-7)
        np.testing.assert_allclose(-(up[1] - down[1]) / (2 * step), matrix[s], atol=1e-7)


def _rows(family, n=120, seed=4):
    rng = np.random.default_rng(seed)
    item = rng.permuted(np.tile(np.arange(6), (n, 1)), axis=1)[:, :4]
    item[np.arange(4) >= rng.integers(1, 5, n)[:, None]] = -1
    rankings = Rankings(
        item, rng.normal(size=(n, 2)), features=rng.normal(size=(n, 4, 2)), nonlinear=True
    )
    length, reward = (item >= 0).sum(axis=1), np.zeros((n, 4))
    page = rng.random(n) < 0.4 if family == CHANCE else rng.exponential(size=n)
    reward[np.arange(n), length - 1] = rng.normal(size=n) if family == NUMBER else page
    return prepared(family, rankings, reward, np.arange(n) % 2, 2, 0, page=True), rng


@pytest.mark.parametrize("family", FAMILIES)
def test_the_block_that_scales_steps_is_that_of_the_fisher_matrix(family, monkeypatch):
    """Against the linear map applied to one parameter at a time; newton then ends where the slope of
    the penalised likelihood is zero.
    """
    monkeypatch.setattr("counterrank.models.clicks.blocks._NUMBERS", 7)
    rows, rng = _rows(family)
    encoding = rows.encoding
    columns = encoding.columns(rows.rankings, rows.x, 0)
    slots = rows.slots(columns, np.zeros(columns.shape[:2]))
    prior = prior_of(rows, encoding.widths(Variant(), 0))
    size = len(prior.mean)
    theta, rewards = rng.normal(size=size) * 0.2, rows.likelihood(slots, 0.7)
    np.testing.assert_allclose(rewards.weight, _rewards(slots.y, family, 0.7, slots.row).weight)
    made = blocks_of(theta, slots, rewards, slots.linear(theta))
    assert not len(made.items)

    h = [sum(slots.linear(np.eye(size)[j])) for j in made.common]
    matrix = _matrix(*slots.linear(theta), rewards)
    np.testing.assert_allclose(made.block, np.array(h) @ matrix @ np.array(h).T, atol=1e-7)

    scaling, theta = made.scaling(prior.precision), np.zeros(size)
    more = replace(likelihood.SETTINGS, steps=60, inner=500)
    monkeypatch.setattr(likelihood, "SETTINGS", more)
    newton(
        theta, slots, rewards, prior.mean, prior.precision, scaling, enough=1e-10, near=False
    )  # fmt: skip
    jacobian = np.array([sum(slots.linear(unit)) for unit in np.eye(size)])
    slope = jacobian @ rewards.derivatives(*slots.linear(theta), exact=True)[0][0]
    assert np.abs(slope - prior.precision * (theta - prior.mean)).max() < 1e-4
    assert np.abs(theta - prior.mean).max() > 0.05


def _whole(n, rng, kind):
    """One reward per page from all of its items, pages of two to four; the truth of any page."""
    level, K = np.linspace(-1, 1, 8), 4
    length = rng.integers(2, K + 1, n)

    def mean(item):
        used = item >= 0
        S = -0.5 + np.where(used, level[item], 0.0) @ page_weights(K) + 0.2 * used.sum(axis=1)
        return {"chance": 1 / (1 + np.exp(-S)), "total": np.exp(S), "number": S}[kind]

    item = rng.permuted(np.tile(np.arange(8), (n, 1)), axis=1)[:, :K]
    item = np.where(np.arange(K) < length[:, None], item, -1)
    best = np.where(np.arange(K) < length[:, None], np.arange(7, 7 - K, -1), -1)
    q = mean(item)
    noise = {
        "chance": rng.random(n) < q,
        "total": q * rng.exponential(size=n),
        "number": q + rng.normal(size=n),
    }
    reward = np.zeros((n, K))
    reward[np.arange(n), length - 1] = noise[kind]
    return Rankings(item, np.empty((n, 0))), reward, best, mean(best).mean(), q.mean()


@pytest.mark.parametrize("kind", ["chance", "total", "number"])
def test_one_reward_a_page_is_that_of_all_its_items(kind):
    """The best page's mean within a tenth of its distance to the average page."""
    rng = np.random.default_rng(11)
    rankings, reward, best, truth, usual = _whole(8_000, rng, kind)
    fold = np.arange(8_000) % 4
    (model,) = fit_list_models(rankings, reward, fold, folds=4, variants=(Variant(),), page=True)
    assert isinstance(model, NumberModel) and model.page
    q = model.expected(rankings.others(best), fold)
    assert (q[np.arange(4) != rankings.lengths[:, None] - 1] == 0).all()
    assert abs(q.sum(axis=1).mean() - truth) < 0.1 * abs(truth - usual)
    past = model.history(rankings, reward, fold)
    np.testing.assert_allclose(past.delta.sum(axis=1), reward.sum(axis=1) - past.q.sum(axis=1))
    assert abs((reward.sum(axis=1) - past.q.sum(axis=1)).mean()) < 0.03 * abs(usual) + 0.01


def test_longer_rankings_are_refused():
    rng = np.random.default_rng(0)
    item = rng.permuted(np.tile(np.arange(8), (40, 1)), axis=1)
    rankings, fold = Rankings(item[:, :3], rng.normal(size=(40, 1))), np.arange(40) % 2
    click = (rng.random((40, 3)) < 0.3) * (np.arange(3) == 2) * 1.0
    model = fit_list_models(rankings, click, fold, folds=2, page=True)[0]
    with pytest.raises(EstimatorError, match="was fitted to 3"):
        model.expected(Rankings(item[:, :5], rankings.x), 0)
