"""The compiled likelihood against a slow one: value, slopes, second derivatives, the transpose, the
maximum.
"""

import numpy as np
import pytest

from counterrank.models.clicks.fit import Climb, Slots, prepared, prior_of
from counterrank.models.clicks.kernels.likelihood import (
    CLICKS,
    GAMMA,
    NORMAL,
    Effort,
    LinearMap,
    NormalPrior,
    Observed,
    RoughInverse,
    adjoint,
    derivatives,
    likelihood,
    linear,
    newton,
    slots_of,
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
    used = np.arange(n)
    N = int(lengths[used].sum())
    cell, last, own, row = (np.empty(N, dtype=np.int64) for _ in range(4))
    slots_of(item, click, lengths, ITEMS, cell, last, own, row)
    k = cell // (K + 1)
    size = 2 * K + 1 + K * K + ITEMS + 1 + 1 + D + ALL + 1 + (ITEMS + 1) * (1 + D)
    read, traits = rng.normal(size=N), np.empty((0, BENT))
    if fixed:
        traits, context = rng.normal(size=(ITEMS + 1, BENT)), x[:, 1:].copy()
        wide[row, k, AT : AT + BENT] = traits[own]
    columns = wide[row, k].T.copy()
    slots = LinearMap(K, ITEMS, cell, last, own, row, read, x, columns, context, AT, BENT, traits)
    return rng, item, click, lengths, used, slots, click[row, k], rng.normal(size=size) * 0.7


def _slow(theta, item, click, lengths, used, slots):
    """The log likelihood written down slot by slot, as the module's docstring has it."""
    row, read, x, columns, z = slots.row, slots.read, slots.x, slots.columns.T, slots.context
    products = (columns[:, AT : AT + BENT, None] * z[row][:, None]).reshape(len(columns), -1)
    columns = np.concatenate([columns[:, : AT + BENT], products, columns[:, AT + BENT :]], axis=1)
    parts = np.split(theta, np.cumsum([K, 1, K, K * K, ITEMS + 1, 1, D, ALL + 1, ITEMS + 1]))
    position, clicked, distance, cell, after, constant, context, beta, own, slopes = parts
    slopes = slopes.reshape(ITEMS + 1, D)
    total, s = 0.0, 0
    for i in used:
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


def _value(theta, slots, click):
    N = len(click)
    u, v, su, sv = (np.empty(N) for _ in range(4))
    linear(theta, slots, u, v)
    return likelihood(u, v, click, slots.row, CLICKS, 1.0, su, sv), u, v, su, sv


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_likelihood_equals_its_slow_twin(seed, fixed):
    _, item, click, lengths, used, slots, shown, theta = _data(seed, fixed=fixed)
    assert _value(theta, slots, shown)[0] == pytest.approx(
        _slow(theta, item, click, lengths, used, slots), rel=1e-12
    )


@pytest.mark.parametrize("fixed", [False, True])
def test_transpose_is_the_transpose(fixed):
    rng, *_, slots, shown, theta = _data(1, fixed=fixed)
    N = len(shown)
    u, v, out = np.empty(N), np.empty(N), np.empty(len(theta))
    linear(theta, slots, u, v)
    a, b = rng.normal(size=N), rng.normal(size=N)
    adjoint(a, b, slots, out)
    assert out @ theta == pytest.approx(a @ u + b @ v, rel=1e-12)
    plain = np.empty(len(theta))
    adjoint(a, b, slots._replace(traits=np.empty((0, BENT))), plain)
    np.testing.assert_allclose(out, plain, rtol=1e-10, atol=1e-10)


def test_features_are_traits_of_items_unless_a_ranking_says_otherwise():
    rng = np.random.default_rng(7)
    n = 30
    item = rng.permuted(np.tile(np.arange(ITEMS), (n, 1)), axis=1)[:, :K]
    item[0, -1] = -1
    known = rng.normal(size=(ITEMS + 1, 2))
    reward, fold = (rng.random((n, K)) < 0.4).astype(float), np.arange(n) % 2

    def traits(features):
        rankings = Rankings(item, rng.normal(size=(n, D)), features=features)
        return prepared(CLICKS, rankings, reward, fold, 2, 0)

    rows = traits(known[item])
    z = rows.encoding.features.apply(known[item])
    shown = item >= 0
    np.testing.assert_array_equal(rows.traits[rows.numbers[shown]], z[shown])
    other = known[item]
    other[3, 1, 0] += 1.0
    assert traits(other).traits.shape == (0, 2)


def test_slopes_and_curvature_are_those_of_finite_differences():
    _, *_, slots, shown, theta = _data(2)
    N, step = len(shown), 1e-5
    _, _, _, su, sv = _value(theta, slots, shown)
    ru, rv, huu, huv, hvv = (np.empty(N) for _ in range(5))
    derivatives(su, sv, shown, slots.row, CLICKS, 1.0, True, ru, rv, huu, huv, hvv)
    slope = np.empty(len(theta))
    adjoint(ru, rv, slots, slope)
    direction = np.random.default_rng(0).normal(size=len(theta))
    du, dv = np.empty(N), np.empty(N)
    linear(direction, slots, du, dv)
    bend = -(huu * du**2 + 2 * huv * du * dv + hvv * dv**2).sum()
    up, here, down = (_value(theta + t * direction, slots, shown)[0] for t in (step, 0.0, -step))
    assert slope @ direction == pytest.approx((up - down) / (2 * step), rel=1e-6)
    step = 1e-3
    up, down = (_value(theta + t * direction, slots, shown)[0] for t in (step, -step))
    assert bend == pytest.approx((up - 2 * here + down) / step**2, rel=1e-3)
    for j in range(0, len(theta), 7):
        unit = np.zeros(len(theta))
        unit[j] = 1e-5
        up, down = (_value(theta + t * unit, slots, shown)[0] for t in (1, -1))
        assert slope[j] == pytest.approx((up - down) / 2e-5, abs=1e-5)


def test_fisher_matrix_is_the_mean_of_the_exact_one():
    rng = np.random.default_rng(4)
    su, sv = rng.random(50), rng.random(50)
    out = []
    for click in (np.ones(50), np.zeros(50)):
        parts = [np.empty(50) for _ in range(5)]
        derivatives(su, sv, click, np.arange(50), CLICKS, 1.0, True, *parts)
        out.append(np.array(parts[2:]))
    parts = [np.empty(50) for _ in range(5)]
    derivatives(su, sv, np.ones(50), np.arange(50), CLICKS, 1.0, False, *parts)
    p = su * sv
    np.testing.assert_allclose(
        p * out[0] + (1 - p) * out[1], np.array(parts[2:]), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("family", [CLICKS, NORMAL, GAMMA])
@pytest.mark.parametrize("block", [0, 4])
def test_newton_ends_where_the_slope_is_zero(family, block):
    """Whatever inverse of whatever block scales the steps."""
    rng, *_, slots, shown, theta = _data(3, n=400)
    y = (
        shown
        if family == CLICKS
        else rng.normal(size=len(shown))
        if family == NORMAL
        else rng.exponential(size=len(shown))
    )
    mean, precision = np.zeros(len(theta)), np.full(len(theta), 2.0)
    theta = mean.copy()
    root = rng.normal(size=(block, block))
    inverse = 0.01 * (root @ root.T + np.eye(block))
    newton(
        theta,
        NormalPrior(mean, precision),
        slots,
        Observed(y, family, 0.8),
        RoughInverse(np.ones(len(theta)), np.arange(block), inverse),
        Effort(50, 400, 1e-9, near=False),
    )
    N = len(shown)
    u, v, su, sv = (np.empty(N) for _ in range(4))
    linear(theta, slots, u, v)
    likelihood(u, v, y, slots.row, family, 0.8, su, sv)
    parts = [np.empty(N) for _ in range(5)]
    derivatives(su, sv, y, slots.row, family, 0.8, True, *parts)
    slope = np.empty(len(theta))
    adjoint(*parts[:2], slots, slope)
    assert np.abs(slope - precision * (theta - mean)).max() < 1e-3
    assert np.abs(theta).max() > 0.1


@pytest.mark.parametrize("family", [NORMAL, GAMMA])
def test_numbers_have_the_slopes_of_finite_differences(family):
    rng = np.random.default_rng(6)
    u, v, y = rng.normal(size=9), rng.normal(size=9), rng.exponential(size=9)
    su, sv = np.empty(9), np.empty(9)

    def value(t):
        return likelihood(u + t, v, y, np.arange(9), family, 0.5, su, sv)

    up, here, down = value(1e-4), value(0.0), value(-1e-4)
    value(0.0)
    parts = [np.empty(9) for _ in range(5)]
    derivatives(su, sv, y, np.arange(9), family, 0.5, True, *parts)
    assert parts[0].sum() == pytest.approx((up - down) / 2e-4, rel=1e-6)
    assert parts[2].sum() == pytest.approx(-(up - 2 * here + down) / 1e-8, rel=1e-3)
    np.testing.assert_array_equal(parts[2], parts[3])


@pytest.mark.parametrize("family", [CLICKS, NORMAL])
def test_the_block_that_scales_steps_is_that_of_the_fisher_matrix(family):
    """Against the linear map applied to one parameter at a time."""
    rng = np.random.default_rng(4)
    n, d = 80, 2
    item = rng.permuted(np.tile(np.arange(ITEMS), (n, 1)), axis=1)[:, :K]
    rankings = Rankings(item, rng.normal(size=(n, d)), features=rng.normal(size=(n, K, 2)))
    reward = (rng.random((n, K)) < 0.4).astype(float)
    rows = prepared(family, rankings, reward, np.arange(n) % 2, 2, 0)
    slots, encoding = Slots.of(rows), rows.encoding
    columns = encoding.columns(rows.rankings, rows.x, False)
    x = np.concatenate([np.ones((n, 1)), encoding.slopes_of(rows.x)], axis=1)
    p = columns.shape[2] + encoding.products
    climb = Climb(rows, prior_of(rows, x.shape[1] - 1, encoding.widths(Variant(), p)), x, 0.7)
    N, size = len(slots.y), len(climb.prior.mean)
    given = climb.linear_map(slots, columns, rng.normal(size=columns.shape[:2]))
    theta = np.zeros(size)
    assert len(climb._common(theta, slots, given, near=False)[0]) == 0
    common, _ = climb._common(theta, slots, given, near=True)
    climb.inverse = np.zeros((0, 0))
    theta[common] = rng.normal(size=len(common)) * 0.3
    _, inverse = climb._common(theta, slots, given, near=True)

    def mapped(values):
        u, v = np.empty(N), np.empty(N)
        linear(values, given, u, v)
        return u, v

    su, sv = np.empty(N), np.empty(N)
    likelihood(*mapped(theta), slots.y, slots.row, family, 0.7, su, sv)
    parts = [np.empty(N) for _ in range(5)]
    derivatives(su, sv, slots.y, slots.row, family, 0.7, False, *parts)
    _, _, huu, huv, hvv = parts
    u, v = (np.array(part) for part in zip(*(mapped(np.eye(size)[j]) for j in common), strict=True))
    cross = (u * huv) @ v.T
    block = (u * huu) @ u.T + cross + cross.T + (v * hvv) @ v.T
    block += np.diag(climb.prior.precision[common])
    np.testing.assert_allclose(inverse @ block, np.eye(len(common)), atol=1e-8)
