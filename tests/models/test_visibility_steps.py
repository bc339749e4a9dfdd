"""The compiled passes of a visibility step against their formulas, over more rows than one block holds."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from counterrank.models.kernels import visibility_blocks, visibility_grams
from counterrank.models.kernels.visibility_draws import curved_means
from counterrank.models.kernels.visibility_tilt import add_tilt
from counterrank.models.visibility.links import LOGISTIC, PRODUCT, SUM, Link
from counterrank.models.visibility.rows import Rows, moods
from counterrank.models.visibility.steps import effects_step, sight_step, start, tilt_step

Floats = NDArray[np.float64]
N, K, A, M = 300, 5, 3, 6


def ragged(rng: np.random.Generator) -> NDArray[np.int64]:
    action = rng.integers(0, A, (N, K))
    action[np.arange(K) >= rng.integers(1, K + 1, N)[:, None]] = -1
    return action


@pytest.mark.parametrize("link", [SUM, LOGISTIC, PRODUCT])
def test_predictions_are_the_link_of_the_parts(link: Link) -> None:
    rng = np.random.default_rng(1)
    parts, scale, offset = rng.normal(size=(3, N, K)), rng.uniform(0, 2, (N, 2)), rng.normal(size=(N, K))
    parts[1, 0] = 100.0  # beyond the largest exponent
    pair = parts[1] * scale[:, :1] + parts[2] * scale[:, 1:] + offset
    np.testing.assert_allclose(link.predicted(parts, scale, offset), link.value(parts[0], pair), rtol=1e-12)


@pytest.mark.parametrize("positions", [3, 40])
def test_logistic_loss_and_slopes_are_those_of_the_likelihood(positions: int) -> None:
    rng = np.random.default_rng(2)
    q, present = rng.uniform(0.01, 0.99, (N, positions)), (rng.random((N, positions)) < 0.8).astype(float)
    reward = (rng.random(q.shape) < q) * present
    q[0], q[1] = 0.0, 1.0  # as far out as the clip lets them count, forty in a row
    chance = np.clip(q, 1e-9, 1 - 1e-9)
    wanted = -2.0 * (present * np.where(reward > 0.5, np.log(chance), np.log1p(-chance))).sum()
    assert LOGISTIC.loss(q, reward, present, np.zeros(N)) == pytest.approx(wanted, rel=1e-10)
    at, variance = LOGISTIC.slopes(q, lambda: q, reward, present), np.maximum(q * (1 - q), 1e-5)
    np.testing.assert_allclose(at.weight, variance * present, rtol=1e-14)
    np.testing.assert_allclose(at.error, (reward - q) / variance * present, rtol=1e-14)


@pytest.mark.parametrize("d", [0, 2, 6, 7, 21])
def test_moods_are_columns_and_products(d: int) -> None:
    x = np.concatenate([np.ones((N, 1)), np.random.default_rng(3).normal(size=(N, d))], axis=1)
    wanted = [x[:, 1 + j] for j in range(d)]
    for j, h in product(range(d), repeat=2):
        if (d <= 6 and j <= h) or (6 < d <= 20 and j == h):
            wanted.append(x[:, 1 + j] * x[:, 1 + h] - (j == h))
    np.testing.assert_allclose(moods(x), np.array(wanted).T if d else np.empty((N, 0)), atol=1e-14)


@pytest.mark.parametrize("alike", [False, True])
def test_tilt_grams_are_the_normal_equations_with_shared_noise(alike: bool) -> None:
    rng = np.random.default_rng(4)
    present = ragged(rng) >= 0
    parts, seen = rng.normal(size=(3, N, K)) * present, rng.normal(size=(N, M))
    slope, shared = rng.uniform(0.5, 2.0, (1 if alike else N, K)), rng.uniform(0, 0.1, N)
    weight, error = rng.uniform(0.5, 2.0, (N, K)) * present, rng.normal(size=(N, K)) * present
    gram, right = np.zeros((3, 8, 8)), np.zeros((2, M))
    add_tilt(seen, parts, slope, weight, error, shared, gram, right)
    wanted, side = np.zeros((2 * M, 2 * M)), np.zeros(2 * M)
    for i in range(N):
        pairs = parts[1:, i] * slope[0 if alike else i]  # (2, K)
        design = np.concatenate([pairs[0][:, None] * seen[i], pairs[1][:, None] * seen[i]], axis=1)
        wanted += design.T @ (np.diag(weight[i]) - shared[i]) @ design
        # Of the right side only the squared errors are weighed: the shared part sees them as they are.
        side += design.T @ (weight[i] * error[i] - shared[i] * error[i].sum())
    lower = np.tril(wanted[:M, :M]), np.tril(wanted[M:, :M]), np.tril(wanted[M:, M:])
    np.testing.assert_allclose(np.tril(gram)[:, :M, :M], np.array(lower), atol=1e-9)
    np.testing.assert_allclose(right.ravel(), side, atol=1e-9)


def test_one_row_of_slopes_stands_for_all() -> None:
    rng = np.random.default_rng(5)
    action, fold, x = ragged(rng), rng.integers(0, 2, N), rng.normal(size=(N, 2))
    scale, sight, pair = rng.uniform(0, 2, (N, 2)), rng.normal(size=(K, K)), rng.normal(size=(A, A))
    weight, error = rng.uniform(0.5, 2, (N, K)) * (action >= 0), rng.normal(size=(N, K)) * (action >= 0)
    one = rng.uniform(0.5, 2.0, (2, 1, K))
    size, found = A * (2 + A) + K, []
    for slope in (one, np.repeat(one, N, axis=1)):
        effects = np.zeros((2, size, size)), np.zeros((2, size))
        given = (action, fold, x, scale, sight, slope, weight, error)
        visibility_blocks.add_effects(*given, A, *effects)
        visibility_blocks.subtract_shared(*given, np.full(N, 0.1), A, *effects)
        sights = np.zeros((K, K, K)), np.zeros((K, K))
        visibility_grams.add_sight(action, scale, pair, slope[1], weight, error, *sights)
        found.append((*effects, *sights))
    for few, all_rows in zip(*found, strict=True):
        assert np.abs(few).max() > 1.0
        np.testing.assert_allclose(few, all_rows, rtol=1e-12)


def test_sight_grams_over_many_blocks_equal_their_design() -> None:
    rng = np.random.default_rng(6)
    action, scale, pair = ragged(rng), rng.uniform(0, 2, (N, 2)), rng.normal(size=(A, A))
    slope, weight = rng.uniform(0.5, 2, (N, K)), rng.uniform(0.5, 2, (N, K)) * (action >= 0)
    error = rng.normal(size=(N, K)) * (action >= 0)
    gram, right = np.zeros((K, K, K)), np.zeros((K, K))
    visibility_grams.add_sight(action, scale, pair, slope, weight, error, gram, right)
    for k in range(K):
        above = np.where(np.arange(K) < k, scale[:, :1], scale[:, 1:]) * (np.arange(K) != k) * (action >= 0)
        design = above * pair[action[:, k, None], action] * slope[:, k, None]
        weighed = design * weight[:, k, None]
        np.testing.assert_allclose(np.tril(gram[k]), np.tril(weighed.T @ design), atol=1e-9)
        np.testing.assert_allclose(right[k], weighed.T @ error[:, k], atol=1e-9)


@pytest.mark.parametrize(("link", "places"), [(LOGISTIC, 1), (LOGISTIC, K), (PRODUCT, 1)])
def test_curved_means_average_the_link_over_draws_and_own_actions(link: Link, places: int) -> None:
    rng = np.random.default_rng(7)
    F, S = 3, 2
    action = ragged(rng)
    lengths, fold, x = (action >= 0).sum(axis=1), rng.integers(0, F, N), rng.normal(size=(N, 2))
    draws = np.where(action[:, None] >= 0, rng.integers(0, A, (N, S, K)), -1)
    scale, wanted = rng.uniform(0, 2, (N, 2)), rng.dirichlet(np.ones(A), (N, places))
    own, shift = rng.normal(size=(F, A, 2)), rng.normal(size=(F, K))
    sight, pair = rng.normal(size=(K, K)), rng.normal(size=(F, A, A))
    out = np.zeros((N, K))
    curved_means(link == PRODUCT, draws, lengths, fold, x, scale, wanted, own, shift, sight, pair, out)
    naive = np.zeros((N, K))
    for i, k, u, s in product(range(N), range(K), range(A), range(S)):
        if k < lengths[i]:
            rest = [m for m in range(lengths[i]) if m != k]
            effect = sum(sight[k, m] * scale[i, int(m > k)] * pair[fold[i], u, draws[i, s, m]] for m in rest)
            plain = np.array([x[i] @ own[fold[i], u] + shift[fold[i], k]])
            value = link.value(plain, np.array([effect], dtype=float))[0]
            naive[i, k] += wanted[i, min(k, places - 1), u] * value / S
    np.testing.assert_allclose(out, naive, rtol=1e-11, atol=1e-12)


def test_steps_do_not_depend_on_how_many_numbers_a_block_has() -> None:
    """Visibility and its tilt have sixteen numbers each; one more column of zeros changes neither step."""
    rng = np.random.default_rng(8)
    x = np.concatenate([np.ones((N, 1)), rng.normal(size=(N, 4))], axis=1)
    action, reward, present = rng.integers(0, A, (N, 4)), rng.normal(size=(N, 4)), np.ones((N, 4))
    rows = Rows(x, np.ascontiguousarray(moods(x)[:, :8]), action, reward, present, np.zeros(N, dtype=np.int64))
    wide = replace(rows, moods=np.concatenate([rows.moods, np.zeros((N, 1))], axis=1))
    found = []
    for given in (rows, wide):
        before = sight_step(effects_step(start(given, SUM, A), given), given)
        after, penalty = tilt_step(before, given), before.prior.tilt_penalty
        assert after.loss(given) + penalty * (after.parameters.tilt**2).sum() < before.loss(given)
        found.append((before.parameters.sight, after.parameters.tilt[:, :8]))
    for narrow, same in zip(*found, strict=True):
        np.testing.assert_allclose(narrow, same, rtol=1e-9)
