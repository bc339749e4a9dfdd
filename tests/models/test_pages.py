"""One reward of the whole page: its likelihood, its fit and its model."""

import numpy as np
import pytest

from counterrank.errors import EstimatorError
from counterrank.models.clicks.amounts import fit_list_models
from counterrank.models.clicks.fit import Climb, Slots, prepared, prior_of
from counterrank.models.clicks.kernels.likelihood import (
    Effort,
    NormalPrior,
    Observed,
    RoughInverse,
    derivatives,
    likelihood,
    linear,
    newton,
)
from counterrank.models.clicks.kernels.pages import (
    CHANCE,
    NUMBER,
    TOTAL,
    page_derivatives,
    page_likelihood,
    page_product,
    page_weights,
)
from counterrank.models.clicks.pages import PageRewardModel, fit_pages
from counterrank.models.rankings import Rankings, Variant

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


def _all(u, v, y, family, dispersion=0.7, row=ROW):
    rate, total, slope, cross = np.empty((4, len(u)))
    value = page_likelihood(u, v, y, row, family, dispersion, rate, total)
    page_derivatives(rate, total, y, row, family, dispersion, slope, cross)
    return value, slope, cross, rate


def _matrix(u, v, y, family, dispersion=0.7, row=ROW):
    """Minus the second derivatives (N, N) in h, by products with unit vectors."""
    _, _, cross, rate = _all(u, v, y, family, dispersion, row)
    out = []
    for unit in np.eye(len(u)):
        du, dv = unit.copy(), np.zeros(len(u))
        page_product(cross, rate, row, du, dv)
        np.testing.assert_array_equal(du, dv)
        out.append(du)
    return np.array(out)


@pytest.mark.parametrize("family", FAMILIES)
def test_likelihood_equals_its_slow_twin(family):
    u, v, y = _slots(family)
    assert _all(u, v, y, family)[0] == pytest.approx(_slow(u, v, y, family, 0.7), rel=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_slopes_and_curvature_are_those_of_finite_differences(family):
    u, v, y = _slots(family, 1)
    step = 1e-5
    slope, matrix = _all(u, v, y, family)[1], _matrix(u, v, y, family)
    for s, unit in enumerate(step * np.eye(N)):
        up, down = _all(u + unit, v, y, family), _all(u - unit, v, y, family)
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
    return prepared(family, rankings, reward, np.arange(n) % 2, 2, 0), rng


@pytest.mark.parametrize("family", FAMILIES)
def test_the_block_that_scales_steps_is_that_of_the_fisher_matrix(family):
    """Against the linear map applied to one parameter at a time; newton then ends where the slope of
    the penalised likelihood is zero.
    """
    rows, rng = _rows(family)
    slots, encoding = Slots.of(rows), rows.encoding
    columns = encoding.columns(rows.rankings, rows.x, 0)
    x = np.concatenate([np.ones((len(rows.x), 1)), encoding.slopes_of(rows.x)], axis=1)
    prior = prior_of(
        rows, x.shape[1] - 1, encoding.widths(Variant(), columns.shape[2] + encoding.products)
    )
    climb = Climb(rows, prior, x, 0.7)
    count, size = len(slots.y), len(prior.mean)
    given = climb.linear_map(slots, columns, np.zeros(columns.shape[:2]))
    theta = np.zeros(size)
    common, _ = climb._common(theta, slots, given, near=True)
    climb.inverse = np.zeros((0, 0))
    theta[common] = rng.normal(size=len(common)) * 0.2
    _, inverse = climb._common(theta, slots, given, near=True)

    def mapped(values):
        u, v = np.empty(count), np.empty(count)
        linear(values, given, u, v)
        return u, v

    h = [sum(mapped(np.eye(size)[j])) for j in common]
    matrix = _matrix(*mapped(theta), slots.y, family, 0.7, slots.row)
    block = np.array(h) @ matrix @ np.array(h).T + np.diag(prior.precision[common])
    np.testing.assert_allclose(inverse @ block, np.eye(len(common)), atol=1e-7)

    newton(
        theta,
        NormalPrior(prior.mean, prior.precision),
        given,
        Observed(slots.y, family, 0.7),
        RoughInverse(np.ones(size), common[:0], np.zeros((0, 0))),
        Effort(60, 500, 1e-10, near=False),
    )
    jacobian = np.array([sum(mapped(unit)) for unit in np.eye(size)])
    slope = jacobian @ _all(*mapped(theta), slots.y, family, 0.7, slots.row)[1]
    assert np.abs(slope - prior.precision * (theta - prior.mean)).max() < 1e-4
    assert np.abs(theta - prior.mean).max() > 0.05


def test_the_families_of_pages_are_reached_through_the_one_likelihood():
    u, v, y = _slots(TOTAL)
    su, sv, ru, rv, huu, huv, hvv = np.empty((7, N))
    value = likelihood(u, v, y, ROW, TOTAL, 0.7, su, sv)
    derivatives(su, sv, y, ROW, TOTAL, 0.7, True, ru, rv, huu, huv, hvv)
    expected = _all(u, v, y, TOTAL)
    assert value == expected[0]
    for found, wanted in zip((ru, rv, huv), (1, 1, 2), strict=True):
        np.testing.assert_array_equal(found, expected[wanted])


def _whole(n, rng, kind):
    """One reward a page from all of its items, pages of two to four; the truth of any page."""
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
    assert isinstance(model, PageRewardModel)
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
    model = fit_pages(rankings, click, fold, folds=2)[0]
    with pytest.raises(EstimatorError, match="was fitted to 3"):
        model.expected(Rankings(item[:, :5], rankings.x), 0)
