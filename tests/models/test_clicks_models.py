"""Fitted click models on worlds whose truth is known: expectations, histories, folds, ragged rows,
bad input.
"""

from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import EstimatorError
from counterrank.data.encoding import Scaling, encoded_features
from counterrank.models.base import ALL, squared_loss
from counterrank.models.clicks.amounts import (
    AmountModel,
    NumberModel,
    family_of,
    fit_list_models,
)
from counterrank.models.clicks.fit import fit_history
from counterrank.models.clicks.likelihood import Family
from counterrank.models.clicks.settings import SETTINGS
from counterrank.models.rankings import Rankings, Variant, rankings_of, variants_for
from counterrank.policies import Candidates, ItemFeatures

ITEMS, K, D = 8, 4, 2
_WORLD = np.random.default_rng(7)
_LEVEL, _SLOPES = _WORLD.normal(-0.7, 0.8, ITEMS), _WORLD.normal(0, 0.5, (ITEMS, D))
_SATISFIES = _WORLD.uniform(0.2, 0.8, ITEMS)


def _attraction(item, x):
    return 1 / (1 + np.exp(-_LEVEL[item] - np.einsum("nd,nkd->nk", x, _SLOPES[item])))


def _chance(behavior, k, last, item, attraction):
    """P(click at k | last click), for behaviours that are functions of the last click."""
    if behavior == "position":
        return attraction[:, k] / (1 + 0.5 * k)
    if behavior == "cascade":
        return attraction[:, k] * (last < 0)
    return attraction[:, k] / (
        1 + 0.3 * (k - np.maximum(last, -1) - 1) + 0.5 * (last >= 0)
    )  # user browsing model


def _draw(behavior, n, rng, tilt=1.0):
    """Rankings by Plackett-Luce on the attraction, clicks, and the true P(click) of each slot."""
    x = rng.normal(size=(n, D))
    score = tilt * (_LEVEL + x @ _SLOPES.T) + rng.gumbel(size=(n, ITEMS))
    item = np.argsort(-score, axis=1)[:, :K]
    attraction = _attraction(item, x)
    click, q = np.zeros((n, K)), np.zeros((n, K))
    if behavior == "dbn":
        alive, looks = np.ones(n), np.ones(n, dtype=bool)
        for k in range(K):
            click[:, k] = looks & (rng.random(n) < attraction[:, k])
            q[:, k] = alive * attraction[:, k]
            satisfied = _SATISFIES[item[:, k]]
            looks &= ~((click[:, k] > 0) & (rng.random(n) < satisfied))
            alive = alive * (1 - attraction[:, k] * satisfied)
        return item, x, click, q
    last, state = np.full(n, -1), np.zeros((n, K + 1))
    state[:, 0] = 1.0
    for k in range(K):
        click[:, k] = rng.random(n) < _chance(behavior, k, last, item, attraction)
        for s in range(k + 1):
            here = state[:, s] * _chance(behavior, k, np.full(n, s - 1), item, attraction)
            q[:, k] += here
            state[:, s] -= here
        state[:, k + 1] = q[:, k]
        last = np.where(click[:, k] > 0, k, last)
    return item, x, click, q


@pytest.mark.parametrize("behavior", ["position", "cascade", "ubm", "dbn"])
def test_expected_clicks_of_other_rankings_are_close_to_the_truth(behavior):
    """Squared error at most twice p v / N, what p free parameters cost at N slots of variance v.

    The error of a right model is at most a chi-square of p degrees in that unit, of relative spread
    sqrt(2 / p) = .2: twice is five spreads off, a false alarm in a million. Shrinkage earns back
    what is slightly outside (DBN).
    """
    n = 5_000
    item, x, click, q = _draw(behavior, n, np.random.default_rng(1))
    model = fit_history(Rankings(item, x), click, np.arange(n) % 2, folds=2, variants=(Variant(),))[
        0
    ]
    item, x, _, q = _draw(behavior, 4_000, np.random.default_rng(2), tilt=-0.5)
    error = ((model.expected(Rankings(item, x), ALL) - q) ** 2).mean()
    parameters = ITEMS * (2 + D) + K * (K + 1) / 2
    assert error < 2 * parameters * (click.mean() * (1 - click.mean())) / click.size
    # The test can fail: the click rates of slots alone are far off.
    assert ((click.mean(axis=0) - q) ** 2).mean() > 4 * error


def test_planted_effects_are_found():
    """Differences of attraction between items within four standard errors (.06 from 40,000 slots,
    at most).
    """
    n = 20_000
    item, x, click, _ = _draw("cascade", n, np.random.default_rng(3))
    model = fit_history(Rankings(item, x), click, np.arange(n) % 2, folds=2, variants=(Variant(),))[
        0
    ]
    shown = Rankings(np.arange(ITEMS)[None, :], np.zeros((1, D)))
    found = model.relevance(shown)[0]
    away = (found - found.mean()) - (_LEVEL - _LEVEL.mean())
    assert np.abs(away).max() < 0.3
    assert np.argsort(found).tolist() == np.argsort(_LEVEL).tolist()


@pytest.fixture(scope="module")
def ragged():
    rng = np.random.default_rng(11)
    n = 600
    item, x, click, _ = _draw("ubm", n, rng)
    lengths = rng.integers(1, K + 1, n)
    pad = np.arange(K) >= lengths[:, None]
    item, click = np.where(pad, -1, item), np.where(pad, 0.0, click)
    rankings = Rankings(item, x, extra=rng.normal(size=(n, K)))
    fold = np.arange(n) % 3
    return rankings, click, fold, fit_history(rankings, click, fold, folds=3)


def test_surprises_sum_to_what_the_model_did_not_expect(ragged):
    rankings, click, fold, models = ragged
    alpha = np.array([1.0, 0.6, -0.3, 2.0])
    for model in models:
        history = model.history(rankings, click, fold, alpha)
        q = model.expected(rankings, fold)
        np.testing.assert_allclose(history.q, q, atol=1e-14)
        np.testing.assert_allclose(
            history.delta.sum(axis=1), (alpha * (click - q)).sum(axis=1), atol=1e-12
        )
        pad = rankings.item < 0
        assert (
            not history.delta[pad].any()
            and not q[pad].any()
            and not model.strength(rankings, fold)[pad].any()
        )
        assert np.isneginf(model.relevance(rankings, fold)[pad]).all()


def test_variants_are_as_asked_and_extra_is_left_out_where_there_is_none(ragged):
    rankings, click, fold, models = ragged
    assert tuple(m.variant for m in models) == variants_for(rankings)
    plain = fit_history(Rankings(rankings.item, rankings.x), click, fold, folds=3)
    assert [m.variant for m in plain] == [Variant(), Variant(competition=True)]
    np.testing.assert_array_equal(plain[0].expected(rankings, 1), models[0].expected(rankings, 1))
    with pytest.raises(EstimatorError, match="extra numbers"):
        next(m for m in models if m.variant.extra).expected(Rankings(rankings.item, rankings.x), 0)


def test_all_scores_and_all_but_the_last_are_tried_and_the_last_is_not_read_by_the_narrower(ragged):
    rankings, click, fold, _ = ragged
    rng = np.random.default_rng(3)
    both = np.stack([rankings.extra[..., 0], rng.normal(size=rankings.item.shape)], axis=2)
    wide = Rankings(rankings.item, rankings.x, extra=both)
    found = fit_history(wide, click, fold, folds=3)
    assert [(m.variant.extra, m.variant.competition) for m in found] == [
        (1, False), (1, True), (2, False), (2, True)
    ]  # fmt: skip
    other = Rankings(rankings.item, rankings.x, extra=both + [0.0, 1.0])
    for model in found:
        same = model.expected(wide, fold) == model.expected(other, fold)
        assert same.all() == (model.variant.extra == 1)
    alone = fit_history(
        Rankings(rankings.item, rankings.x, extra=both[..., :1]), click, fold, folds=3,
        variants=(Variant(extra=1),),
    )[0]  # fmt: skip
    np.testing.assert_allclose(
        found[0].expected(wide, fold), alone.expected(wide, fold), atol=1e-12
    )


def test_the_columns_of_competition_come_from_fits_that_have_not_seen_the_row(ragged):
    """Whatever the clicks of one row are, its strengths stay: only then do they mean the same in rows
    that a fit has seen and in others.
    """
    from counterrank.models.clicks import fit as fitting

    rankings, click, fold, _ = ragged
    felt = []
    plain = fitting.Predictor.competition

    def spied(self, rankings, strength):
        felt.append(strength.copy())
        return plain(self, rankings, strength)

    for row in (None, 0):
        changed = click.copy()
        if row is not None:
            changed[row] = np.where(rankings.item[row] >= 0, 1.0 - changed[row], 0.0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fitting.Predictor, "competition", spied)
            fit_history(rankings, changed, fold, folds=3, variants=(Variant(competition=True),))
    before, after = felt[0], felt[len(felt) // 2]
    own = fold == fold[0]
    # Spreads are those of all rows, so that a changed row moves all fits a little.
    assert np.abs(before[own] - after[own]).max() < 0.2 * np.abs(before[~own] - after[~own]).max()


def test_a_fold_is_not_moved_by_its_own_rows():
    """Parameters of fold 0 are the same, but for the last Newton step's remainder, whatever fold
    0's clicks were.
    """
    n = 600
    item, x, click, _ = _draw("position", n, np.random.default_rng(4))
    fold = np.arange(n) % 3
    other = click.copy()
    other[fold == 0] = 1 - other[fold == 0]
    fits = [
        fit_history(Rankings(item, x), y, fold, folds=3, variants=(Variant(),))[0]
        for y in (click, other)
    ]
    # Spreads come from all rows: hold them equal by comparing where they hardly matter.
    means = [model.expected(Rankings(item, x), 0).mean() for model in fits]
    kept, alls = (
        means[0] - click[fold != 0].mean(),
        [m.expected(Rankings(item, x), ALL).mean() for m in fits],
    )
    assert abs(kept) < 0.02 and abs(means[1] - means[0]) < 0.02
    assert abs(alls[1] - alls[0]) > 0.05


@pytest.mark.parametrize("start", [32_768, 600])
@pytest.mark.parametrize("behavior", ["cascade", "dbn"])
def test_warm_folds_are_where_long_fits_end(behavior, start, monkeypatch):
    """Out-of-fold predictions differ from those of fits to 1e-9 nats by a few percent of what
    leaving a fold out changes: spreads of the two differ a little too. Where a fit starts, on all
    rows or some, does not matter.
    """
    n = 1_000
    monkeypatch.setattr(
        "counterrank.models.clicks.fit.SETTINGS", replace(SETTINGS, start_slots=start)
    )
    item, x, click, _ = _draw(behavior, n, np.random.default_rng(6))
    fold, rankings = np.arange(n) % 4, Rankings(item, x)
    warm = fit_history(rankings, click, fold, folds=4)
    exact = replace(SETTINGS, enough=1e-9, inner=300, start_slots=10**9)
    monkeypatch.setattr("counterrank.models.clicks.fit.SETTINGS", exact)
    long = fit_history(rankings, click, fold, folds=4)
    for one, two in zip(warm, long, strict=True):
        away = one.expected(rankings, fold) - two.expected(rankings, fold)
        effect = two.expected(rankings, fold) - two.expected(rankings, ALL)
        assert (away**2).mean() < 0.1**2 * (effect**2).mean()


def test_the_same_rows_give_the_same_model(ragged):
    rankings, click, fold, models = ragged
    again = fit_history(rankings, click, fold, folds=3)
    for one, two in zip(models, again, strict=True):
        np.testing.assert_array_equal(
            one.predictor.parameters.theta, two.predictor.parameters.theta
        )


def test_items_never_seen_are_predicted_from_what_is_common(ragged):
    rankings, *_, models = ragged
    unseen = rankings.others(
        np.where(rankings.item >= 0, rankings.item + 100, -1)[:, None],
        extra=rankings.extra[:, None],
    )
    q = models[0].expected(unseen, ALL)
    assert np.isfinite(q).all() and (q[rankings.item >= 0] > 0).all()


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_rewards_that_never_vary(level):
    item = np.array([[0, 1], [1, 0], [0, 1], [1, 0]])
    model = fit_history(
        Rankings(item, np.empty((4, 0))), np.full((4, 2), level), np.arange(4) % 2, folds=2
    )[0]
    q = model.expected(Rankings(item, np.empty((4, 0))), np.arange(4) % 2)
    assert np.isfinite(q).all() and (np.abs(q - level) < 0.45).all()


def test_one_item_one_slot_constant_context():
    rng = np.random.default_rng(0)
    click = (rng.random((50, 1)) < 0.3).astype(float)
    rankings = Rankings(np.zeros((50, 1)), np.full((50, 1), 3.0))
    model = fit_history(rankings, click, np.arange(50) % 2, folds=2)[0]
    np.testing.assert_allclose(model.expected(rankings, ALL), click.mean(), atol=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fold": np.zeros(4)}, "one fold"),
        ({"item": np.full((4, 2), -1)}, "there are none"),
    ],
)
def test_bad_input_has_one_clear_error(change, message):
    given = {
        "item": np.array([[0, 1]] * 4),
        "reward": np.ones((4, 2)),
        "fold": np.array([0, 1, 0, 1]),
    } | change
    with pytest.raises(EstimatorError, match=message):
        fit_history(
            Rankings(given["item"], np.empty((4, 0))), given["reward"], given["fold"], folds=2
        )


def test_longer_rankings_than_fitted_are_refused(ragged):
    rankings, *_, models = ragged
    wide = Rankings(np.arange(K + 2)[None, :], np.zeros((1, D)))
    with pytest.raises(EstimatorError, match="cut the rankings"):
        models[0].expected(wide, ALL)
    assert models[0].strength(wide, ALL).shape == (1, K + 2)


def test_features_speak_for_items_with_few_rows():
    """300 items, 400 rankings: with a feature that explains the attraction the error falls by half
    or more.
    """
    rng = np.random.default_rng(5)
    n, items = 400, 300
    z = rng.normal(size=items)
    item = rng.permuted(np.tile(np.arange(items), (n, 1)), axis=1)[:, :K]
    q = 1 / (1 + np.exp(0.5 - 1.2 * z[item]))
    click = (rng.random((n, K)) < q).astype(float)
    fold = np.arange(n) % 2

    def lookup(ids):
        return z[ids][..., None]

    with_it = Rankings(item, np.empty((n, 0)), features=z[item][..., None], lookup=lookup)
    error = []
    for rankings in (with_it, Rankings(item, np.empty((n, 0)))):
        model = fit_history(rankings, click, fold, folds=2, variants=(Variant(),))[0]
        error.append(((model.expected(rankings, fold) - q) ** 2).mean())
    assert error[0] < 0.5 * error[1]
    others = with_it.others(item[::-1])
    np.testing.assert_allclose(others.features[0, :, 0], z[item[-1]])


def test_kinds_of_rewards():
    shown = np.ones((1, 4), dtype=bool)
    assert family_of(np.array([[0.0, 1, 1, 0]]), shown) is Family.CLICKS
    assert family_of(np.array([[0.0, 3.2, 0, 1]]), shown) is Family.GAMMA
    assert family_of(np.array([[-1.0, 3.2, 0, 1]]), shown) is Family.NORMAL
    assert family_of(np.array([[2.0, 3.2, 5, 1]]), shown) is Family.NORMAL


def test_amounts_are_clicks_times_means():
    """Lognormal amounts by item, factor e^(.6 z) and log-sd 1: item means within 35 % (4 standard
    errors of .08).
    """
    rng = np.random.default_rng(8)
    n = 6_000
    item, x, click, q = _draw("cascade", n, rng)
    level = np.linspace(-0.6, 0.6, ITEMS)
    reward = click * 20 * np.exp(level[item] + rng.normal(size=(n, K)) - 0.5)
    fold = np.arange(n) % 2
    rankings = Rankings(item, x)
    model = fit_list_models(rankings, reward, fold, folds=2, variants=(Variant(),))[0]
    assert isinstance(model, AmountModel)
    truth = q * 20 * np.exp(level[item])
    found = model.expected(rankings, fold)
    assert found.mean() == pytest.approx(truth.mean(), rel=0.1)
    by_item = np.bincount(item.ravel(), found.ravel()) / np.bincount(item.ravel(), truth.ravel())
    assert np.abs(by_item - 1).max() < 0.35
    history = model.history(rankings, reward, fold, np.array([1.0, 0.5, 0.5, 0.25]))
    wanted = ((reward - found) * np.array([1.0, 0.5, 0.5, 0.25])).sum(axis=1)
    np.testing.assert_allclose(history.delta.sum(axis=1), wanted, atol=1e-9)
    assert (
        np.isfinite(model.relevance(rankings)).all() and (model.strength(rankings, ALL) > 0).all()
    )


def test_numbers_are_fitted_in_any_unit():
    rng = np.random.default_rng(9)
    n = 3_000
    item, x, _, _ = _draw("position", n, rng)
    truth = 5 + _LEVEL[item] + 0.5 * x[:, :1] - 0.3 * np.arange(K)
    fold = np.arange(n) % 2
    rankings = Rankings(item, x)
    q = []
    for unit in (1.0, 1e4):
        reward = unit * (truth + np.random.default_rng(1).normal(size=(n, K)))
        model = fit_list_models(rankings, reward, fold, folds=2, variants=(Variant(),))[0]
        assert isinstance(model, NumberModel)
        q.append(model.expected(rankings, fold) / unit)
        history = model.history(rankings, reward, fold)
        np.testing.assert_allclose(history.delta, reward - unit * q[-1], atol=1e-9 * unit)
        assert squared_loss(model, rankings, reward, fold).shape == (n,)
    np.testing.assert_allclose(q[0], q[1], rtol=1e-9)
    # At most K + items (1 + d) + 1 + d parameters of noise variance 1.
    assert ((q[0] - truth) ** 2).mean() < 2 * (K + (ITEMS + 1) * (1 + D)) / (n * K / 2)


def test_constant_numbers():
    item = np.array([[0, 1]] * 6)
    model = fit_list_models(
        Rankings(item, np.empty((6, 0))), np.full((6, 2), 7.0), np.arange(6) % 2, folds=2
    )[0]
    np.testing.assert_allclose(
        model.expected(Rankings(item, np.empty((6, 0))), ALL), 7.0, atol=1e-6
    )


def test_many_labels_share_columns_and_missing_is_the_mean():
    labels = tuple(str(i) for i in range(300))
    out = encoded_features(np.array([[5.0], [6.0], [np.nan]]), ("shop",), {"shop": labels})
    assert out.shape == (3, 20) and (out.sum(axis=1) == [1, 1, 0]).all()
    scaled = Scaling.fitted(np.array([[1.0, 4.0], [3.0, 4.0], [np.nan, 4.0]])).apply(
        np.array([[np.nan, 4.0], [3.0, 9.0]])
    )
    np.testing.assert_allclose(scaled, [[0, 0], [1, 0]])


def test_evaluation_in_parts_changes_nothing(ragged, monkeypatch):
    rankings, click, fold, models = ragged
    whole = [model.history(rankings, click, fold) for model in models]
    for model, wanted in zip(models, whole, strict=True):
        # Nothing that the models share on the same rankings changes what each of them says.
        alone = model.history(replace(rankings), click, fold)
        np.testing.assert_array_equal(alone.delta, wanted.delta)
        np.testing.assert_array_equal(alone.q, model.expected(rankings, fold))
    monkeypatch.setattr("counterrank.models.rankings.PART", 7)
    again = replace(rankings)
    for model, wanted in zip(models, whole, strict=True):
        np.testing.assert_array_equal(model.history(again, click, fold).delta, wanted.delta)
    places = [(rows, part.m) for rows, part in again.parts()]
    assert sum(m for _, m in places) == again.m and places[1] == (slice(7, 14), 7)


def test_a_log_with_candidates_and_features_is_read_whole():
    """Candidate and item features of shown and of other items; categories become indicators; ragged
    rows.
    """
    log = cr.RankingLog(
        action=[[2, 0], [1, -1]],
        reward=[[1, 0], [0, 0]],
        propensity=[[0.5, 0.5], [0.5, np.nan]],
        candidates=Candidates.from_lists(
            [[0, 1, 2], [1, 2]], features={"z_price": [[5.0, 6.0, 7.0], [8.0, 9.0]]}
        ),
        item_features=ItemFeatures(
            np.array([[0.0], [1.0], [2.0]]), ("shop",), {"shop": ("a", "b", "c")}
        ),
    )
    rankings = rankings_of(log)
    np.testing.assert_array_equal(rankings.features[0], [[7, 0, 1], [5, 0, 0]])
    np.testing.assert_array_equal(rankings.features[1, 0], [8, 1, 0])
    others = rankings.others([[[1, 2]], [[2, 1]]])
    np.testing.assert_array_equal(others.features[:, :, 0], [[6, 7], [9, 8]])
    assert others.row.tolist() == [0, 1] and rankings.lengths.tolist() == [2, 1]


def test_ten_thousand_items_cost_what_is_shown():
    """Parameters grow with the items seen, not with the catalogue; ids beyond what was seen are
    common ground.
    """
    rng = np.random.default_rng(12)
    n = 300
    item = rng.choice(10_000, (n, 3), replace=True)
    click = (rng.random((n, 3)) < 0.3).astype(float)
    rankings = Rankings(item, rng.normal(size=(n, 2)))
    model = fit_history(rankings, click, np.arange(n) % 2, folds=2)[-1]
    assert model.details["items"] == len(np.unique(item))
    q = model.expected(rankings.others(rng.choice(20_000, (n, 2, 3))), ALL)
    assert q.mean() == pytest.approx(click.mean(), rel=0.2)


def test_huge_ids_are_as_good_as_small_ones(ragged):
    rankings, click, fold, models = ragged
    far = np.where(rankings.item >= 0, rankings.item * 10**12 + 7, -1)
    same = fit_history(Rankings(far, rankings.x), click, fold, folds=3, variants=(Variant(),))[0]
    huge = Rankings(np.where(far == 7, 9, far), rankings.x)  # item 0 is now one that was never seen
    np.testing.assert_array_equal(
        same.expected(Rankings(far, rankings.x), 1), models[0].expected(rankings, 1)
    )
    unseen = rankings.others(np.where(rankings.item == 0, 99, rankings.item))
    np.testing.assert_array_equal(same.expected(huge, 1), models[0].expected(unseen, 1))


def test_long_pages_and_few_rows():
    rng = np.random.default_rng(13)
    n, long = 30, 40
    item = rng.permuted(np.tile(np.arange(60), (n, 1)), axis=1)[:, :long]
    click = (rng.random((n, long)) < 0.1).astype(float)
    rankings = Rankings(item, np.empty((n, 0)))
    for model in fit_history(rankings, click, np.arange(n) % 2, folds=2):
        q = model.expected(rankings, ALL)
        assert np.isfinite(q).all() and q.mean() == pytest.approx(click.mean(), rel=0.3)


def test_relevance_may_bend_with_the_context():
    """Squares of standardised columns, cut at 9; the square of an indicator would be the indicator."""
    rng = np.random.default_rng(11)
    n = 3000
    x = np.column_stack([rng.normal(5.0, 2.0, n), rng.integers(0, 2, n).astype(float)])
    item = np.argsort(rng.random((n, 4)), axis=1)
    z = (x[:, :1] - x[:, 0].mean()) / x[:, 0].std()
    logit = np.where(item == 0, 1.5 * (z**2 - 1), -1.5 * (z**2 - 1)) - 0.5
    click = (rng.random(item.shape) < 1 / (1 + np.exp(-logit))).astype(float)
    fold = np.arange(n) % 3
    straight, crossed = (
        fit_history(
            Rankings(item, x, nonlinear=context_slopes), click, fold, folds=3, variants=(Variant(),)
        )[0]
        for context_slopes in (False, True)
    )
    encoding = crossed.predictor.encoding
    assert encoding.squared.tolist() == [0] and not len(straight.predictor.encoding.squared)
    wanted = (np.minimum(z[:, 0] ** 2, 9.0) - 1) / np.sqrt(2)
    np.testing.assert_allclose(encoding.context_of(x)[:, 2], wanted, atol=1e-12)
    np.testing.assert_allclose(
        encoding.linear_context(encoding.context_of(x)), encoding.context.apply(x)
    )
    losses = [
        squared_loss(model, Rankings(item, x), click, fold).sum() for model in (straight, crossed)
    ]
    assert losses[1] < 0.85 * losses[0]


def test_nothing_is_below_the_last_slot_to_the_last_digit():
    """A difference of sums leaves 5e-17, which trees tell from zero."""
    from counterrank.models.clicks.competition import rivalry

    found = rivalry(np.array([[0.1, 0.2, 0.3]]), np.array([3]))
    assert found[0, :, 3].tolist() == [0.5, 0.3, 0.0]


def test_trust_that_falls_with_the_place_adds_to_the_log_odds():
    """Clicks by log odds less .8 log(place): a chance of being seen, which multiplies, is not enough.

    One seed; without the column the error of the chances is .079, with it .008.
    """
    rng = np.random.default_rng(3)
    n, K, items = 6_000, 6, 12
    liking = rng.normal(size=items) * 1.5 + 1.0
    item = np.argsort(rng.random((n, items)), axis=1)[:, :K]
    chance = 1 / (1 + np.exp(-liking[item] + 0.8 * np.log(np.arange(1, K + 1))))
    click = (rng.random((n, K)) < chance).astype(float)
    fold = rng.integers(3, size=n)
    plain, placed = (
        fit_history(
            Rankings(item, np.empty((n, 0)), nonlinear=context_slopes),
            click,
            fold,
            folds=3,
            variants=(Variant(),),
        )[0]
        for context_slopes in (False, True)
    )
    errors = [
        np.sqrt(
            np.mean(
                (
                    model.expected(Rankings(item, np.empty((n, 0)), nonlinear=context_slopes), fold)
                    - chance
                )
                ** 2
            )
        )
        for context_slopes, model in ((False, plain), (True, placed))
    ]

    assert errors[1] < 0.3 * errors[0]
