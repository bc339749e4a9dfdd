"""Mean, ratio and control variate: values, slopes and lifts."""

import numpy as np
import pytest
from tests.weights.sums import ALPHA, arrays, made

from counterrank.estimators.contribution import AGGREGATES, lift_of
from counterrank.weights.moments import moments_of


@pytest.mark.parametrize("name", AGGREGATES)
def test_slopes_are_derivatives(name):
    moments, aggregate, step = made(), AGGREGATES[name], 1e-6
    y, w = moments.mean("y"), moments.mean("w")
    on_y, on_w = aggregate.slope(moments)
    for k in range(2):
        move = step * np.eye(2)[k]
        by_y = aggregate.at(moments, (y + move)[None], w[None]) - aggregate.at(
            moments, (y - move)[None], w[None]
        )
        by_w = aggregate.at(moments, y[None], (w + move)[None]) - aggregate.at(
            moments, y[None], (w - move)[None]
        )
        np.testing.assert_allclose(on_y[:, k], by_y[0] / (2 * step), atol=1e-6)
        np.testing.assert_allclose(on_w[:, k], by_w[0] / (2 * step), atol=1e-6)


def test_the_control_variate_is_the_regression_on_weights():
    y, w, _ = arrays()
    fitted = np.linalg.lstsq(np.column_stack([np.ones(40), w - 1]), y, rcond=None)[0]
    # The fit's value where weights are one is its constant.
    np.testing.assert_allclose(AGGREGATES["control"].positions(made()), fitted[0], rtol=1e-9)


def test_self_normalised_values_without_weight_are_zero():
    y, w, r = arrays()
    w[:, 1] = 0.0
    moments = moments_of(y, w, r, ALPHA, full=True)[0]
    values, (on_y, on_w) = (
        AGGREGATES["ratio"].positions(moments),
        AGGREGATES["ratio"].slope(moments),
    )
    assert values[1] == 0.0 and values[0] == pytest.approx(y[:, 0].mean() / w[:, 0].mean())
    assert (
        on_y[1].tolist() == [0.0, 0.0]
        and np.abs(on_w[1]).max() == 0.0
        and on_y[0, 0] == pytest.approx(1 / w[:, 0].mean())
    )


def test_no_relative_lift_over_nothing_and_none_from_one_row():
    one = np.ones((4, 2))
    moments = moments_of(one, one, 0 * one, np.ones(2), full=True)[0]
    lift = lift_of(moments, np.ones(2), np.array([1.0, 1.0, 0.0, 0.0, 0.0]), 0.95)
    assert (
        lift.value == 2.0 and np.isnan([lift.relative, lift.relative_low, lift.relative_high]).all()
    )
    little = lift_of(
        moments_of(one, one, 0.25 * one, np.ones(2), full=True)[0],
        np.ones(2),
        np.array([1.0, 1.0, 0, 0, 0]),
        0.95,
    )
    assert (little.value, little.relative) == (1.5, 3.0)
    y = np.array([[1.0, 4.0], [2.0, 1.0]])
    two = lift_of(
        moments_of(y, one[:2], one[:2], np.ones(2))[0],
        y.mean(0),
        np.array([1.0, 1.0, 0, 0, 0]),
        0.95,
    )
    assert [(p.value, p.stderr) for p in two.by_position] == [(0.5, 0.5), (1.5, 1.5)]
    single = moments_of(one[:1], one[:1], one[:1], np.ones(2), full=True)[0]
    lift = lift_of(single, np.ones(2), np.array([1.0, 1.0, 0.0, 0.0, 0.0]), 0.95)
    assert lift.value == 0.0 and [p.stderr for p in lift.by_position] == [0.0, 0.0]
