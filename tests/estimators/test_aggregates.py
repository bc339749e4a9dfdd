"""Mean, ratio and control variate, at positions and of the page, against arithmetic on rows."""

import numpy as np
import pytest
from tests.estimators.weights.sums import ALPHA, arrays

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators.base import Workspace
from counterrank.estimators.contribution import ContributionFit
from counterrank.estimators.solution import Traits

N = 40


def solution(y, w, r, aggregate, *, alpha=ALPHA, units=None):
    """What is made of these contributions and weights of rows."""
    log = cr.RankingLog(
        action=np.zeros(r.shape, int), reward=r, propensity=np.ones(r.shape), targets={"new": np.ones(r.shape)},
        position_weights=alpha, unit=units,
    )  # fmt: skip
    workspace = Workspace(MemorySource(log, threads=1), "new", by_unit=units is not None)
    fit = ContributionFit(
        "given", workspace, "given", Traits("given"), aggregate, contributions=lambda view: (y, w)
    )
    return fit.estimate(fit.sums(log)), fit.solution(fit.sums(log))


def stderr(influence):
    return influence.std(axis=0, ddof=1) / np.sqrt(len(influence))


def influences(y, w, aggregate):
    """Values (K,) and the influence of each row (n, K), from formulas in plain NumPy."""
    if aggregate == "mean":
        return y.mean(0), y
    if aggregate == "ratio":
        values = y.mean(0) / w.mean(0)
        return values, (y - values * w) / w.mean(0)
    beta = np.linalg.lstsq(w - w.mean(0), y - y.mean(0), rcond=None)[0]
    return y.mean(0) - (w.mean(0) - 1) @ beta, y - (w - 1) @ beta


@pytest.mark.parametrize("aggregate", ["mean", "ratio", "control"])
def test_values_and_lifts_have_the_error_of_their_influence_on_rows(aggregate):
    y, w, r = arrays()
    values, rows = influences(y, w, aggregate)
    found, solved = solution(y, w, r, aggregate)
    assert found.value == pytest.approx(values @ ALPHA, rel=1e-10)
    assert found.stderr == pytest.approx(stderr(rows @ ALPHA), rel=1e-9)
    assert found.lift.stderr == pytest.approx(stderr((rows - r) @ ALPHA), rel=1e-9)
    np.testing.assert_allclose([p.value for p in found.by_position], values, rtol=1e-10)
    np.testing.assert_allclose([p.stderr for p in found.by_position], stderr(rows), rtol=1e-9)
    lifts = found.lift.by_position
    np.testing.assert_allclose([p.value for p in lifts], values - r.mean(0), rtol=1e-9)
    np.testing.assert_allclose([p.stderr for p in lifts], stderr(rows - r), rtol=1e-9)
    assert len(solved.logged_positions) == 2


@pytest.mark.parametrize("aggregate", ["mean", "ratio", "control"])
def test_lifts_at_positions_are_clustered_by_unit(aggregate):
    y, w, r = arrays()
    units = np.arange(N) // 4
    found, _ = solution(y, w, r, aggregate, units=units)
    _, rows = influences(y, w, aggregate)
    for k, place in enumerate(found.lift.by_position):
        influence = rows[:, k] - r[:, k]
        scores = np.bincount(units, influence - influence.mean())
        expected = np.sqrt(10 / 9 * scores @ scores) / N
        assert place.stderr == pytest.approx(expected, rel=1e-8)


def test_the_control_variate_is_the_regression_on_weights():
    y, w, r = arrays()
    fitted = np.linalg.lstsq(np.column_stack([np.ones(N), w - 1]), y, rcond=None)[0]
    found, _ = solution(y, w, r, "control")
    # The fit's value where weights are one is its constant.
    np.testing.assert_allclose([p.value for p in found.by_position], fitted[0], rtol=1e-9)


def test_self_normalised_values_without_weight_are_zero():
    y, w, r = arrays()
    w[:, 1] = 0.0
    found, solved = solution(y, w, r, "ratio")
    values = [place.value for place in solved.positions]
    assert values[1] == 0.0 and values[0] == pytest.approx(y[:, 0].mean() / w[:, 0].mean())
    assert solved.positions[1].stderr == 0.0 and not found.estimable
    assert "probability 0 at position 2" in found.not_estimable
    # A position that does not count has no say.
    assert solution(y, w, r, "ratio", alpha=np.array([1.0, 0.0]))[0].estimable


def lift_of(y, r):
    """The lift of the plain mean of contributions, with weights of one."""
    return solution(y, np.ones_like(y), r, "mean", alpha=np.ones(2))[0].lift


def test_no_relative_lift_over_nothing_and_none_from_one_row():
    one = np.ones((4, 2))
    lift = lift_of(one, 0 * one)
    assert (
        lift.value == 2.0 and np.isnan([lift.relative, lift.relative_low, lift.relative_high]).all()
    )
    little = lift_of(one, 0.25 * one)
    assert (little.value, little.relative) == (1.5, 3.0)
    two = lift_of(np.array([[1.0, 4.0], [2.0, 1.0]]), one[:2])
    assert [(p.value, p.stderr) for p in two.by_position] == [(0.5, 0.5), (1.5, 1.5)]
    lift = lift_of(one[:1], one[:1])
    assert lift.value == 0.0 and np.isnan([p.stderr for p in lift.by_position]).all()
    assert np.isnan([lift.stderr, lift.low, lift.high]).all()
