"""Closed-form models that predict about as well as the best, and how much each counts."""

from types import SimpleNamespace

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import View, Workspace
from counterrank.estimators.auto.auto import nuisances_for
from counterrank.estimators.auto.nuisances import ClosedForm, shares_of
from counterrank.estimators.auto.state import _interactions
from counterrank.estimators.doubly_robust import trained
from counterrank.models import fit_close
from counterrank.research import simulate


@pytest.fixture(scope="module")
def log():
    env = simulate.random(3, reward="binary", K=4, actions=3, form="paper")
    return env.draw(1500, np.random.default_rng(2)).to_log()


def workspace(log):
    return Workspace(MemorySource(log, threads=1), "new")


def with_units(log, unit):
    names = ("action", "reward", "propensity", "targets", "dists", "context")
    return cr.RankingLog(**{name: getattr(log, name) for name in names}, unit=unit)


def test_losses_are_squared_errors_on_unseen_rows_the_best_first(log):
    close = fit_close(trained(workspace(log)), within=1e9)
    # Out-of-fold predictions of the same rows, asked as an estimator asks; a row's fold is known.
    naive = [((log.reward - m.predict(log, "new").q) ** 2).sum(axis=1) for m in close.models]
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
    assert isinstance(found, ClosedForm) and not flags
    close = fit_close(trained(space), within=1.05)
    np.testing.assert_allclose(found.shares, shares_of(close.losses, close.slots), rtol=1e-9)
    view = View(log, "new")
    given = [model.predict(log, "new") for model in found.models]
    look = found.outlook(view)
    np.testing.assert_allclose(
        look.q, sum(s * g.q for s, g in zip(found.shares, given, strict=True))
    )
    np.testing.assert_allclose(
        look.mean, sum(s * g.mean for s, g in zip(found.shares, given, strict=True))
    )
    # All of them still say how far to trust any.
    assert look.means.shape == (len(found.models), log.n)


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


def test_interactions_are_what_the_models_see_beyond_own_position_weights(log):
    """By the sum over rows that the rewards have left: E_target q - c - w (q - c) at each position."""
    space = workspace(log)
    plan = cr.Auto().plan(space)
    view = View(log, "new")
    summary, _ = plan.decision(plan.partial(view).state)
    look = plan.nuisances.outlook(view)
    w = np.minimum(view.ratios.position(), plan.limit)
    level = log.reward.mean(axis=0)
    missed = (look.mean - level - w * (look.q - level)).mean(axis=0)
    assert summary.interactions == pytest.approx(np.abs(missed).sum(), rel=1e-9)
    # Pieces of the log add up to the same.
    parts = [plan.partial(View(log.take(slice(a, a + 500)), "new")).state for a in (0, 500, 1000)]
    again, _ = plan.decision(parts[0] + parts[1] + parts[2])
    assert again.interactions == pytest.approx(summary.interactions, rel=1e-9)


def test_items_that_do_nothing_to_each_other_are_no_interactions():
    """A reward of the own item alone, without noise, and weights that average one: nothing missed."""
    action = np.array([[a, b] for a in (0, 1) for b in (0, 1)] * 100)
    half, wanted = np.full((400, 2, 2), 0.5), np.tile([0.3, 0.7], (400, 2, 1))
    shown = np.take_along_axis(wanted, action[..., None], axis=2)[..., 0]
    log = cr.RankingLog(
        action=action, reward=1.0 + action, propensity=half[..., 0],
        targets={"new": cr.Propensity("factored", shown)}, dists={"propensity": half, "new": wanted},
    )  # fmt: skip
    plan = cr.Auto().plan(workspace(log))
    summary, decision = plan.decision(plan.partial(View(log, "new")).state)
    assert summary.interactions == pytest.approx(0.0, abs=0.02)
    assert (
        decision.parts["items change each other"]
        < 0.01 * decision.parts["target differs from logger"]
    )


def test_interactions_count_positions_that_were_shown_by_the_size_of_their_weight():
    """Four rows, the second position shown in two of them, the third never; by hand."""
    state = SimpleNamespace(
        n=4,
        alpha=np.array([1.0, -0.5, 2.0]),
        first=np.array([[4.0, 9.0], [6.0, 9.0], [0.0, 9.0]]),
        beyond=np.array([[4.0, 2.0, 0.0], [3.0, 4.0, 0.0], [2.0, 1.0, 0.0]]),
    )
    # Means 1 and 3; |2 - 1 (4 - 3)| = 1 and |1 - 3 (2 - 4)| = 7.
    assert _interactions(state) == pytest.approx((1.0 + 0.5 * 7.0) / 4, rel=1e-12)
