"""The levels of the ridge, their empirical Bayes, groups of requests, and the doubt of a target."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.encoding import ContextMoments
from counterrank.data.source import MemorySource
from counterrank.models import fit_linear, ridge, train
from counterrank.models.columns import (
    Grouping,
    Layout,
    columns_of,
    count_slots,
    indicators,
    logged_values,
    pair_slots,
)
from counterrank.models.doubt import column_change, doubt
from counterrank.models.grams import grams_of
from counterrank.models.groups import cuts_of, grouping_of
from counterrank.models.ridge import (
    LEVELS,
    PLAIN,
    Posterior,
    Ridge,
    apart,
    collected,
    departure,
    fit_levels,
    fit_ridge,
    kinds_of,
    shrinkage,
    spread_out,
)
from counterrank.models.settings import LEAST_SHARE

K, A, D = 3, 2, 2


def log_of(n=400, *, seed=0, groups=True, noise=0.3):
    """Requests below and above zero in their second column differ in what a neighbour does."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, D))
    p0 = rng.dirichlet(np.full(A, 4.0), n)
    p1 = rng.dirichlet(np.full(A, 1.0), n)
    action = (rng.random((n, K)) > p0[:, :1]).astype(np.int64)
    above = np.cumsum(action, axis=1) - action
    effect = np.where(x[:, 1:] > 0, 0.8, -0.8) if groups else 0.3
    reward = 1.0 + action + effect * above + noise * rng.standard_normal((n, K))
    shown = {
        name: cr.Propensity("factored", p[np.arange(n)[:, None], action])
        for name, p in (("propensity", p0), ("new", p1))
    }
    return cr.RankingLog(
        action=action, reward=reward, propensity=shown["propensity"], context=x,
        targets={"new": shown["new"]}, dists={"propensity": p0, "new": p1},
    )  # fmt: skip


def layout_for(log, *, slots=None, groups=None):
    moments = ContextMoments.from_batch(log).mean_and_spread
    slots = pair_slots(K) if slots is None else slots
    options = {"cross": True, "squares": 1, "curved": True, "groups": groups}
    return Layout(K, A, 2, slots, *moments, **options)


TWO = Grouping(1, np.array([0.0]))
#: Levels as they are, and without products where that is another level.
EVERY = tuple(dict.fromkeys([*LEVELS, *PLAIN, *apart(LEVELS)]))


def naive_columns(layout, level, log):
    """Columns z of every shown slot, and its cell, from loops: (n K, p), (n K, 3)."""
    given, rows, cells = layout.arrays(log), [], []
    columns = np.empty((layout.width, log.n))
    first, shown = layout.starts[3], indicators(log.action, A)
    names = ("intercept", "context", "curves", "cross", "products", "neighbours")
    neighbours = 2 * A if level.counts else layout.blocks * A
    ends = np.cumsum([0, 1, D, 3, D * A, 3, neighbours])
    for k in columns_of(layout, given, shown, range(K), columns):
        z = columns.T.copy()
        kept = np.concatenate([np.arange(*ends[names.index(n) :][:2]) for n in level.kinds])
        if level.counts:
            above, below = (shown[side].sum(axis=0).T for side in (slice(0, k), slice(k + 1, K)))
            z = np.concatenate([z[:, :first], above, below], axis=1)
        rows.append(z[:, kept])
        group = layout.groups.assign(given.x)
        cells += [
            (b if level.group else 0, k if level.position else 0, u if level.action else 0)
            for b, u in zip(group, log.action[:, k], strict=True)
        ]
    return np.concatenate(rows), np.array(cells)


@pytest.mark.parametrize("level", EVERY, ids=lambda level: f"{level.name}-{len(level.kinds)}")
@pytest.mark.parametrize("slots", [pair_slots(K), count_slots(K)], ids=["pairs", "counts"])
def test_a_level_is_a_ridge_of_each_cell_on_the_rows_of_other_folds(level, slots):
    log = log_of(160)
    layout = layout_for(log, slots=slots, groups=TWO)
    grams = grams_of(log, layout)
    coef = np.zeros((2, layout.B, K, A, layout.width))
    fitted, change, posterior = departure(layout, level, grams.gram, grams.cover, coef, 0.1)
    z, cells = naive_columns(layout, level, log)
    r, fold = log.reward.T.ravel(), np.tile(log.bucket % 2, K)
    predicted = np.empty(len(r))
    for cell in np.unique(cells, axis=0):
        at = (cells == cell).all(axis=1)
        for f in (0, 1):
            rest = at & (fold != f)
            gram = z[rest].T @ z[rest] + np.diag(posterior.penalty)
            beta = np.linalg.solve(gram, z[rest].T @ r[rest])
            predicted[at & (fold == f)] = z[at & (fold == f)] @ beta
    given = layout.arrays(log)
    found = logged_values(layout, given, fitted.reshape(-1, K, A, layout.width))
    np.testing.assert_allclose(found.T.ravel(), predicted, atol=1e-8)
    # The share of the level with the least loss on unseen rows, by position or for all together.
    for k in range(K):
        at = slice(k * log.n, (k + 1) * log.n) if level.position else slice(None)
        nearby = np.clip(posterior.share[k] + np.array([0.0, -0.01, 0.01]), 0.0, 1.0)
        losses = [((r[at] - share * predicted[at]) ** 2).sum() for share in nearby]
        assert losses[0] == min(losses)
    share = np.repeat(posterior.share, log.n)
    lost = ((r - share * predicted) ** 2).sum() - (r**2).sum()
    assert change.sum() == pytest.approx(lost, abs=1e-8)


@pytest.mark.parametrize("level", EVERY, ids=lambda level: f"{level.name}-{len(level.kinds)}")
def test_collecting_and_spreading_are_transposes(level):
    layout = layout_for(log_of(50), groups=TWO)
    rng = np.random.default_rng(1)
    values = rng.standard_normal((2, layout.B, K, A, layout.width))
    inside = collected(layout, level, values)
    small = rng.standard_normal(inside.shape)
    assert (inside * small).sum() == pytest.approx(
        (values * spread_out(layout, level, small, values.shape)).sum(), rel=1e-12
    )
    assert inside.shape[-1] == len(kinds_of(layout, level))


def test_shrinkage_finds_the_spread_of_effects():
    """500 cells of 60 rows; seeds change penalties by 10 %: 30 % is a false alarm in 1 of 300."""
    rng, spread, noise = np.random.default_rng(2), np.array([1.0, 0.2]), 0.5
    cells, rows, kinds = 500, 60, np.array([0, 1, 1])
    z = rng.standard_normal((cells, rows, 3))
    beta = rng.standard_normal((cells, 3)) * spread[kinds]
    r = np.einsum("crp,cp->cr", z, beta) + np.sqrt(noise) * rng.standard_normal((cells, rows))
    gram, right = z.swapaxes(1, 2) @ z, np.einsum("crp,cr->cp", z, r)
    found = []
    for part in np.array_split(np.arange(cells), 20):
        found.append(shrinkage(gram[part], right[part], kinds, noise))
    np.testing.assert_allclose(
        np.exp(np.log(found).mean(axis=0)), noise / spread[kinds] ** 2, rtol=0.3
    )
    nothing = shrinkage(gram, right * 1e-6, kinds, noise)
    assert (nothing > 1e4).all()


def test_the_groups_are_those_of_the_column_that_matters():
    log = log_of(1500)
    layout = layout_for(log)
    grouping = grouping_of(log, layout)
    assert grouping.column == 1 and grouping.count == 3
    x = layout.requests(log.context)
    sizes = np.bincount(grouping.assign(x))
    np.testing.assert_allclose(sizes / 1500, 1 / 3, atol=0.01)
    assert cuts_of(np.array([0.0] * 30 + [1.0] * 400)).size == 0


def test_effects_by_group_predict_the_other_rows_better():
    log = log_of(2000)
    whole = train(MemorySource(log, threads=1))
    assert any("group" in level for level in fit_linear(whole).details["levels"])
    alone = replace(
        whole,
        layout=replace(whole.layout, groups=None),
        grams=grams_of(log, replace(whole.layout, groups=None)),
    )
    by_group, common = (fit_linear(each).details["out_of_fold_mse"] for each in (whole, alone))
    # The noise has variance 0.09.
    assert by_group < 0.8 * common and by_group > 0.085


@pytest.mark.parametrize(("scale", "separate"), [(1.0, True), (0.0, False)])
def test_groups_with_little_in_common_are_fitted_each_on_its_own(scale, separate):
    """Effects that differ are shrunk once; those that all groups share are fitted to all rows."""
    rng = np.random.default_rng(2)
    log = log_of(1_000, groups=False)
    group = np.digitize(log.context[:, 1], [-0.43, 0.43])
    shared, departure = rng.normal(size=(K, K, A, A)), rng.normal(size=(3, K, K, A, A))
    effect = (1.0 - scale) * shared + scale * departure
    for k in range(K):
        for other in range(K):
            if other != k:
                shown = group, k, other, log.action[:, k], log.action[:, other]
                log.reward[:, k] += effect[shown]
    training = train(MemorySource(log, threads=1))
    departures, alone = (fit_levels(training, c) for c in (PLAIN, apart(PLAIN)))
    assert (alone.loss.sum() < departures.loss.sum()) is np.bool_(separate)
    fitted = fit_ridge(training)
    assert fitted.loss.sum() <= 1.001 * min(departures.loss.sum(), alone.loss.sum())
    assert all(posterior.level.group for posterior in fitted.posteriors) is separate


def test_where_nobody_differs_groups_cost_nothing():
    log = log_of(2000, groups=False)
    model = fit_linear(train(MemorySource(log, threads=1)))
    assert model.details["out_of_fold_mse"] == pytest.approx(0.09, rel=0.05)


def test_knowing_the_logger_leaves_the_models_as_they_are():
    """No column depends on the logger, so that its distribution cannot make a model worse."""
    log = log_of(600)
    blind = log.changed(dists={"new": log.distribution("new")})
    known, unknown = (fit_linear(train(MemorySource(each, threads=1))) for each in (log, blind))
    np.testing.assert_array_equal(known.coef, unknown.coef)
    fold = log.bucket % known.folds
    np.testing.assert_array_equal(
        known.mean_under(log, "new", fold), unknown.mean_under(blind, "new", fold)
    )


def test_the_columns_of_a_target_are_means_over_its_rankings():
    log = log_of(40)
    layout = layout_for(log, groups=TWO)
    found = column_change(layout, log, "new")
    rankings = np.stack(np.meshgrid(*[np.arange(A)] * K, indexing="ij"), axis=-1).reshape(-1, K)
    twin, p1 = np.zeros(found.shape), log.distribution("new")
    columns = np.empty((layout.width, log.n))
    for ranking in [None, *rankings]:
        shown = log.action if ranking is None else np.tile(ranking, (log.n, 1))
        weight = -np.ones(log.n) if ranking is None else p1[:, ranking].prod(axis=1)
        given = layout.arrays(log)._replace(action=shown)
        group = layout.groups.assign(given.x)
        for k in columns_of(layout, given, indicators(shown, A), range(K), columns):
            for i in range(log.n):
                twin[group[i], k, shown[i, k]] += weight[i] * columns[:, i] / log.n
    np.testing.assert_allclose(found, twin, atol=1e-12)


def test_the_doubt_is_the_spread_of_the_target_under_the_posterior():
    """10,000 draws: the variance is known to 1.4 %, and 7 % is a false alarm in 2 of a million."""
    log = log_of(300)
    layout = layout_for(log, groups=TWO)
    level = LEVELS[-1]
    gram = collected(layout, level, grams_of(log, layout).gram, matrix=True).sum(axis=0)
    penalty = np.linspace(1.0, 30.0, gram.shape[-1])
    share = np.array([1.0, 0.0, 0.5])
    posterior = Posterior(level, gram, penalty, 0.2, share)
    rng, covariance = np.random.default_rng(3), np.linalg.inv(gram + np.diag(penalty)) * 0.2
    factor = np.linalg.cholesky(covariance)
    beta = (factor @ rng.standard_normal((10_000, *gram.shape[:-1], 1)))[..., 0]
    raw = spread_out(layout, level, beta, (10_000, layout.B, K, A, layout.width))
    change = column_change(layout, log, "new") * log.position_weights[:, None, None]
    values = (raw * change * share[:, None, None]).sum(axis=(1, 2, 3, 4))
    assert doubt(layout, (posterior,), log, "new") == pytest.approx(values.var(), rel=0.07)
    assert doubt(layout, (posterior, posterior), log, "new") == pytest.approx(
        2 * posterior.variance(layout, change)
    )


def test_the_doubt_does_not_count_what_other_levels_explain_as_noise():
    """Positions of different means say nothing of other items: their intercepts are a level of their own."""
    log = log_of(2_000)
    shifted = replace(log, reward=log.reward + np.array([0.0, 10.0, 20.0]))
    plain, raised = (
        fit_linear(train(MemorySource(each))).doubt(each, "new") for each in (log, shifted)
    )
    assert raised < 2.0 * plain


def test_products_of_counts_enter_by_the_likelihood_of_unseen_rows():
    rng = np.random.default_rng(3)
    log = replace(log_of(1_500, seed=5, groups=False), context=rng.standard_normal((1_500, D)))
    items = log.action.sum(axis=1, keepdims=True)
    for effect, products in ((0.0, False), (2.0, True)):
        training = train(
            MemorySource(replace(log, reward=log.reward + effect * items * (items - 1)))
        )
        ridge, plain, full = (
            fit_ridge(training),
            *(fit_levels(training, x) for x in (PLAIN, LEVELS)),
        )
        assert (plain.loss.sum() > full.loss.sum()) is np.bool_(products)
        losses = np.array([plain.loss.sum(), full.loss.sum()])
        likely = np.exp(-(losses - losses.min()) / (2 * losses.min() / ridge.size.sum()))
        kept = np.maximum(likely / likely.sum() - LEAST_SHARE, 0.0)
        share = kept / kept.sum()
        assert ridge.loss.sum() == pytest.approx(share @ losses, rel=1e-9)
        np.testing.assert_allclose(
            ridge.coef, share[0] * plain.coef + share[1] * full.coef, rtol=1e-5
        )
        assert share[1] > 0.99 if products else share[1] < 0.2
        doubts = [sum((p.share**2).sum() for p in fit.posteriors) for fit in (ridge, plain, full)]
        assert doubts[0] == pytest.approx(share @ doubts[1:], rel=1e-6)


def test_fits_come_and_go_without_a_jump(monkeypatch):
    """At the least share a fit counts nothing, and neither do groups on their own beside it."""
    # The noise is 1: products of counts have the least share, and a billionth more or less of it.
    loss = 1.0 - 2.0 * np.log(LEAST_SHARE / (1.0 - LEAST_SHARE)) + np.array([1e-9, -1e-9])
    training = SimpleNamespace(layout=SimpleNamespace(B=2, squares=1))
    one, coef = np.ones(1), []
    for products in loss:
        fits = {
            PLAIN: (1.0, 0.0),
            LEVELS: (products, 1.0),
            apart(PLAIN): (99.0, 2.0),
            apart(LEVELS): (1.0, 3.0),
        }
        made = {
            levels: Ridge(value * one, least * one, one, ())
            for levels, (least, value) in fits.items()
        }
        monkeypatch.setattr(ridge, "fit_levels", lambda _, levels, made=made: made[tuple(levels)])
        coef.append(float(fit_ridge(training).coef[0]))
    assert coef[0] == 0.0 and 0.0 <= coef[1] < 1e-5


def test_another_noise_keeps_the_prior_of_a_level():
    posterior = Posterior(LEVELS[0], np.eye(2), np.array([4.0, 8.0]), 2.0, np.ones(K))
    other = posterior.with_noise(0.5)
    assert other.noise == 0.5
    np.testing.assert_allclose(other.noise / other.penalty, posterior.noise / posterior.penalty)


def test_rewards_without_noise_leave_a_doubt_of_columns_that_are_the_same():
    """The second item follows from the first, so that sums over rows cannot tell their columns apart."""
    log = replace(log_of(200), reward=np.ones((200, K)))
    value = fit_linear(train(MemorySource(log))).doubt(log, "new")
    assert 0.0 <= value < 1e-3
    same = Posterior(LEVELS[0], np.ones((1, 1, 1, 2, 2)), np.ones(2), 2.0, np.ones(K))
    assert np.all(same.with_noise(0.0).penalty > 0.0) and same.with_noise(0.0).noise > 0.0


def test_what_the_logger_never_shows_has_the_doubt_of_the_prior():
    """Item 1 was never logged at the last position: its effect there has the variance between cells."""
    log = log_of(300)
    layout = layout_for(log, groups=TWO)
    level = LEVELS[3]  # position and action
    gram = collected(layout, level, grams_of(log, layout).gram, matrix=True).sum(axis=0)
    gram[:, 2, 1] = 0.0
    penalty = np.full(gram.shape[-1], 4.0)
    change = np.zeros((layout.B, K, A, layout.width))
    change[:, 2, 1, 0] = 0.25  # intercepts of both groups: a change of a half in all
    posterior = Posterior(level, gram, penalty, 0.6, np.ones(K))
    assert posterior.variance(layout, change) == pytest.approx(0.25 * 0.6 / 4.0)
