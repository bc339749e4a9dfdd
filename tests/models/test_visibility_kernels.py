"""Each kernel of the visibility model against a naive twin, and its means against enumeration."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from counterrank.models.kernels import visibility, visibility_blocks, visibility_grams, visibility_means
from counterrank.models.kernels.visibility_draws import curved_means
from counterrank.models.visibility.links import LOGISTIC, PRODUCT, SUM, Link
from counterrank.models.visibility.parameters import Parameters

Floats = NDArray[np.float64]
N, K, A, P, F, M = 40, 4, 3, 3, 2, 2


def world(seed: int, *, ragged: bool = True) -> tuple[Parameters, dict[str, NDArray]]:
    rng = np.random.default_rng(seed)
    cube = rng.normal(size=(F, A, A, A))
    parameters = Parameters(
        own=rng.normal(size=(F, A, P)),
        shift=rng.normal(size=(F, K)),
        pair=rng.normal(size=(F, A, A)),
        triple=cube + cube.swapaxes(2, 3),
        sight=rng.normal(size=(K, K)),
        tilt=rng.normal(size=(2, M)) * 0.3,
    )
    action = rng.integers(0, A, (N, K))
    lengths = rng.integers(1, K + 1, N) if ragged else np.full(N, K)
    action[np.arange(K) >= lengths[:, None]] = -1
    x = np.concatenate([np.ones((N, 1)), rng.normal(size=(N, P - 1))], axis=1)
    given = {
        "action": action,
        "lengths": lengths,
        "fold": rng.integers(0, F, N),
        "x": x,
        "scale": rng.uniform(0.2, 2.0, (N, 2)),
        "error": rng.normal(size=(N, K)) * (action >= 0),
        "slope": rng.uniform(0.5, 2.0, (2, N, K)),
        "weight": rng.uniform(0.5, 2.0, (N, K)) * (action >= 0),
    }
    return parameters, given


def seen(at: Parameters, scale: Floats, k: int, other: int) -> float:
    return float(at.sight[k, other] * scale[0 if other < k else 1])


def naive_parts(at: Parameters, actions: NDArray, x: Floats, f: int, scale: Floats, k: int) -> tuple[float, float]:
    """Return own and other part (pairs and triples) at position k, term by term."""
    u = actions[k]
    own = float(x @ at.own[f, u] + at.shift[f, k])
    rest = [m for m in range(len(actions)) if m != k and actions[m] >= 0]
    other = sum(seen(at, scale, k, m) * at.pair[f, u, actions[m]] for m in rest)
    for i, one in enumerate(rest):
        for two in rest[i + 1 :]:
            strength = seen(at, scale, k, one) * seen(at, scale, k, two)
            other += strength * at.triple[f, u, actions[one], actions[two]]
    return own, other


def test_parts_and_triples_equal_their_terms() -> None:
    at, given = world(1)
    parts = at.parts(given["x"], given["action"], given["fold"])
    triples = at.triples(given["action"], given["fold"], given["scale"])
    for i in range(N):
        for k in range(K):
            if given["action"][i, k] < 0:
                assert parts[:, i, k].tolist() == [0.0, 0.0, 0.0] and triples[i, k] == 0.0
                continue
            own, other = naive_parts(at, given["action"][i], given["x"][i], given["fold"][i], given["scale"][i], k)
            got = parts[1, i, k] * given["scale"][i, 0] + parts[2, i, k] * given["scale"][i, 1] + triples[i, k]
            assert parts[0, i, k] == pytest.approx(own, abs=1e-12)
            assert got == pytest.approx(other, abs=1e-12)


def features(at: Parameters, given: dict[str, NDArray], i: int, k: int) -> Floats:
    """Return the row of the effects' design: blocks by own action, then positions."""
    row = np.zeros(A * (P + A) + K)
    actions = given["action"][i]
    first = actions[k] * (P + A)
    row[first : first + P] = given["slope"][0, i, k] * given["x"][i]
    for m in range(K):
        if m != k and actions[m] >= 0:
            row[first + P + actions[m]] += given["slope"][1, i, k] * seen(at, given["scale"][i], k, m)
    row[A * (P + A) + k] = given["slope"][0, i, k]
    return row


@pytest.mark.parametrize("together", [0.0, 0.2])
def test_effect_grams_are_the_normal_equations_with_shared_noise(together: float) -> None:
    at, given = world(2)
    if together:
        given["weight"] = (given["action"] >= 0).astype(float)
    size = A * (P + A) + K
    gram, right = np.zeros((F, size, size)), np.zeros((F, size))
    shared = np.full(N, together)
    rows = (given["action"], given["fold"], given["x"], given["scale"], at.sight)
    step = (given["slope"], given["weight"], given["error"])
    visibility_blocks.add_effects(*rows, *step, A, gram, right)
    visibility_blocks.subtract_shared(*rows, *step, shared, A, gram, right)
    wanted, side = np.zeros(gram.shape), np.zeros(right.shape)
    for i in range(N):
        used = np.flatnonzero(given["action"][i] >= 0)
        design = np.array([features(at, given, i, k) for k in used])
        inverse = np.diag(given["weight"][i, used]) - together * np.ones((len(used), len(used)))
        wanted[given["fold"][i]] += design.T @ inverse @ design
        side[given["fold"][i]] += design.T @ inverse @ given["error"][i, used]
    np.testing.assert_allclose(np.tril(gram), np.tril(wanted), atol=1e-10)
    np.testing.assert_allclose(right, side, atol=1e-10)


def test_sight_and_triple_grams_equal_their_designs() -> None:
    at, given = world(3)
    gram, right = np.zeros((K, K, K)), np.zeros((K, K))
    visibility_grams.add_sight(
        given["action"], given["scale"], at.pair[0], given["slope"][1], given["weight"], given["error"], gram, right
    )
    columns = A * (A + 1) // 2
    cubes, sides = np.zeros((F, A, columns, columns)), np.zeros((F, A, columns))
    visibility_grams.add_triples(given["action"], given["fold"], given["scale"], at.sight, given["error"], cubes, sides)
    wanted, side = np.zeros_like(gram), np.zeros_like(right)
    wanted_cubes, wanted_sides = np.zeros_like(cubes), np.zeros_like(sides)
    for i, k in product(range(N), range(K)):
        actions, scale = given["action"][i], given["scale"][i]
        if actions[k] < 0:
            continue
        rest = [m for m in range(K) if m != k and actions[m] >= 0]
        row, squares = np.zeros(K), np.zeros(columns)
        for m in rest:
            row[m] = given["slope"][1, i, k] * scale[0 if m < k else 1] * at.pair[0, actions[k], actions[m]]
            for other in rest:
                if other > m:
                    low, high = sorted((actions[m], actions[other]))
                    squares[high * (high + 1) // 2 + low] += seen(at, scale, k, m) * seen(at, scale, k, other)
        wanted[k] += given["weight"][i, k] * np.outer(row, row)
        side[k] += given["weight"][i, k] * row * given["error"][i, k]
        wanted_cubes[given["fold"][i], actions[k]] += np.outer(squares, squares)
        wanted_sides[given["fold"][i], actions[k]] += squares * given["error"][i, k]
    np.testing.assert_allclose(np.tril(gram), np.tril(wanted), atol=1e-10)
    np.testing.assert_allclose(right, side, atol=1e-10)
    np.testing.assert_allclose(np.tril(cubes), np.tril(wanted_cubes), atol=1e-10)
    np.testing.assert_allclose(sides, wanted_sides, atol=1e-10)


def enumerated(at: Parameters, given: dict[str, NDArray], wanted: Floats, i: int, link: Link) -> Floats:
    """Return E_pi q of row i by summing over every ranking."""
    length = int(given["lengths"][i])
    out = np.zeros(K)
    for actions in product(range(A), repeat=length):
        chance = np.prod([wanted[i, min(k, wanted.shape[1] - 1), a] for k, a in enumerate(actions)])
        for k in range(length):
            own, other = naive_parts(at, np.array(actions), given["x"][i], given["fold"][i], given["scale"][i], k)
            out[k] += chance * float(link.value(np.array([own]), np.array([other]))[0])
    return out


@pytest.mark.parametrize("places", [1, K])
def test_means_equal_enumeration(places: int) -> None:
    at, given = world(4)
    wanted = np.random.default_rng(5).dirichlet(np.ones(A), (N, places))
    out = np.zeros((N, K))
    visibility_means.means(
        given["lengths"], given["fold"], given["x"], given["scale"], wanted, at.own, at.shift, at.sight, at.pair,
        at.triple, out,
    )  # fmt: skip
    for i in range(8):
        np.testing.assert_allclose(out[i], enumerated(at, given, wanted, i, SUM), atol=1e-11)


def test_alike_means_equal_the_general_ones() -> None:
    at, given = world(6, ragged=False)
    wanted = np.random.default_rng(7).dirichlet(np.ones(A), (N, 1))
    general, alike = np.zeros((N, K)), np.zeros((N, K))
    rest = (at.own, at.shift, at.sight, at.pair, at.triple)
    visibility_means.means(given["lengths"], given["fold"], given["x"], given["scale"], wanted, *rest, general)
    visibility_means.alike_means(given["fold"], given["x"], given["scale"], wanted[:, 0], *rest, alike)
    np.testing.assert_allclose(alike, general, atol=1e-11)


@pytest.mark.parametrize("link", [LOGISTIC, PRODUCT])
def test_curved_means_equal_enumeration_when_every_ranking_is_drawn_once(link: Link) -> None:
    at, given = world(8, ragged=False)
    at = Parameters(at.own, at.shift, at.pair, np.zeros((F, 0, 0, 0)), at.sight, at.tilt)
    no_triples = Parameters(at.own, at.shift, at.pair, np.zeros((F, A, A, A)), at.sight, at.tilt)
    every = np.array(list(product(range(A), repeat=K)))
    draws = np.broadcast_to(every, (N, *every.shape)).copy()
    wanted = np.full((N, 1, A), 1 / A)
    out = np.zeros((N, K))
    curved_means(
        link == PRODUCT, draws, given["lengths"], given["fold"], given["x"], given["scale"], wanted, at.own, at.shift,
        at.sight, at.pair, out,
    )  # fmt: skip
    for i in range(4):
        np.testing.assert_allclose(out[i], enumerated(no_triples, given, wanted, i, link), atol=1e-11)


@pytest.mark.parametrize("link", [SUM, LOGISTIC, PRODUCT])
def test_slopes_are_derivatives(link: Link) -> None:
    rng = np.random.default_rng(9)
    own, pair, one = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), np.ones((5, 3))
    reward = (rng.random((5, 3)) < 0.5).astype(float)
    q, step = link.value(own, pair), 1e-6
    at = link.slopes(q, lambda: pair, reward, one)
    for part, moved in ((0, link.value(own + step, pair)), (1, link.value(own, pair + step))):
        # For a logistic link the slope of the linear part is 1 and its variance is the weight.
        slope = at.slope[part] * (at.weight if link == LOGISTIC else one)
        np.testing.assert_allclose(slope, (moved - q) / step, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(at.error * (at.weight if link == LOGISTIC else 1.0), reward - q, atol=1e-12)


def test_kernels_leave_their_inputs_alone() -> None:
    at, given = world(10)
    before = {name: value.copy() for name, value in given.items()}
    visibility.triples(given["action"], given["fold"], given["scale"], at.sight, at.triple, np.zeros((N, K)))
    at.parts(given["x"], given["action"], given["fold"])
    for name, value in before.items():
        np.testing.assert_array_equal(given[name], value)
