"""Naive twins of the kernels."""

from itertools import combinations, product

import numpy as np
import pytest

from counterrank.data.encoding import ContextMoments
from counterrank.estimators.weights.kernels.weights import exact_squares, others_polynomial
from counterrank.models.columns import Layout, count_slots, pair_slots, whole_distribution
from counterrank.models.draws import draw_rankings
from counterrank.models.ridge import grams_of
from counterrank.research.simulate import random


@pytest.fixture(scope="module")
def log():
    env = random(4, K=4, actions=3, d=2, context_policies=True)
    return env.draw(300, np.random.default_rng(0)).to_log()


def layout_of(log, **options):
    slots = options.pop("slots", pair_slots(4))
    return Layout(4, 3, 2, 3, slots, ContextMoments.of(log), **options)


def naive_features(log, layout, i, k):
    p0 = whole_distribution(log, "propensity")[i]
    a, A = log.action[i], layout.A
    x = layout.scale.standardised(log.context)[i]
    other = [m for m in range(4) if m != k]
    count = np.array([sum(a[m] == b for m in other) for b in range(A)], dtype=float)
    table = [p0[m if len(p0) > 1 else 0] for m in other]
    mean = np.sum(table, axis=0)
    second = np.outer(mean, mean) + np.diag(mean) - sum(np.outer(p, p) for p in table)
    columns = [*x, *p0.mean(axis=0)]
    if layout.cross:
        columns += [x[j] * (count[b] - mean[b]) for j in range(1, len(x)) for b in range(A)]
    if layout.squares:
        pairs = [(b, c) for b in range(A) for c in range(b, A) if layout.squares == 1 or b == c]
        columns += [count[b] * count[c] - second[b, c] for b, c in pairs]
    blocks = np.zeros((layout.blocks, A))
    for m in other:
        blocks[layout.slots[k, m], a[m]] += 1
    return np.array([*columns, *blocks.ravel()])


@pytest.mark.parametrize(
    "options",
    [{}, {"cross": True}, {"squares": 1}, {"squares": 2, "cross": True}, {"slots": count_slots(4)}],
)
def test_grams_equal_the_naive_sums(log, options):
    layout = layout_of(log, **options)
    found = grams_of(log, layout)
    gram, cover, square = (
        np.zeros_like(found.gram),
        np.zeros_like(found.cover),
        np.zeros_like(found.square),
    )
    for i in range(log.n):
        f = log.bucket[i] % 3
        for k in range(4):
            z = naive_features(log, layout, i, k)
            u, r = log.action[i, k], log.reward[i, k]
            gram[f, k, u] += np.outer(z, z)
            cover[f, k, u] += r * z
            square[f, k, u] += r * r
    np.testing.assert_allclose(found.gram, gram, atol=1e-9)
    np.testing.assert_allclose(found.cover, cover, atol=1e-9)
    np.testing.assert_allclose(found.square, square, atol=1e-9)


def test_grams_add_over_any_chunking(log):
    layout = layout_of(log, cross=True, squares=1)
    whole = grams_of(log, layout)
    parts = [grams_of(part, layout) for part in log.chunks(77)]
    added = parts[0] + parts[1] + parts[2] + parts[3]
    for name in ("gram", "cover", "square", "rows"):
        np.testing.assert_allclose(
            getattr(added, name), getattr(whole, name), rtol=1e-10, atol=1e-10
        )


def naive_order(rho, k, m):
    others = [rho[j] - 1 for j in range(len(rho)) if j != k]
    return rho[k] * sum(np.prod(t) for size in range(m) for t in combinations(others, size))


@pytest.mark.parametrize("alike", [False, True])
def test_exact_second_moments_equal_enumeration(alike):
    rng = np.random.default_rng(6)
    K, A, orders = 3, 3, np.array([1, 2])
    rows = 1 if alike else K
    p0, p1 = (
        rng.dirichlet(np.ones(A) * 3, size=(1, rows)),
        rng.dirichlet(np.ones(A), size=(1, rows)),
    )
    out = np.zeros(3)
    assert exact_squares(p0, p1, np.array([K]), orders, out) == 0
    p0, p1 = np.broadcast_to(p0, (1, K, A)), np.broadcast_to(p1, (1, K, A))
    expected = np.zeros(3)
    for a in product(range(A), repeat=K):
        rho = np.array([p1[0, k, a[k]] / p0[0, k, a[k]] for k in range(K)])
        chance = np.prod([p0[0, k, a[k]] for k in range(K)])
        for j, m in enumerate((1, 2, 3)):
            expected[j] += chance * sum(naive_order(rho, k, m) ** 2 for k in range(K))
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_polynomials_do_not_overflow_at_sixty_positions():
    poly = np.zeros(6)
    others_polynomial(np.full(60, 9.0), 3, poly)
    assert np.isfinite(poly).all() and poly[1] == pytest.approx(59 * 9)


def test_draws_follow_the_distribution_and_ignore_chunks():
    dist = np.tile([0.5, 0.0, 0.3, 0.2], (4000, 1, 1))
    out, lengths = np.empty((4000, 5, 2), dtype=np.int64), np.full(4000, 2)
    draw_rankings(dist, lengths, np.arange(4000), 3, out)
    part = np.empty((1000, 5, 2), dtype=np.int64)
    draw_rankings(dist[:1000], lengths[:1000], np.arange(3000, 4000), 3, part)
    assert (part == out[3000:]).all()
    # 40,000 draws: |z| < 5 for three free cells is a false alarm in about 2 of a million seeds.
    share = np.bincount(out.ravel(), minlength=4) / out.size
    assert share[1] == 0
    assert (np.abs(share - dist[0, 0]) < 5 * np.sqrt(0.25 / out.size)).all()
