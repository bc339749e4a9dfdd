"""`auto` on rankings without repeats: covers, streams, and takes ragged rankings, units and
segments.
"""

from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import View, Workspace
from counterrank.estimators.auto.nuisances import fit_aimed
from counterrank.estimators.crossfit import logged_rankings, scores, shares_of
from counterrank.models import paired_draws, target_draws
from counterrank.research.simulate import World, true_value

WORLD = World(seed=5, behavior="dbn", K=4, items=10)


@pytest.fixture(scope="module")
def log():
    return WORLD.log(600, 0)


def test_covers_and_beats_the_best_plain_estimator():
    """12 logs. If coverage is .95, 8 or fewer hits have probability 2e-4; the seeds are fixed."""
    truth = true_value(WORLD).value
    hits, errors = 0, {"auto": [], "ips": [], "iips": [], "rips": []}
    for seed in range(12):
        part = WORLD.log(600, seed)
        for estimator in (cr.Auto(), cr.IPS(), cr.IIPS(), cr.RIPS()):
            found = estimator.estimate(part, "new")
            errors[found.estimator].append(found.value - truth)
            hits += estimator.name == "auto" and found.low <= truth <= found.high
    assert hits >= 9
    mse = {name: np.mean(np.square(values)) for name, values in errors.items()}
    assert mse["auto"] < 0.7 * min(mse[name] for name in ("ips", "iips", "rips"))


def test_pieces_of_the_log_agree(log):
    """Drawn rankings of the target hang on the row, not on the piece it is in."""
    found = []
    for size in (600, 150):
        workspace = Workspace(MemorySource(log, threads=1), "new")
        fit = cr.Auto().fit(workspace)
        states = [fit.sums(part) for part in log.chunks(size)]
        found.append(fit.estimate(sum(states[1:], start=states[0])))
    assert found[0].value == pytest.approx(found[1].value, rel=1e-9)
    assert found[0].stderr == pytest.approx(found[1].stderr, rel=1e-9)
    inflation = [[m["tail_inflation"] for m in one.details["members"]] for one in found]
    np.testing.assert_allclose(inflation[0], inflation[1], rtol=1e-9)


def test_draws_of_the_target_hang_on_the_row(log):
    whole = target_draws(log, "new", 3, seed=4)
    pieces = [target_draws(part, "new", 3, seed=4) for part in log.chunks(70)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    rows = np.array([5, 250, 17])
    np.testing.assert_array_equal(target_draws(log.take(rows), "new", 3, seed=4), whole[rows])
    assert (target_draws(log, "new", 3, seed=5) != whole).any()


def test_a_target_without_context_is_drawn_anew_for_each_row():
    """One row of scores stands for all rows of the log, but not one draw."""
    log = World(seed=2, K=3, items=6).log(400, 0)
    same = log.with_targets({"flat": cr.PlackettLuce(np.zeros((1, 6)))})
    drawn = target_draws(same, "flat", 1, seed=0)
    assert np.bincount(drawn[:, 0, 0], minlength=6).min() > 40
    pieces = [target_draws(part, "flat", 1, seed=0) for part in same.chunks(90)]
    np.testing.assert_array_equal(np.concatenate(pieces), drawn)


def test_the_seed_decides(log):
    one, two, other = (cr.Auto().estimate(log, "new", seed=seed) for seed in (1, 1, 2))
    assert one.value == two.value and one.stderr == two.stderr
    assert one.value != other.value


def test_ragged_rankings_units_and_segments(log):
    rng = np.random.default_rng(1)
    short = rng.random(log.n) < 0.3
    action, reward = log.action.copy(), log.reward.copy()
    action[short, -1], reward[short, -1] = -1, 0.0
    part = cr.RankingLog(
        action=action, reward=reward, propensity=log.propensity, targets=log.targets, context=log.context,
        unit=np.arange(log.n) // 2, columns={"device": np.where(rng.random(log.n) < 0.1, "tv", "phone")},
        position_weights=[1.0, 0.8, 0.6, 0.4],
    )  # fmt: skip
    result = cr.evaluate(part, estimators=["auto"], segments=["device"], audit=False)
    found = result.estimate("new", "auto")
    assert np.isfinite([found.value, found.stderr, found.low, found.high]).all()
    weighted = np.array([p.value for p in found.by_position]) @ part.position_weights
    assert weighted == pytest.approx(found.value, rel=1e-9)
    assert found.flags and found.allowance > 0


def test_numbers_above_with_a_target_to_draw_from(log):
    """Prefix numbers of the logger and a whole target: prefix weights, cut, then whole rankings."""
    cumulative = log.propensity.prefix_log_prob(log.action)
    numbers = np.exp(np.diff(cumulative, axis=1, prepend=0.0))
    part = cr.RankingLog(
        action=log.action, reward=log.reward, propensity=cr.Propensity("prefix", numbers), targets=log.targets,
        context=log.context,
    )  # fmt: skip
    found = cr.Auto().estimate(part, "new")
    assert [m["member"] for m in found.details["members"]] == ["models", "rips", "ips"]
    assert found.estimable and found.flags[0].startswith("drawn-mean")
    assert abs(found.value - cr.Auto().estimate(log, "new").value) < 4 * found.stderr


def test_models_count_as_they_predict_unseen_clicks():
    """Where users share their attention, models without competition are told apart, and left."""
    log = World(seed=8, behavior="attention", K=5, items=10).log(4000, 0)
    workspace = Workspace(MemorySource(log, threads=1), "new")
    found = fit_aimed(workspace)
    assert [one["share"] for one in found.details["models"]] == found.shares.tolist()
    competition = np.array([model.variant.competition for model in found.models])
    assert found.shares.sum() == pytest.approx(1.0) and found.shares[competition].sum() > 0.9
    look = found.predict(View(log.take(slice(0, 50)), "new"))
    total = (look.mean + look.delta).sum(axis=1)
    np.testing.assert_allclose(total, found.shares @ look.totals, atol=1e-12)


def test_the_change_is_between_rankings_of_both_policies(log):
    """By hand: what models expect of the shown page, and their means over two rankings of each policy."""
    found = fit_aimed(Workspace(MemorySource(log, threads=1), "new"))
    assert found.draws == 4
    logged, fold = logged_rankings(log, "new"), np.repeat(log.bucket % found.folds, 2)
    look = found.predict(View(log, "new"))
    means = []
    for policy in (log.target("new"), log.propensity):
        pages = paired_draws(log, policy, 4, 0)[:, :2]
        asked = logged.others(pages, extra=scores(log, "new", pages))
        each = [
            s * m.expected(asked, fold) for s, m in zip(found.shares, found.models, strict=True)
        ]
        means.append(sum(each).reshape(log.n, 2, log.K).mean(axis=1))
    np.testing.assert_allclose(look.mean, look.q + means[0] - means[1], atol=1e-12)


def test_a_target_like_the_logger_changes_nothing(log):
    same = cr.Auto().estimate(log.with_targets({"same": log.propensity}), "same")
    assert same.lift.value == pytest.approx(0.0, abs=1e-12)
    assert same.value == pytest.approx(log.value, abs=1e-12)


def test_folds_are_compared_on_rankings_that_were_drawn(log):
    """As if rows and their draws had been taken anew, by the models that count."""
    found = fit_aimed(Workspace(MemorySource(log, threads=1), "new"))
    found = replace(found, shares=np.array([0.5, 0.4995, 0.0005, 0.0]))
    view, rows = View(log, "new"), np.array([3, 4, 90, 311])
    whole = found.predict(view)
    part, fresh = found.compared(view, rows), View(log.take(rows), "new")
    assert found.draws > found.fold_draws > 1 and len(whole.totals) == 4
    for fold in range(found.folds):
        one, two = found.predict(part, fold), found.predict(fresh, fold)
        assert len(one.totals) == 2
        for name in ("q", "mean", "delta", "totals"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12)
    mine = np.flatnonzero(log.bucket % found.folds == 2)
    even = replace(found, shares=np.array([0.5, 0.5, 0.0, 0.0]))
    own = even.predict(even.compared(view, mine), 2)
    np.testing.assert_allclose(own.delta, even.predict(view).delta[mine])
    own = found.predict(found.compared(view, mine), 2)
    np.testing.assert_allclose(own.q, np.tensordot([0.5, 0.4995], own_q(found, log), 1) / 0.9995)


def own_q(found, log):
    """What the first two models say of the rows of fold 2, each by itself."""
    part = View(log.take(np.flatnonzero(log.bucket % found.folds == 2)), "new")
    alone = (replace(found, shares=np.eye(4)[j]) for j in range(2))
    return np.stack([one.predict(part, 2).q for one in alone])


def test_copies_of_a_unit_do_not_make_models_surer():
    """Every row three times: as the unit's own they count once, as rows of nobody three times."""
    rng = np.random.default_rng(0)
    losses = rng.gamma(2.0, 0.1, (3, 800)) + np.array([0.0, 0.002, 0.004])[:, None]
    once = shares_of(losses, 4000)
    unit = rng.permutation(800)
    thrice, copies = np.repeat(losses, 3, axis=1), np.repeat(unit, 3)
    np.testing.assert_allclose(shares_of(losses, 4000, unit), once, rtol=1e-9)
    np.testing.assert_allclose(shares_of(thrice, 12000, copies), once, rtol=1e-9)
    surer = shares_of(thrice, 12000)
    np.testing.assert_allclose(surer / surer[0], (once / once[0]) ** 3, rtol=1e-9)
    assert (shares_of(losses[[0, 0]], 4000, unit) == 0.5).all()


def test_units_reach_the_shares_of_the_models(monkeypatch):
    """Rows of a unit, however many, are in one fold, and the shares know whose they are."""
    from counterrank.estimators import crossfit

    seen = []
    monkeypatch.setattr(
        crossfit,
        "shares_of",
        lambda *given, power: seen.append(given) or shares_of(*given, power=power),
    )
    log = World(seed=8, behavior="dbn", K=4, items=10).log(200, 0)
    parts = {
        "action": log.action,
        "reward": log.reward,
        "propensity": log.propensity,
        "targets": log.targets,
    }
    for unit in (None, np.arange(200) // 4):
        part = cr.RankingLog(**parts, context=log.context, unit=unit)
        fit_aimed(Workspace(MemorySource(part, threads=1), "new"))
    assert seen[0][2] is None and len(np.unique(seen[1][2])) <= 50
    assert (seen[1][2].reshape(50, 4) == seen[1][2].reshape(50, 4)[:, :1]).all()
