"""Each kernel of the behaviour model against plain loops over its definition."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from counterrank.models.kernels import behaviors, behaviors_grams, behaviors_triples
from counterrank.models.kernels.behaviors import RARE
from counterrank.models.kernels.behaviors_grams import LEAST

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
    sight: Floats
    weight: Floats
    shared: Floats


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
        together * rng.uniform(0.1, 1.0, N),
    )  # fmt: skip


def shown(action: Ints, *but: int) -> list[int]:
    return [k for k in range(K) if action[k] >= 0 and k not in but]


def own_of(at: World, i: int, k: int) -> float:
    return float(at.x[i] @ at.own[at.fold[i], at.action[i, k]] + at.shift[at.fold[i], k])


def part_of(at: World, i: int, z: int, k: int, *, triples: bool) -> float:
    """Return what class z makes of the items beside k, term by term."""
    f, a, seen = at.fold[i], at.action[i], at.sight[z, k]
    total = sum(seen[m] * at.pair[f, a[k], a[m]] for m in shown(a, k))
    if triples:
        for one in shown(a, k):
            for two in shown(a, k):
                if one < two:
                    total += seen[one] * seen[two] * at.triple[f, a[k], a[one], a[two]]
    return float(total)


def values_of(at: World, *, curved: bool, triples: bool) -> tuple[Floats, Floats]:
    """Return rewards and parts (N, Z, K) of every class."""
    q, part = np.zeros((N, Z, K)), np.zeros((N, Z, K))
    for i in range(N):
        for k in shown(at.action[i]):
            for z in range(Z):
                part[i, z, k] = part_of(at, i, z, k, triples=triples)
                own = own_of(at, i, k)
                q[i, z, k] = own * np.exp(part[i, z, k]) if curved else own + part[i, z, k]
    return q, part


def owns(at: World) -> Floats:
    out = np.full((N, K), np.nan)
    behaviors.own_values(at.action, at.fold, at.x, at.own, at.shift, out)
    return out


def no_triples() -> Floats:
    return np.zeros((F, 0, 0, 0))


def test_own_values_are_context_effects_and_shifts() -> None:
    at = world(1)
    wanted = [[own_of(at, i, k) if at.action[i, k] >= 0 else 0.0 for k in range(K)] for i in range(N)]
    np.testing.assert_allclose(owns(at), wanted, atol=1e-12)


@pytest.mark.parametrize(("curved", "triples"), [(False, False), (False, True), (True, False), (True, True)])
def test_class_values_equal_their_terms(curved: bool, triples: bool) -> None:
    at = world(2)
    at.sight[0, :, 1] = 0.0  # what is not seen has no part in threes
    q, part = np.full((N, Z, K), np.nan), np.full((N, Z, K), np.nan)
    given = (at.action, at.fold, owns(at), at.pair, at.sight, at.triple if triples else no_triples())
    behaviors.class_values(curved, *given, q, part)
    wanted, parts = values_of(at, curved=curved, triples=triples)
    np.testing.assert_allclose(q, wanted, rtol=1e-11, atol=1e-12)
    if curved:
        np.testing.assert_allclose(part, parts, atol=1e-12)


def test_products_stop_growing_at_the_largest_exponent() -> None:
    at = world(3)
    q, part = np.empty((N, Z, K)), np.empty((N, Z, K))
    behaviors.class_values(True, at.action, at.fold, owns(at), 1e6 * at.pair, at.sight, no_triples(), q, part)
    assert np.isfinite(q).all() and np.abs(part).max() > 1e5
    grown = np.abs(q / np.where(at.action >= 0, owns(at), 1.0)[:, None])
    assert grown.max() == pytest.approx(np.exp(20.0)) and grown[grown > 0].min() == pytest.approx(np.exp(-20.0))


def test_class_errors_are_squares_and_the_square_of_the_sum() -> None:
    at = world(4)
    q = np.random.default_rng(4).normal(size=(N, Z, K))
    out = np.full((2, N, Z), np.nan)
    behaviors.class_errors(at.action, at.reward, q, out)
    for i in range(N):
        for z in range(Z):
            error = [at.reward[i, k] - q[i, z, k] for k in shown(at.action[i])]
            assert out[:, i, z] == pytest.approx([sum(e * e for e in error), sum(error) ** 2], abs=1e-12)


def test_softmax_rows_even_far_out() -> None:
    scores = np.random.default_rng(5).normal(size=(N, Z)) * 5
    scores[0], scores[1], scores[2] = 1e3, (-1e3, 0.0, 1e3), -1e3
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    behaviors.softmax(scores)
    np.testing.assert_allclose(scores, shifted / shifted.sum(axis=1, keepdims=True), rtol=1e-12, atol=1e-300)
    one = np.array([[7.0], [-2.0]])
    behaviors.softmax(one)
    assert one.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("triples", [False, True])
def test_mixed_values_average_the_classes_and_pass_over_rare_ones(triples: bool) -> None:
    at = world(6)
    chance = np.random.default_rng(6).dirichlet(np.ones(Z), N)
    chance[:5] = 0.5 * RARE, 2 * RARE, 1 - 2.5 * RARE
    chance[5:10] = 0.0, 0.3, 0.7
    cube = at.triple if triples else no_triples()
    out = np.full((N, K), np.nan)
    behaviors.mixed_values(at.action, at.fold, owns(at), chance, at.pair, at.sight, cube, out)
    wanted = np.zeros((N, K))
    for i in range(N):
        for k in shown(at.action[i]):
            wanted[i, k] = own_of(at, i, k)
            for z in range(Z):
                if chance[i, z] > RARE:
                    wanted[i, k] += chance[i, z] * part_of(at, i, z, k, triples=triples)
    np.testing.assert_allclose(out, wanted, atol=1e-12)
    q, _ = values_of(at, curved=False, triples=triples)
    plain = np.einsum("iz,izk->ik", chance, q)
    # Own effects count in full: a rare class of weight RARE / 2 is taken to see nothing.
    largest = np.abs(q - owns(at)[:, None]).max()
    assert np.abs(out - plain).max() <= 0.5 * RARE * largest + 1e-12
    np.testing.assert_allclose(out[10:], plain[10:], atol=1e-12)


def middle(at: World, i: int, z: int) -> Floats:
    """Return M = weight (I - shared 11') over the items shown, nothing where the class hardly counts."""
    k = len(shown(at.action[i]))
    counts = at.weight[i, z] if at.weight[i, z] >= LEAST else 0.0
    return np.asarray(counts * (np.eye(k) - at.shared[i] * np.ones((k, k))))


def sums(at: World, q: Floats, i: int, z: int, design: Floats) -> tuple[Floats, Floats]:
    """Return J' M J and J' M e of one ranking and class."""
    used = shown(at.action[i])
    left = design.T @ middle(at, i, z)
    return left @ design, left @ (at.reward[i, used] - q[i, z, used])


@pytest.mark.parametrize("together", [0.0, 0.2])
@pytest.mark.parametrize(("curved", "triples"), [(False, False), (False, True), (True, False)])
def test_sight_grams_are_the_normal_equations(curved: bool, triples: bool, together: float) -> None:
    at = world(7, together=together)
    q, _ = values_of(at, curved=curved, triples=triples)
    triple = at.triple[0] if triples else np.zeros((0, 0, 0))
    gram, right = np.full((Z, K * K, K * K), 2.0), np.full((Z, K * K), 3.0)  # what is there already stays
    given = (at.action, at.reward, at.weight, at.shared, q, at.pair[0], at.sight, triple)
    behaviors_grams.add_sight(curved, *given, gram, right)
    wanted, side = np.full(gram.shape, 2.0), np.full(right.shape, 3.0)
    for i in range(N):
        for z in range(Z):
            a, used = at.action[i], shown(at.action[i])
            design = np.zeros((len(used), K * K))
            for row, k in enumerate(used):
                for m in shown(a, k):
                    effect = at.pair[0, a[k], a[m]]
                    if triples:
                        effect += sum(at.sight[z, k, t] * triple[a[k], a[m], a[t]] for t in shown(a, k, m))
                    design[row, k * K + m] = (q[i, z, k] if curved else 1.0) * effect
            square, along = sums(at, q, i, z, design)
            wanted[z] += square
            side[z] += along
    np.testing.assert_allclose(np.tril(gram), np.tril(wanted), atol=1e-10)
    np.testing.assert_allclose(right, side, atol=1e-10)


@pytest.mark.parametrize("together", [0.0, 0.2])
@pytest.mark.parametrize("curved", [False, True])
def test_effect_grams_are_the_normal_equations_of_their_fold(curved: bool, together: float) -> None:
    at = world(8, together=together)
    q, part = values_of(at, curved=curved, triples=False)
    width, size = P + A, A * (P + A) + K
    gram, right = np.zeros((F, size, size)), np.zeros((F, size))
    given = (at.action, at.fold, at.x, at.reward, at.weight, at.shared, q, part, at.sight)
    behaviors_grams.add_effects(curved, *given, A, gram, right)
    wanted, side = np.zeros(gram.shape), np.zeros(right.shape)
    for i in range(N):
        for z in range(Z):
            a, used = at.action[i], shown(at.action[i])
            design = np.zeros((len(used), size))
            for row, k in enumerate(used):
                own, others = (np.exp(part[i, z, k]), q[i, z, k]) if curved else (1.0, 1.0)
                design[row, a[k] * width : a[k] * width + P] = own * at.x[i]
                for m in shown(a, k):
                    design[row, a[k] * width + P + a[m]] += others * at.sight[z, k, m]
                design[row, A * width + k] = own
            square, along = sums(at, q, i, z, design)
            wanted[at.fold[i]] += square
            side[at.fold[i]] += along
    np.testing.assert_allclose(np.tril(gram), np.tril(wanted), rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(right, side, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("curved", [False, True])
def test_columns_of_the_effects_are_derivatives(curved: bool) -> None:
    """J of the effects, from J'Me with one ranking, one class and M = I, is how q moves."""
    at = world(9)
    i = int(np.flatnonzero((at.action >= 0).all(axis=1))[0])
    one = at._replace(
        action=at.action[i : i + 1], fold=np.zeros(1, dtype=np.int64), x=at.x[i : i + 1], sight=at.sight[:1],
        own=at.own[:1], shift=at.shift[:1], pair=at.pair[:1],
    )  # fmt: skip

    def predicted(vector: Floats) -> tuple[Floats, Floats]:
        own, q, part = np.empty((1, K)), np.empty((1, 1, K)), np.empty((1, 1, K))
        effect = vector[:-K].reshape(1, A, P + A)
        plain, pairs = np.ascontiguousarray(effect[..., :P]), np.ascontiguousarray(effect[..., P:])
        behaviors.own_values(one.action, one.fold, one.x, plain, vector[None, -K:].copy(), own)
        behaviors.class_values(curved, one.action, one.fold, own, pairs, one.sight, no_triples(), q, part)
        return q, part

    at_now = np.concatenate([np.concatenate([one.own[0], one.pair[0]], axis=1).ravel(), one.shift[0]])
    q, part = predicted(at_now)
    for k in range(K):
        gram, right = np.zeros((1, len(at_now), len(at_now))), np.zeros((1, len(at_now)))
        reward = q[0] + np.eye(K)[k]  # the error is 1 at k
        given = (one.action, one.fold, one.x, reward, np.ones((1, 1)), np.zeros(1), q, part, one.sight)
        behaviors_grams.add_effects(curved, *given, A, gram, right)
        for j, unit in enumerate(np.eye(len(at_now))):
            slope = (predicted(at_now + 1e-5 * unit)[0] - predicted(at_now - 1e-5 * unit)[0])[0, 0, k] / 2e-5
            assert right[0, j] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def triple_design(at: World, i: int, z: int, *, squared: bool = False) -> Floats:
    """Return (shown, A, A, A): columns of three-way effects, larger action first; squared term by term, if asked."""
    a, used = at.action[i], shown(at.action[i])
    out = np.zeros((len(used), A, A, A))
    for row, k in enumerate(used):
        for one in shown(a, k):
            for two in shown(a, k):
                if one < two:
                    amount = at.sight[z, k, one] * at.sight[z, k, two]
                    out[row, a[k], max(a[one], a[two]), min(a[one], a[two])] += amount**2 if squared else amount
    return out


@pytest.mark.parametrize("together", [0.0, 0.2])
def test_triple_gradient_and_curvature_are_the_normal_equations(together: float) -> None:
    at = world(10, together=together)
    at.sight[1, :, 2] = 0.0
    q, _ = values_of(at, curved=False, triples=True)
    step = np.random.default_rng(10).normal(size=(A, A, A))
    step = step + step.swapaxes(1, 2)
    right, diagonal, out = np.zeros((A, A, A)), np.zeros((A, A, A)), np.zeros((A, A, A))
    behaviors_triples.gradient(at.action, at.reward, at.weight, at.shared, q, at.sight, right, diagonal)
    behaviors_triples.curvature(at.action, at.weight, at.shared, at.sight, step, out)
    wanted, side, scale = np.zeros((A**3, A**3)), np.zeros(A**3), np.zeros((A, A, A))
    for i in range(N):
        for z in range(Z):
            square, along = sums(at, q, i, z, triple_design(at, i, z).reshape(-1, A**3))
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
    action, weight, sight = rng.integers(0, A, (N, 3)), rng.dirichlet(np.ones(Z), N), rng.normal(size=(Z, 3, 3))
    right, diagonal = np.zeros((A, A, A)), np.zeros((A, A, A))
    q, none = np.zeros((N, Z, 3)), np.zeros(N)
    behaviors_triples.gradient(action, np.zeros((N, 3)), weight, none, q, sight, right, diagonal)
    for u, b, c in np.ndindex(A, A, A):
        if b >= c:
            unit, out = np.zeros((A, A, A)), np.zeros((A, A, A))
            unit[u, b, c] = unit[u, c, b] = 1.0
            behaviors_triples.curvature(action, weight, none, sight, unit, out)
            assert diagonal[u, b, c] == pytest.approx(out[u, b, c], abs=1e-10)
        else:
            assert diagonal[u, b, c] == 0.0
