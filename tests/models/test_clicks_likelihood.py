"""The compiled likelihood against a slow one: value, slopes, second derivatives, the transpose, the
maximum.
"""

from dataclasses import replace

import numpy as np
import pytest

from counterrank.models.clicks import blocks, likelihood
from counterrank.models.clicks.blocks import blocks_of
from counterrank.models.clicks.competition import last_click
from counterrank.models.clicks.fit import prepared, prior_of
from counterrank.models.clicks.likelihood import (
    ClickLikelihood,
    Family,
    MeanLikelihood,
    Scaling,
    Slots,
    newton,
)
from counterrank.models.rankings import Rankings, Variant

K, ITEMS, D, P = 4, 6, 3, 3
#: Columns from the second on bend with a context of three: six products, which nobody writes down.
AT, BENT, C = 1, 2, 3
ALL = P + BENT * C


def _data(seed, n=60, fixed=False):
    """Rankings; `fixed`: items have the same features in all of them."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, K + 1, n)
    item = rng.permuted(np.tile(np.arange(ITEMS), (n, 1)), axis=1)[:, :K]
    click = (rng.random((n, K)) < 0.4).astype(float)
    x = np.concatenate([np.ones((n, 1)), rng.normal(size=(n, D))], axis=1)
    wide, context = rng.normal(size=(n, K, P + 1)), rng.normal(size=(n, C))
    row, k = (np.ascontiguousarray(one) for one in np.nonzero(np.arange(K) < lengths[:, None]))
    before = last_click(click)[row, k]
    last = np.where(before > 0, item[row, before - 1], ITEMS + 1)
    size = 2 * K + 1 + K * K + ITEMS + 1 + 1 + D + ALL + 1 + (ITEMS + 1) * (1 + D)
    read, traits = rng.normal(size=len(row)), np.empty((0, BENT))
    if fixed:
        traits, context = rng.normal(size=(ITEMS + 1, BENT)), x[:, 1:].copy()
        wide[row, k, AT : AT + BENT] = traits[item[row, k]]
    slots = Slots(
        K, ITEMS, k * (K + 1) + before, last, item[row, k], row, click[row, k], read, wide[row, k], x,
        context, AT, BENT, np.empty((0, BENT)),
    )  # fmt: skip
    # Known traits do not stand among the columns.
    few = np.delete(slots.columns, slice(AT, AT + BENT), axis=1)
    known = replace(slots, columns=few, traits=traits) if fixed else slots
    return rng, item, click, lengths, slots, known, rng.normal(size=size) * 0.7


def _slow(theta, item, click, lengths, slots):
    """The log likelihood written down slot by slot, as the module's docstring has it."""
    row, read, x, columns, z = slots.row, slots.read, slots.x, slots.columns, slots.context
    products = (columns[:, AT : AT + BENT, None] * z[row][:, None]).reshape(len(columns), -1)
    columns = np.concatenate([columns[:, : AT + BENT], products, columns[:, AT + BENT :]], axis=1)
    parts = np.split(theta, np.cumsum([K, 1, K, K * K, ITEMS + 1, 1, D, ALL + 1, ITEMS + 1]))
    position, clicked, distance, cell, after, constant, context, beta, own, slopes = parts
    slopes = slopes.reshape(ITEMS + 1, D)
    total, s = 0.0, 0
    for i in range(len(item)):
        last = None
        for k in range(lengths[i]):
            a = item[i, k]
            u = position[k] + distance[0] * read[s]
            if last is not None:
                u += clicked[0] + distance[k - last] + cell[k * K + last] + after[item[i, last]]
            v = constant[0] + x[i, 1:] @ (context + slopes[a]) + columns[s] @ beta + own[a]
            p = 1 / (1 + np.exp(-u)) / (1 + np.exp(-v))
            total += np.log(p) if click[i, k] else np.log1p(-p)
            last = k if click[i, k] else last
            s += 1
    return total


def _value(theta, slots):
    return ClickLikelihood(slots.y).value(*slots.linear(theta))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_likelihood_equals_its_slow_twin(seed, fixed):
    _, item, click, lengths, plain, slots, theta = _data(seed, fixed=fixed)
    assert _value(theta, slots) == pytest.approx(
        _slow(theta, item, click, lengths, plain), rel=1e-12
    )


@pytest.mark.parametrize("fixed", [False, True])
def test_transpose_is_the_transpose(fixed):
    rng, *_, plain, slots, theta = _data(1, fixed=fixed)
    u, v = slots.linear(theta)
    a, b = rng.normal(size=(2, len(u)))
    out = slots.adjoint(a, b)
    assert out @ theta == pytest.approx(a @ u + b @ v, rel=1e-12)
    np.testing.assert_allclose(out, plain.adjoint(a, b), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_one_loop_for_the_hessian_equals_map_curvature_and_transpose(fixed, exact):
    rng, *_, slots, theta = _data(5, fixed=fixed)
    clicks, direction = ClickLikelihood(slots.y), rng.normal(size=len(theta))
    _, (uu, uv, vv) = clicks.derivatives(*slots.linear(theta), exact=exact)
    du, dv = slots.linear(direction)
    np.testing.assert_allclose(
        clicks.hessian(slots, (uu, uv, vv), direction),
        slots.adjoint(uu * du + uv * dv, uv * du + vv * dv),
        rtol=1e-10, atol=1e-10,
    )  # fmt: skip


def test_a_rough_solution_does_not_amplify_rounding():
    # Eigenvalues over five decades: the steps differ by 1e-11, without orthogonal residuals by 1e-5.
    rng = np.random.default_rng(2)
    values, turn = np.geomspace(1.0, 1e5, 30), np.linalg.qr(rng.normal(size=(30, 30)))[0]
    slope, hessian = turn @ (values**0.5 * rng.normal(size=30)), (turn * values) @ turn.T
    plain = Scaling(np.ones(30), np.arange(0), np.empty((0, 0)))
    steps = [
        likelihood._solve(slope * (1.0 + noise), hessian.__matmul__, plain, 1e-12, rough=1e-2)[0]
        for noise in (0.0, 1e-12 * rng.normal(size=30))
    ]
    np.testing.assert_allclose(*steps, rtol=0, atol=1e-9 * np.abs(steps[0]).max())


@pytest.mark.parametrize("family", [Family.CLICKS, Family.GAMMA, Family.TOTAL])
def test_slots_that_are_left_out_count_nothing(family):
    rng, *_, slots, theta = _data(8)
    slots = replace(
        slots, y=slots.y if family is Family.CLICKS else rng.gamma(2.0, size=len(slots.y))
    )
    kept = rng.random(len(slots.y)) < 0.6
    some, direction = slots.take(kept), rng.normal(size=len(theta))

    def rewards_of(slots):
        return (
            ClickLikelihood(slots.y) if family is Family.CLICKS else _numbers(family, slots.y, 0.8)
        )

    whole, alone = rewards_of(slots).masked(kept.astype(float)), rewards_of(some)
    linear, linear_alone = slots.linear(theta), some.linear(theta)
    assert whole.value(*linear) == pytest.approx(alone.value(*linear_alone), rel=1e-12)
    for exact in (False, True):
        slopes, curvature = whole.derivatives(*linear, exact=exact)
        slopes_alone, curvature_alone = alone.derivatives(*linear_alone, exact=exact)
        np.testing.assert_allclose(slots.adjoint(*slopes), some.adjoint(*slopes_alone), atol=1e-9)
        np.testing.assert_allclose(
            whole.hessian(slots, curvature, direction),
            alone.hessian(some, curvature_alone, direction),
            atol=1e-9,
        )


def test_features_are_traits_of_items_unless_a_ranking_says_otherwise():
    rng = np.random.default_rng(7)
    n = 30
    item = rng.permuted(np.tile(np.arange(ITEMS), (n, 1)), axis=1)[:, :K]
    item[0, -1] = -1
    known = rng.normal(size=(ITEMS + 1, 2))
    reward, fold = (rng.random((n, K)) < 0.4).astype(float), np.arange(n) % 2

    def traits(features):
        rankings = Rankings(item, rng.normal(size=(n, D)), features=features)
        return prepared(Family.CLICKS, rankings, reward, fold, 2, 0)

    rows = traits(known[item])
    z = rows.encoding.features.apply(known[item])
    shown = item >= 0
    numbers = rows.encoding.numbers(rows.rankings)
    np.testing.assert_array_equal(rows.traits[numbers[shown]], z[shown])
    other = known[item]
    other[3, 1, 0] += 1.0
    assert traits(other).traits.shape == (0, 2)


def test_slopes_and_curvature_are_those_of_finite_differences():
    *_, slots, _, theta = _data(2)
    step, clicks = 1e-5, ClickLikelihood(slots.y)
    slopes, curvature = clicks.derivatives(*slots.linear(theta), exact=True)
    slope = slots.adjoint(*slopes)
    direction = np.random.default_rng(0).normal(size=len(theta))
    bend = -direction @ clicks.hessian(slots, curvature, direction)
    up, here, down = (_value(theta + t * direction, slots) for t in (step, 0.0, -step))
    assert slope @ direction == pytest.approx((up - down) / (2 * step), rel=1e-6)
    step = 1e-3
    up, down = (_value(theta + t * direction, slots) for t in (step, -step))
    assert bend == pytest.approx((up - 2 * here + down) / step**2, rel=1e-3)
    for j in range(0, len(theta), 7):
        unit = np.zeros(len(theta))
        unit[j] = 1e-5
        up, down = (_value(theta + t * unit, slots) for t in (1, -1))
        assert slope[j] == pytest.approx((up - down) / 2e-5, abs=1e-5)


def test_fisher_matrix_is_the_mean_of_the_exact_one():
    rng = np.random.default_rng(4)
    u, v = rng.normal(size=(2, 50))
    exact = [
        np.array(ClickLikelihood(np.full(50, y)).derivatives(u, v, exact=True)[1])
        for y in (1.0, 0.0)
    ]
    mean = np.array(ClickLikelihood(np.ones(50)).derivatives(u, v, exact=False)[1])
    p = 1 / (1 + np.exp(-u)) / (1 + np.exp(-v))
    np.testing.assert_allclose(p * exact[0] + (1 - p) * exact[1], mean, rtol=1e-9, atol=1e-12)


def _numbers(family, y, dispersion):
    return MeanLikelihood(family, y, np.ones(len(y)), np.arange(len(y)), dispersion)


@pytest.mark.parametrize("family", [Family.CLICKS, Family.NORMAL, Family.GAMMA])
@pytest.mark.parametrize("block", [0, 4])
def test_newton_ends_where_the_slope_is_zero(family, block, monkeypatch):
    """Whatever inverse of whatever block scales the steps."""
    rng, *_, slots, _, theta = _data(3, n=400)
    count = len(slots.y)
    y = rng.normal(size=count) if family is Family.NORMAL else rng.exponential(size=count)
    clicks = family is Family.CLICKS
    rewards = ClickLikelihood(slots.y) if clicks else _numbers(family, y, 0.8)
    mean, precision = np.zeros(len(theta)), np.full(len(theta), 2.0)
    theta = mean.copy()
    root = rng.normal(size=(block, block))
    inverse = 0.01 * (root @ root.T + np.eye(block))
    scaling = Scaling(1.0 + precision, np.arange(block), inverse)
    more = replace(likelihood.SETTINGS, steps=50, inner=400)
    monkeypatch.setattr(likelihood, "SETTINGS", more)
    newton(theta, slots, rewards, mean, precision, scaling, enough=1e-9, near=False)
    slopes, _ = rewards.derivatives(*slots.linear(theta), exact=True)
    assert np.abs(slots.adjoint(*slopes) - precision * (theta - mean)).max() < 1e-3
    assert np.abs(theta).max() > 0.1


@pytest.mark.parametrize("family", [Family.NORMAL, Family.GAMMA])
def test_numbers_have_the_slopes_of_finite_differences(family):
    rng = np.random.default_rng(6)
    u, v, y = rng.normal(size=9), rng.normal(size=9), rng.exponential(size=9)
    rewards = _numbers(family, y, 0.5)
    up, here, down = (rewards.value(u + t, v) for t in (1e-4, 0.0, -1e-4))
    (slope, same), curvature = rewards.derivatives(u, v, exact=True)
    assert slope.sum() == pytest.approx((up - down) / 2e-4, rel=1e-6)
    bend = rewards.product(curvature, np.ones(9), np.zeros(9))[0].sum()
    assert bend == pytest.approx(-(up - 2 * here + down) / 1e-8, rel=1e-3)
    np.testing.assert_array_equal(slope, same)


@pytest.mark.parametrize("family", [Family.CLICKS, Family.NORMAL])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(("pairs", "between"), [(144, 4_000_000), (0, 4_000_000), (0, 0)])
def test_what_scales_steps_inverts_blocks_of_the_fisher_matrix(
    family, fixed, pairs, between, monkeypatch
):
    """Against the Hessian times one parameter at a time."""
    more = replace(blocks.SETTINGS, pairs=pairs, between=between)
    monkeypatch.setattr(blocks, "SETTINGS", more)
    monkeypatch.setattr(blocks, "_AT_ONCE", 50)
    rng = np.random.default_rng(4)
    n, d = 80, 2
    item = rng.permuted(np.tile(np.arange(ITEMS), (n, 1)), axis=1)[:, :K]
    features = rng.normal(size=(ITEMS, 2))[item] if fixed else rng.normal(size=(n, K, 2))
    rankings = Rankings(item, rng.normal(size=(n, d)), features=features)
    reward = (rng.random((n, K)) < 0.4).astype(float)
    rows = prepared(family, rankings, reward, np.arange(n) % 2, 2, 0)
    encoding = rows.encoding
    columns = encoding.columns(rows.rankings, rows.x, 0)
    slots = rows.slots(columns, rng.normal(size=columns.shape[:2]))
    assert len(slots.traits) == (ITEMS + 1 if fixed else 0)
    precision = prior_of(rows, encoding.widths(Variant(), 0)).precision
    size = len(precision)
    theta = rng.normal(size=size) * 0.3
    rewards = rows.likelihood(slots, 0.7)
    linear = slots.linear(theta)
    _, curvature = rewards.derivatives(*linear, exact=False)
    fisher = np.array([rewards.hessian(slots, curvature, unit) for unit in np.eye(size)])
    made = blocks_of(theta, slots, rewards, linear)
    np.testing.assert_allclose(made.diagonal, np.diag(fisher), rtol=1e-9, atol=1e-12)
    solved = np.r_[made.common, made.items]
    assert len(made.common) >= 2 * K + 1 and len(made.items) == (between > 0) * (ITEMS + 1) * (
        1 + d
    )
    residual = rng.normal(size=size)
    matrix = fisher + np.diag(precision)
    wanted = residual / np.diag(matrix)
    wanted[solved] = np.linalg.solve(matrix[np.ix_(solved, solved)], residual[solved])
    np.testing.assert_allclose(made.scaling(precision)(residual), wanted, rtol=1e-6, atol=1e-8)
