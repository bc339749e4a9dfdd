"""Each kernel of the examination models against plain loops over its definition."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from counterrank.models.mixture.model import Link, Rows, chances, linked, own_parts, pair_parts
from counterrank.models.mixture.search import triple_grams
from counterrank.models.mixture.state import Fit, start
from counterrank.models.mixture.steps import (
    effect_grams,
    examination_sums,
    tilt_sums,
    triple_curvature,
    triple_gradient,
)
from counterrank.models.settings import RARE_STEP as LEAST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
N, K, A, P, F, Z = 40, 4, 3, 3, 2, 3


class World(NamedTuple):
    """Random parameters and ragged rankings."""

    action: Ints
    fold: Ints
    x: Floats
    reward: Floats
    own: Floats
    shift: Floats
    pair: Floats
    triple: Floats
    examined: Floats
    weight: Floats
    shared: Floats
    scale: Floats


def world(seed: int, *, together: float = 0.1) -> World:
    rng = np.random.default_rng(seed)
    action = rng.integers(0, A, (N, K))
    action[np.arange(K) >= rng.integers(0, K + 1, N)[:, None]] = -1
    cube = rng.normal(size=(F, A, A, A))
    weight = rng.dirichlet(np.full(Z, 0.3), N)
    weight[0] = 0.5 * LEAST, 1.5 * LEAST, 1.0 - 2 * LEAST
    return World(
        action, rng.integers(0, F, N), np.concatenate([np.ones((N, 1)), rng.normal(size=(N, P - 1))], axis=1),
        rng.normal(size=(N, K)) * (action >= 0), rng.normal(size=(F, A, P)), rng.normal(size=(F, K)),
        0.5 * rng.normal(size=(F, A, A)), cube + cube.swapaxes(2, 3), rng.normal(size=(Z, K, K)), weight,
        together * rng.uniform(0.1, 1.0, N), rng.uniform(0.2, 2.0, (N, 2)),
    )  # fmt: skip


def rows_of(at: World) -> Rows:
    present = (at.action >= 0).astype(float)
    return Rows(at.x, np.zeros((len(at.x), 1)), at.action, at.reward, present, at.fold)


def fit_of(at: World, link: Link, q: Floats, **changes: object) -> Fit:
    """Return the world's first fold as a fit to its rows."""
    rows = rows_of(at)
    first = start(rows, Link.SUM, A)
    effect = np.concatenate([at.own[0], at.pair[0]], axis=1)
    given = {
        "link": link, "effect": effect, "shift": at.shift[0], "examined": at.examined, "shared": at.shared,
        "posterior": at.weight, "scale": at.scale, "q": q,
    }  # fmt: skip
    return replace(first, **(given | changes))


def shown(action: Ints, *but: int) -> list[int]:
    return [k for k in range(K) if action[k] >= 0 and k not in but]


def own_of(at: World, i: int, k: int) -> float:
    return float(at.x[i] @ at.own[at.fold[i], at.action[i, k]] + at.shift[at.fold[i], k])


def seen_by(at: World, i: int, z: int, k: int) -> Floats:
    """Return how far class z examines each item from k, for this row's user."""
    return at.examined[z, k] * np.where(np.arange(K) < k, at.scale[i, 0], at.scale[i, 1])


def part_of(at: World, i: int, z: int, k: int, *, triples: bool) -> float:
    """Return what class z makes of the items beside k, term by term."""
    f, a, seen = at.fold[i], at.action[i], seen_by(at, i, z, k)
    total = sum(seen[m] * at.pair[f, a[k], a[m]] for m in shown(a, k))
    if triples:
        for one in shown(a, k):
            for two in shown(a, k):
                if one < two:
                    total += seen[one] * seen[two] * at.triple[f, a[k], a[one], a[two]]
    return float(total)


def value(link: Link, own: float, part: float) -> float:
    if link is Link.PRODUCT:
        return own * np.exp(np.clip(part, -20.0, 20.0))
    return own + part if link is Link.SUM else 1 / (1 + np.exp(-own - part))


def values_of(at: World, link: Link, *, triples: bool) -> tuple[Floats, Floats]:
    """Return rewards and parts (N, Z, K) of every class."""
    q, part = np.zeros((N, Z, K)), np.zeros((N, Z, K))
    for i in range(N):
        for k in shown(at.action[i]):
            for z in range(Z):
                part[i, z, k] = part_of(at, i, z, k, triples=triples)
                q[i, z, k] = value(link, own_of(at, i, k), part[i, z, k])
    return q, part


def owns(at: World) -> Floats:
    return own_parts(at.action, at.fold, at.x, at.own, at.shift)


def no_triples() -> Floats:
    return np.zeros((F, 0, 0, 0))


def test_own_values_are_context_effects_and_shifts() -> None:
    at = world(1)
    wanted = [
        [own_of(at, i, k) if at.action[i, k] >= 0 else 0.0 for k in range(K)] for i in range(N)
    ]
    np.testing.assert_allclose(owns(at), wanted, atol=1e-12)


@pytest.mark.parametrize("triples", [False, True])
@pytest.mark.parametrize("link", Link)
def test_class_values_equal_their_terms(link: Link, triples: bool) -> None:
    at = world(2)
    at.examined[0, :, 1] = 0.0  # what is not seen has no part in threes
    cube = at.triple if triples else no_triples()
    part = pair_parts(at.action, at.fold, at.scale, at.pair, at.examined, cube)
    wanted, parts = values_of(at, link, triples=triples)
    np.testing.assert_allclose(part, parts, atol=1e-12)
    used = np.broadcast_to((at.action >= 0)[:, None], part.shape)
    np.testing.assert_allclose(
        linked(link, owns(at)[:, None], part)[used], wanted[used], rtol=1e-11, atol=1e-12
    )


def test_products_stop_growing_at_the_largest_exponent() -> None:
    at = world(3)
    part = pair_parts(at.action, at.fold, at.scale, 1e6 * at.pair, at.examined, no_triples())
    q = linked(Link.PRODUCT, owns(at)[:, None], part)
    assert np.isfinite(q).all() and np.abs(part).max() > 1e5
    grown = np.abs(q / np.where(at.action >= 0, owns(at), 1.0)[:, None])
    assert grown.max() == pytest.approx(np.exp(20.0)) and grown[grown > 0].min() == pytest.approx(
        np.exp(-20.0)
    )


@pytest.mark.parametrize("positions", [3, 40])
def test_logistic_loss_is_that_of_the_likelihood(positions: int) -> None:
    rng = np.random.default_rng(2)
    q, present = (
        rng.uniform(0.01, 0.99, (N, positions)),
        (rng.random((N, positions)) < 0.8).astype(float),
    )
    reward = (rng.random(q.shape) < q) * present
    q[0], q[1] = 0.0, 1.0  # as far out as the clip lets them count, forty in a row
    chance = np.clip(q, 1e-9, 1 - 1e-9)
    wanted = -2.0 * (present * np.where(reward > 0.5, np.log(chance), np.log1p(-chance))).sum()
    x, none = np.ones((N, 1)), np.zeros((N, 0))
    action = np.where(present > 0, 0, -1)
    rows = Rows(x, none, action, reward, present, np.zeros(N, dtype=np.int64))
    fit = replace(start(rows, Link.LOGISTIC, 1), q=q[:, None])
    assert fit.errors(rows) == pytest.approx(wanted, rel=1e-10)


def test_class_errors_are_squares_and_the_square_of_the_sum() -> None:
    at = world(4)
    q = np.random.default_rng(4).normal(size=(N, Z, K))
    out = np.array(fit_of(at, Link.SUM, q).squares(rows_of(at)))
    for i in range(N):
        for z in range(Z):
            error = [at.reward[i, k] - q[i, z, k] for k in shown(at.action[i])]
            assert out[:, i, z] == pytest.approx(
                [sum(e * e for e in error), sum(error) ** 2], abs=1e-12
            )


def test_softmax_rows_even_far_out() -> None:
    scores = np.random.default_rng(5).normal(size=(N, Z)) * 5
    scores[0], scores[1], scores[2] = 1e3, (-1e3, 0.0, 1e3), -1e3
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = np.concatenate([np.zeros((Z, 1)), np.eye(Z)], axis=1)
    np.testing.assert_allclose(
        chances(shares, scores),
        shifted / shifted.sum(axis=1, keepdims=True),
        rtol=1e-12,
        atol=1e-300,
    )
    assert chances(np.ones((1, 2)), np.array([[7.0], [-2.0]])).tolist() == [[1.0], [1.0]]


def middle(at: World, link: Link, q: Floats, i: int, z: int) -> Floats:
    """Return M = weight (diag(v) - shared 11') over the items shown, nothing where the class hardly
    counts.
    """
    used = shown(at.action[i])
    counts = at.weight[i, z] if at.weight[i, z] >= LEAST else 0.0
    chance = q[i, z, used]
    variance = (
        np.maximum(chance * (1 - chance), 1e-5) if link is Link.LOGISTIC else np.ones(len(used))
    )
    return np.asarray(counts * (np.diag(variance) - at.shared[i] * np.ones((len(used), len(used)))))


def sums(at: World, link: Link, q: Floats, i: int, z: int, design: Floats) -> tuple[Floats, Floats]:
    """Return J' M J and J' M e of one ranking and class; e are the working errors of 0/1 rewards."""
    used = shown(at.action[i])
    left, error = design.T @ middle(at, link, q, i, z), at.reward[i, used] - q[i, z, used]
    if link is Link.LOGISTIC:
        error = error / np.maximum(q[i, z, used] * (1 - q[i, z, used]), 1e-5)
    return left @ design, left @ error


CASES = [
    (Link.SUM, 0.0),
    (Link.SUM, 0.2),
    (Link.PRODUCT, 0.0),
    (Link.PRODUCT, 0.2),
    (Link.LOGISTIC, 0.0),
]


@pytest.mark.parametrize("triples", [False, True])
@pytest.mark.parametrize(("link", "together"), CASES)
def test_examination_grams_are_the_normal_equations(
    link: Link, together: float, triples: bool
) -> None:
    at = world(7, together=together)
    q, _ = values_of(at, link, triples=triples)
    triple = at.triple[0] if triples else np.zeros((0, 0, 0))
    fit = fit_of(at, link, q, triple=triple)
    gram, right, joint = examination_sums(fit, rows_of(at), together=True)
    wanted, side = np.zeros((Z, K * K, K * K)), np.zeros((Z, K * K))
    for i in range(N):
        for z in range(Z):
            a, used = at.action[i], shown(at.action[i])
            design = np.zeros((len(used), K * K))
            for row, k in enumerate(used):
                seen = seen_by(at, i, z, k)
                for m in shown(a, k):
                    effect = at.pair[0, a[k], a[m]]
                    if triples:
                        effect += sum(seen[t] * triple[a[k], a[m], a[t]] for t in shown(a, k, m))
                    slope = q[i, z, k] if link is Link.PRODUCT else 1.0
                    design[row, k * K + m] = slope * effect * at.scale[i, int(m > k)]
            square, along = sums(at, link, q, i, z, design)
            wanted[z] += square
            side[z] += along
    for k in range(K):
        own = slice(k * K, (k + 1) * K)
        joint[:, own, own] += gram[:, k]
    np.testing.assert_allclose(joint, wanted, rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(right.reshape(Z, -1), side, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize(("link", "together"), CASES)
def test_effect_grams_are_the_normal_equations_of_their_fold(link: Link, together: float) -> None:
    at = world(8, together=together)
    q, part = values_of(at, link, triples=False)
    width, size = P + A, A * (P + A) + K
    gram, right = effect_grams(fit_of(at, link, q, part=part), rows_of(at), at.fold, F)
    wanted, side = np.zeros(gram.shape), np.zeros(right.shape)
    for i in range(N):
        for z in range(Z):
            a, used = at.action[i], shown(at.action[i])
            design = np.zeros((len(used), size))
            for row, k in enumerate(used):
                own, others = (
                    (np.exp(part[i, z, k]), q[i, z, k]) if link is Link.PRODUCT else (1.0, 1.0)
                )
                design[row, a[k] * width : a[k] * width + P] = own * at.x[i]
                for m in shown(a, k):
                    design[row, a[k] * width + P + a[m]] += others * seen_by(at, i, z, k)[m]
                design[row, A * width + k] = own
            square, along = sums(at, link, q, i, z, design)
            wanted[at.fold[i]] += square
            side[at.fold[i]] += along
    np.testing.assert_allclose(gram, wanted, rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(right, side, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("link", [Link.SUM, Link.PRODUCT])
def test_columns_of_the_effects_are_derivatives(link: Link) -> None:
    """J of the effects, from J'Me with one ranking, one class and M = I, is how q moves."""
    at = world(9)
    i = int(np.flatnonzero((at.action >= 0).all(axis=1))[0])
    action, fold, x, scale = (
        at.action[i : i + 1],
        np.zeros(1, dtype=np.int64),
        at.x[i : i + 1],
        at.scale[i : i + 1],
    )

    def predicted(vector: Floats) -> tuple[Floats, Floats]:
        effect = vector[:-K].reshape(1, A, P + A)
        plain, pairs = np.ascontiguousarray(effect[..., :P]), np.ascontiguousarray(effect[..., P:])
        own = own_parts(action, fold, x, plain, vector[None, -K:].copy())
        part = pair_parts(action, fold, scale, pairs, at.examined[:1], no_triples())
        return linked(link, own[:, None], part), part

    now = np.concatenate([np.concatenate([at.own[0], at.pair[0]], axis=1).ravel(), at.shift[0]])
    q, part = predicted(now)
    for k in range(K):
        reward = q[0] + np.eye(K)[k]  # the error is 1 at k
        alone = World(*(value[i : i + 1] if len(value) == N else value for value in at))
        alone = alone._replace(reward=reward, weight=np.ones((1, 1)), shared=np.zeros(1))
        fit = fit_of(alone, link, q, part=part, examined=at.examined[:1])
        _, right = effect_grams(fit, rows_of(alone), fold, 1)
        for j, unit in enumerate(np.eye(len(now))):
            slope = (predicted(now + 1e-5 * unit)[0] - predicted(now - 1e-5 * unit)[0])[
                0, 0, k
            ] / 2e-5
            assert right[0, j] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_tilt_grams_are_the_normal_equations_with_shared_noise() -> None:
    rng, n, m = np.random.default_rng(4), 300, 6  # more rows than one block holds
    present = np.arange(K) < rng.integers(1, K + 1, n)[:, None]
    sides, traits = rng.normal(size=(n, 2, K)) * present[:, None], rng.normal(size=(n, m))
    slope, shared = rng.uniform(0.5, 2.0, (n, K)), rng.uniform(0, 0.1, n)
    weight, error = rng.uniform(0.5, 2.0, (n, K)) * present, rng.normal(size=(n, K)) * present
    gram, right = tilt_sums(traits, sides * slope[:, None], weight, error, shared)
    wanted, side = np.zeros((2 * m, 2 * m)), np.zeros(2 * m)
    for i in range(n):
        pairs = sides[i] * slope[i]  # (2, K)
        design = np.concatenate(
            [pairs[0][:, None] * traits[i], pairs[1][:, None] * traits[i]], axis=1
        )
        wanted += design.T @ (np.diag(weight[i]) - shared[i]) @ design
        # Of the right side only the squared errors are weighed: the shared part sees them as they
        # are.
        side += design.T @ (weight[i] * error[i] - shared[i] * error[i].sum())
    np.testing.assert_allclose(gram, wanted, atol=1e-9)
    np.testing.assert_allclose(right, side, atol=1e-9)


def test_one_class_triple_grams_equal_their_designs() -> None:
    at = world(12)
    columns = A * (A + 1) // 2
    fit = fit_of(at, Link.SUM, np.zeros((N, Z, K)))
    gram, right = triple_grams(fit, rows_of(at), at.reward, F)
    wanted, side = np.zeros_like(gram), np.zeros_like(right)
    for i in range(N):
        a = at.action[i]
        for k in shown(a):
            row, seen = np.zeros(columns), seen_by(at, i, 0, k)
            for one in shown(a, k):
                for two in shown(a, k):
                    if one < two:
                        low, high = sorted((a[one], a[two]))
                        row[high * (high + 1) // 2 + low] += seen[one] * seen[two]
            wanted[at.fold[i], a[k]] += np.outer(row, row)
            side[at.fold[i], a[k]] += row * at.reward[i, k]
    np.testing.assert_allclose(gram, wanted, atol=1e-10)
    np.testing.assert_allclose(right, side, atol=1e-10)


def triple_design(at: World, i: int, z: int, *, squared: bool = False) -> Floats:
    """Return (shown, A, A, A): columns of three-way effects, larger action first; squared term by
    term, if asked.
    """
    a, used = at.action[i], shown(at.action[i])
    out = np.zeros((len(used), A, A, A))
    for row, k in enumerate(used):
        for one in shown(a, k):
            for two in shown(a, k):
                if one < two:
                    amount = at.examined[z, k, one] * at.examined[z, k, two]
                    out[row, a[k], max(a[one], a[two]), min(a[one], a[two])] += (
                        amount**2 if squared else amount
                    )
    return out


@pytest.mark.parametrize("together", [0.0, 0.2])
def test_triple_gradient_and_curvature_are_the_normal_equations(together: float) -> None:
    at = world(10, together=together)._replace(scale=np.ones((N, 2)))  # classes have no tilt
    at.examined[1, :, 2] = 0.0
    q, _ = values_of(at, Link.SUM, triples=True)
    step = np.random.default_rng(10).normal(size=(A, A, A))
    step = step + step.swapaxes(1, 2)
    fit, rows = fit_of(at, Link.SUM, q, triple=at.triple[0]), rows_of(at)
    right, diagonal = triple_gradient(fit, rows)
    out = triple_curvature(fit, rows, step)
    wanted, side, scale = np.zeros((A**3, A**3)), np.zeros(A**3), np.zeros((A, A, A))
    for i in range(N):
        for z in range(Z):
            square, along = sums(at, Link.SUM, q, i, z, triple_design(at, i, z).reshape(-1, A**3))
            wanted += square
            side += along
            if at.weight[i, z] >= LEAST:
                scale += at.weight[i, z] * triple_design(at, i, z, squared=True).sum(axis=0)
    np.testing.assert_allclose(right.ravel(), side, atol=1e-10)
    np.testing.assert_allclose(out.ravel(), wanted @ np.tril(step).ravel(), atol=1e-10)
    np.testing.assert_allclose(diagonal, scale, atol=1e-10)


def test_triple_diagonal_is_exact_where_no_pair_of_items_is_shown_twice() -> None:
    """K = 3: beside any position there is one pair, so no column is met twice in a row."""
    rng = np.random.default_rng(11)
    action, weight, examined = (
        rng.integers(0, A, (N, 3)),
        rng.dirichlet(np.ones(Z), N),
        rng.normal(size=(Z, 3, 3)),
    )
    zeros = np.zeros((N, 3))
    rows = Rows(np.ones((N, 1)), zeros, action, zeros, zeros + 1, np.zeros(N, dtype=np.int64))
    fit = replace(
        start(rows, Link.SUM, A), examined=examined, posterior=weight, q=np.zeros((N, Z, 3)),
        triple=np.zeros((A, A, A)),
    )  # fmt: skip
    _, diagonal = triple_gradient(fit, rows)
    for u, b, c in np.ndindex(A, A, A):
        if b >= c:
            unit = np.zeros((A, A, A))
            unit[u, b, c] = unit[u, c, b] = 1.0
            out = triple_curvature(fit, rows, unit)
            assert diagonal[u, b, c] == pytest.approx(out[u, b, c], abs=1e-10)
        else:
            assert diagonal[u, b, c] == 0.0
