"""Mean, ratio and control variate: values, slopes and lifts."""

from dataclasses import replace

import numpy as np
import pytest
from tests.estimators.weights.sums import ALPHA, arrays, made

from counterrank.estimators.base import Workspace
from counterrank.estimators.contribution import ContributionPlan, aggregated
from counterrank.estimators.weights.moments import moments_of


@pytest.mark.parametrize("name", ["mean", "ratio"])
def test_slopes_are_derivatives(name):
    moments, step = made(), 1e-6
    _, *slopes = aggregated(name, moments)
    for row, slope in enumerate(slopes):  # sums of y, then of w
        for k in range(2):
            move = np.zeros_like(moments.positions)
            move[row, k] = step * moments.n
            up, down = (
                aggregated(name, replace(moments, positions=moments.positions + sign * move))[0]
                for sign in (1, -1)
            )
            np.testing.assert_allclose(slope[:, k], (up - down) / (2 * step), atol=1e-6)


def test_the_slope_of_the_control_variate_is_that_of_the_regression():
    y, w, _ = arrays()
    _, on_y, on_w = aggregated("control", made())
    beta = np.linalg.lstsq(w - w.mean(0), y - y.mean(0), rcond=None)[0]
    np.testing.assert_array_equal(on_y, np.eye(2))
    np.testing.assert_allclose(on_w, -beta.T, rtol=1e-9)


def test_the_control_variate_is_the_regression_on_weights():
    y, w, _ = arrays()
    fitted = np.linalg.lstsq(np.column_stack([np.ones(40), w - 1]), y, rcond=None)[0]
    # The fit's value where weights are one is its constant.
    np.testing.assert_allclose(aggregated("control", made())[0], fitted[0], rtol=1e-9)


def test_self_normalised_values_without_weight_are_zero():
    y, w, r = arrays()
    w[:, 1] = 0.0
    moments = moments_of(y, w, r, ALPHA, full=True)[0]
    values, on_y, on_w = aggregated("ratio", moments)
    assert values[1] == 0.0 and values[0] == pytest.approx(y[:, 0].mean() / w[:, 0].mean())
    assert (
        on_y[1].tolist() == [0.0, 0.0]
        and np.abs(on_w[1]).max() == 0.0
        and on_y[0, 0] == pytest.approx(1 / w[:, 0].mean())
    )


def lift_of(y, r):
    """The lift of the plain mean of contributions, with weights of one."""
    workspace = Workspace(None, "new")
    plan = ContributionPlan("given", workspace, lambda view: (y, y), "given")
    return plan.finish(moments_of(y, np.ones_like(y), r, np.ones(2))[0]).lift


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
    assert lift.value == 0.0 and [p.stderr for p in lift.by_position] == [0.0, 0.0]
    assert np.isnan([lift.stderr, lift.low, lift.high]).all()
