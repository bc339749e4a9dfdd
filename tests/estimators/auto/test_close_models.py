"""Closed-form models that predict about as well as the best, and how much each counts."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import View, Workspace
from counterrank.estimators.auto.nuisances import nuisances_for
from counterrank.estimators.crossfit import Predictions, predicted, shares_of
from counterrank.estimators.doubly_robust import trained
from counterrank.models import fit_close, rankings_of
from counterrank.research import simulate


@pytest.fixture(scope="module")
def log():
    env = simulate.random(3, reward="pairwise", K=4, actions=3, form="paper")
    return env.draw(1500, np.random.default_rng(2)).to_log()


def workspace(log):
    return Workspace(MemorySource(log, threads=1), "new")


def with_units(log, unit):
    names = ("action", "reward", "propensity", "targets", "dists", "context")
    return cr.RankingLog(**{name: getattr(log, name) for name in names}, unit=unit)


def test_losses_are_squared_errors_on_unseen_rows_the_best_first(log):
    close = fit_close(trained(workspace(log)), within=1e9)
    # Out-of-fold predictions of the same rows, asked as an estimator asks; a row's fold is known.
    rankings = rankings_of(log)
    naive = [
        ((log.reward - m.expected(rankings, log.bucket % m.folds)) ** 2).sum(axis=1)
        for m in close.models
    ]
    np.testing.assert_allclose(close.losses, naive, rtol=1e-9)
    assert len(close.models) > 1 and close.slots == log.action.size and close.unit is None
    total = close.losses.sum(axis=1)
    assert (np.diff(total) >= 0).all()
    said = sorted(close.models[0].details["out_of_fold_mse_of"].values())
    np.testing.assert_allclose(total / close.slots, said, rtol=1e-12)
    limit = float(total[1] / total[0])
    for within, count in ((limit * 1.0001, 2), (limit * 0.9999, 1)):
        assert len(fit_close(trained(workspace(log)), within=within).models) == count


def test_a_model_counts_as_the_likelihood_of_rewards_it_has_not_seen(log):
    space = workspace(log)
    found, flags = nuisances_for(space)
    assert isinstance(found, Predictions) and not flags
    close = fit_close(trained(space), within=1.05)
    np.testing.assert_allclose(found.shares, shares_of(close.losses, close.slots), rtol=1e-9)
    view = View(log, "new")
    given = [predicted(view, model) for model in found.models]
    look = found.predict(view)
    for j, average in enumerate((look.q, look.mean)):
        own = sum(s * g[j] for s, g in zip(found.shares, given, strict=True))
        np.testing.assert_allclose(average, own)
    # All of them still say how far to trust any.
    assert look.totals.shape == (len(found.models), log.n)


def test_rows_of_a_unit_count_less(log):
    unit = np.arange(log.n) // 5
    close = fit_close(trained(workspace(with_units(log, unit))), within=1e9)
    assert close.unit is not None and len(np.unique(close.unit)) <= 300
    assert (close.unit.reshape(-1, 5) == close.unit.reshape(-1, 5)[:, :1]).all()


def test_models_of_long_rankings_are_linear_and_alone():
    rng = np.random.default_rng(0)
    half = np.full((60, 41, 2), 0.5)
    log = cr.RankingLog(
        action=rng.integers(2, size=(60, 41)), reward=rng.normal(size=(60, 41)), propensity=half[..., 0],
        targets={"new": cr.Propensity("factored", half[..., 0])}, dists={"propensity": half, "new": half},
    )  # fmt: skip
    found, _ = nuisances_for(workspace(log))
    assert found is not None and found.shares.tolist() == [1.0]


def test_what_the_logger_knew_and_the_log_lacks_is_read_from_its_distributions():
    # Users of two kinds: one is shown item 1 more often and earns more, whatever is shown.
    rng = np.random.default_rng(4)
    kind = rng.integers(2, size=4_000)
    often = np.where(kind, 0.8, 0.2)
    old = np.stack([1 - often, often], axis=1)
    new = np.broadcast_to([0.1, 0.9], old.shape)
    action = (rng.random((4_000, 2)) < often[:, None]).astype(int)
    log = cr.RankingLog(
        action=action, reward=kind[:, None] + rng.normal(size=action.shape),
        propensity=cr.Propensity("factored", np.take_along_axis(old, action, axis=1)),
        targets={"new": cr.Propensity("factored", np.take_along_axis(new, action, axis=1))},
        dists={"propensity": old, "new": new},
    )  # fmt: skip
    found = cr.Auto().estimate(log, "new")
    models = found.details["members"][0]
    assert models["member"] == "models"
    # No item changes a reward. Without the distributions, item 1 seems to earn 0.6 more at each position.
    assert abs(models["value"] - log.reward.sum(axis=1).mean()) < 0.1
    assert abs(found.lift.value) < 0.1 and found.lift.low < 0 < found.lift.high


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_knowing_the_whole_logger_adds_a_step_and_changes_no_model(seed):
    """Models do not depend on what is known of the logger, so that knowing more cannot make them worse."""
    env = simulate.random(seed, reward="pairwise", K=4, actions=3, form="paper")
    log = env.draw(1000, np.random.default_rng(2)).to_log()
    names = ("action", "reward", "propensity", "targets", "context")
    fields = {name: getattr(log, name) for name in names}
    less = cr.RankingLog(**fields, dists={"new": log.dists["new"]})
    known, unknown = (cr.Auto().estimate(each, "new").details for each in (log, less))
    assert known["models"] == pytest.approx(unknown["models"], rel=1e-12)
    assert known["regression"] == unknown["regression"]
    members = [{row["member"]: row for row in each["members"]} for each in (known, unknown)]
    assert set(members[0]) - set(members[1]) == {"aimed"}
    for name in members[1]:
        assert members[0][name]["value"] == pytest.approx(members[1][name]["value"], rel=1e-12)
    dr = [cr.DR(weights="iips").estimate(each, "new") for each in (log, less)]
    assert dr[0].value == dr[1].value and dr[0].stderr == dr[1].stderr


def test_knowing_the_logger_makes_no_estimate_worse(log):
    """The start, its models and their doubt are the same; the logger's distribution adds corrections alone.

    The estimate then moves by less than a tenth of its half-width, on 1,500 rankings of independent positions.
    """
    blind = log.changed(dists={"new": log.distribution("new")})
    known, unknown = (cr.Auto().estimate(each, "new") for each in (log, blind))
    start, same_start = (e.details["members"][0] for e in (known, unknown))
    assert start["member"] == same_start["member"] == "models"
    assert start["value"] == pytest.approx(same_start["value"], rel=1e-12)
    assert known.details["models"] == pytest.approx(unknown.details["models"], rel=1e-12)
    doubts = [nuisances_for(workspace(each))[0].unknown for each in (log, blind)]
    assert doubts[0] == pytest.approx(doubts[1], rel=1e-12) and doubts[0] > 0.0
    half = (known.lift.high - known.lift.low) / 2
    assert abs(known.lift.value - unknown.lift.value) < 0.1 * half
