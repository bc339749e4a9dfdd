"""Slots that speak together: choices among the items of a page, and one reward of the whole page."""

import itertools

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
    CHOICE,
    NUMBER,
    TOTAL,
    page_derivatives,
    page_likelihood,
    page_product,
    page_weights,
)
from counterrank.models.clicks.pages import ChoiceModel, PageRewardModel, fit_choices, fit_pages
from counterrank.models.rankings import Rankings, Variant, with_candidates

FAMILIES = (CHOICE, CHANCE, TOTAL, NUMBER)
ROW = np.repeat(np.arange(6), [3, 1, 4, 2, 5, 3])
LAST = np.flatnonzero(np.diff(ROW, append=6))
N = len(ROW)


def _slots(family, seed=0):
    """u, v and y of six pages; some slots of choices stand beside their page."""
    rng = np.random.default_rng(seed)
    u, v, y = rng.normal(-1, 0.5, N), rng.normal(0, 0.5, N), np.zeros(N)
    if family == CHOICE:
        y = 0.5 * (rng.random(N) < 0.3)
        y[[2, 6, 7, 12]] = -1.0
    elif family == CHANCE:
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
        if family == CHOICE:
            known = own >= 0
            rest, all_ = np.exp(h[~known]).sum(), np.exp(h).sum()
            total += own[known] @ h[known] + (1 - own[known].sum()) * np.log(1 + rest)
            total -= np.log(1 + all_)
            continue
        S, Y = h @ (1 + np.arange(len(h))) ** -0.5, own.sum()
        if family == CHANCE:
            total += Y * S - np.log(1 + np.exp(S))
        else:
            total += Y * S - np.exp(S) if family == TOTAL else -((Y - S) ** 2) / 2
    return total / dispersion


def _all(u, v, y, family, dispersion=0.7, exact=True, row=ROW):
    rate, total, slope, own, cross, beside = np.empty((6, len(u)))
    value = page_likelihood(u, v, y, row, family, dispersion, rate, total)
    page_derivatives(rate, total, y, row, family, dispersion, exact, slope, own, cross, beside)
    return value, slope, own, cross, beside, rate


def _matrix(u, v, y, family, dispersion=0.7, exact=True, row=ROW):
    """Minus the second derivatives (N, N) in h, by products with unit vectors."""
    _, _, own, cross, beside, rate = _all(u, v, y, family, dispersion, exact, row)
    out = []
    for unit in np.eye(len(u)):
        du, dv = unit.copy(), np.zeros(len(u))
        page_product(own, cross, beside, rate, y, row, du, dv)
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


def test_fisher_matrix_of_a_choice_is_the_mean_over_its_outcomes():
    """Three slots of a page and two beside it: which slot was clicked, or none, enumerated."""
    rng = np.random.default_rng(2)
    h, row = rng.normal(size=5), np.zeros(5, dtype=np.int64)
    p = np.exp(h) / (1 + np.exp(h).sum())
    outcomes = np.array(
        [[1, 0, 0, -1, -1], [0, 1, 0, -1, -1], [0, 0, 1, -1, -1], [0, 0, 0, -1, -1.0]]
    )
    chance = np.append(p[:3], 1 - p[:3].sum())
    mean, outer = np.zeros((5, 5)), np.zeros((5, 5))
    for y, c in zip(outcomes, chance, strict=True):
        mean += c * _matrix(h, np.zeros(5), y, CHOICE, 1.0, True, row)
        slope = _all(h, np.zeros(5), y, CHOICE, 1.0, True, row)[1]
        outer += c * np.outer(slope, slope)
    fisher = _matrix(h, np.zeros(5), outcomes[0], CHOICE, 1.0, False, row)
    np.testing.assert_allclose(fisher, mean, atol=1e-12)
    np.testing.assert_allclose(fisher, outer, atol=1e-12)


def _rows(family, n=120, seed=4):
    rng = np.random.default_rng(seed)
    item = rng.permuted(np.tile(np.arange(6), (n, 1)), axis=1)[:, :4]
    item[np.arange(4) >= rng.integers(1, 5, n)[:, None]] = -1
    rankings = Rankings(
        item, rng.normal(size=(n, 2)), features=rng.normal(size=(n, 4, 2)), bends=True
    )
    length, reward = (item >= 0).sum(axis=1), np.zeros((n, 4))
    if family == CHOICE:
        pool = np.tile(np.arange(6), (n, 1))
        features = rng.normal(size=(n, 6, 2))
        np.put_along_axis(features, np.maximum(item, 0)[:, :, None], rankings.features, axis=1)
        rankings = Rankings(
            item, rankings.x, features=rankings.features, bends=True,
            pool=Rankings(pool, rankings.x, features=features, bends=True, at=np.full((n, 6), 4)),
        )  # fmt: skip
        rankings = with_candidates(rankings)
        reward = np.zeros(rankings.item.shape)
        reward[np.arange(n), rng.integers(0, length)] = rng.random(n) < 0.7
    else:
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
    matrix = _matrix(*mapped(theta), slots.y, family, 0.7, False, slots.row)
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
    slope = jacobian @ _all(*mapped(theta), slots.y, family, 0.7, True, slots.row)[1]
    assert np.abs(slope - prior.precision * (theta - prior.mean)).max() < 1e-4
    assert np.abs(theta - prior.mean).max() > 0.05


def test_the_families_of_pages_are_reached_through_the_one_likelihood():
    u, v, y = _slots(CHOICE)
    su, sv, ru, rv, huu, huv, hvv = np.empty((7, N))
    value = likelihood(u, v, y, ROW, CHOICE, 0.7, su, sv)
    derivatives(su, sv, y, ROW, CHOICE, 0.7, True, ru, rv, huu, huv, hvv)
    expected = _all(u, v, y, CHOICE)
    assert value == expected[0]
    for found, wanted in zip((ru, rv, huu, huv, hvv), (1, 1, 2, 3, 4), strict=True):
        np.testing.assert_array_equal(found, expected[wanted])


def _pages(n, rng, items=8, K=3, C=5):
    """Requests with C of the items as candidates, K of which a page shows at random."""
    pool = rng.permuted(np.tile(np.arange(items), (n, 1)), axis=1)[:, :C]
    x = rng.normal(size=(n, 1))
    level = np.linspace(-1, 1, items)
    at = np.full((n, C), K)
    return Rankings(pool[:, :K], x, pool=Rankings(pool, x, at=at)), level


def test_choices_follow_the_multinomial_exactly():
    """Chances of a page, and what is still to come after any clicks, against all outcomes of two
    choices: clicks of a slot, of another, or of none.
    """
    rng = np.random.default_rng(5)
    rankings, level = _pages(60, rng)
    click = (rng.random((60, 3)) < 0.4) * 1.0
    click[0] = [1, 1, 0]
    click[:, 2] *= click[:, :2].sum(axis=1) < 2
    models = fit_choices(rankings, click, np.arange(60) % 2, folds=2)
    assert [m.beside for m in models] == [False, True] and {m.budget for m in models} == {2.0}
    fold = np.arange(60) % 2
    for model in models:
        h = model.predictor(rankings, fold) + model.predictor.parameters.theta[fold, :3]
        rest = np.zeros(60)
        if model.beside:
            for i in range(60):
                for c, item in enumerate(rankings.pool.item[i]):
                    if item not in rankings.item[i]:
                        values = model.predictor(rankings.pool.take(np.array([i])), fold[i : i + 1])
                        rest[i] += np.exp(
                            values[0, c] + model.predictor.parameters.theta[fold[i], 3]
                        )
        p = np.exp(h) / (1 + rest + np.exp(h).sum(axis=1))[:, None]
        q = model.expected(rankings, fold)
        np.testing.assert_allclose(q, 2 * p, rtol=1e-12)
        alpha, worth = np.array([1.0, 0.5, 2.0]), rng.exponential(size=(60, 3))
        past = model.history(rankings, click * worth, fold, alpha, worth)
        np.testing.assert_allclose(
            past.delta.sum(axis=1), (alpha * (click * worth - past.q)).sum(axis=1), atol=1e-12
        )
        for i in range(5):
            outcomes = list(itertools.product(range(4), repeat=2))
            chance = np.append(p[i], 1 - p[i].sum())
            for k in range(3):
                # Given as many clicks above as there were, among all outcomes of the two choices.
                above = click[i, :k]
                fit, gain = 0.0, 0.0
                for one in outcomes:
                    counts = np.bincount(one, minlength=4)[:3]
                    if (counts[:k] == above).all():
                        weight = chance[list(one)].prod()
                        fit += weight
                        gain += weight * (alpha * worth[i] * counts)[k:].sum()
                assert past.ahead[i, k] == pytest.approx(gain / fit, rel=1e-10)


def test_candidates_beside_the_page_follow_it_in_any_order():
    rng = np.random.default_rng(1)
    item = np.array([[4, 2, -1], [1, 3, 0]])
    pool = np.array([[2, 3, 4, 5], [0, 1, 3, -1]])
    features = rng.normal(size=(2, 4, 1))
    own = np.zeros((2, 3, 1))
    own[0, :2], own[1] = features[0, [2, 0]], features[1, [1, 2, 0]]
    x = np.zeros((2, 1))
    both = with_candidates(
        Rankings(item, x, features=own, pool=Rankings(pool, x, features=features))
    )
    assert both.item.tolist() == [[4, 2, 3, 5], [1, 3, 0, -1]]
    assert both.places[0].tolist() == [0, 1, 3, 3] and both.places[1, :3].tolist() == [0, 1, 2]
    assert both.page == 3
    np.testing.assert_array_equal(both.features[0], features[0, [2, 0, 1, 3]])


@pytest.mark.parametrize("beside", [False, True])
def test_a_choice_model_learns_who_competes(beside):
    """Readers who click one item, of the page or of all candidates: the sum over the page is right
    within 3 % for pages that show the best three of five, 5 standard errors of the fit's own noise.
    """
    rng = np.random.default_rng(3)
    n = 6_000
    rankings, level = _pages(n, rng)
    seen = rankings.pool.item if beside else rankings.item
    rate = np.exp(1.2 * level[seen])
    p = rate / (0.5 + rate.sum(axis=1, keepdims=True))
    u = rng.random((n, 1))
    choice = (u > np.cumsum(p, axis=1)).sum(axis=1)
    click = np.zeros((n, 3))
    hit = choice < 3
    click[np.flatnonzero(hit), choice[hit]] = 1.0
    models = fit_choices(rankings, click, np.arange(n) % 5, folds=5)
    best = np.sort(rankings.pool.item, axis=1)[:, ::-1][:, :3]
    q = models[beside].expected(rankings.others(best), np.arange(n) % 5).sum(axis=1).mean()
    rest = np.exp(1.2 * level[rankings.pool.item]).sum(axis=1) if beside else None
    top = np.exp(1.2 * level[best]).sum(axis=1)
    truth = (top / (0.5 + (rest if beside else top))).mean()
    assert q == pytest.approx(truth, rel=0.03)
    wrong = models[not beside].expected(rankings.others(best), np.arange(n) % 5).sum(axis=1).mean()
    assert abs(wrong - truth) > 2 * abs(q - truth)


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


def test_longer_rankings_and_lost_candidates_are_refused():
    rng = np.random.default_rng(0)
    rankings, _ = _pages(40, rng)
    click = (rng.random((40, 3)) < 0.3) * 1.0
    fold = np.arange(40) % 2
    models = fit_choices(rankings, click, fold, folds=2)
    assert all(isinstance(m, ChoiceModel) for m in models)
    longer = Rankings(rankings.pool.item, rankings.x)
    page = fit_pages(rankings, click * (np.arange(3) == 2), fold, folds=2)[0]
    for model in (models[0], page):
        with pytest.raises(EstimatorError, match="was fitted to 3"):
            model.expected(longer, 0)
    with pytest.raises(EstimatorError, match="fitted with candidates"):
        models[1].expected(Rankings(rankings.item, rankings.x), 0)
