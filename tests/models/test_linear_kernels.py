"""Naive twins of the kernels."""

import numpy as np
import pytest

from counterrank.data.encoding import ContextMoments
from counterrank.data.source import MemorySource
from counterrank.models import linear, settings
from counterrank.models.columns import Grouping, Layout, count_slots, pair_slots
from counterrank.models.grams import grams_of, shared_grams
from counterrank.models.linear import newton_sums, train
from counterrank.models.rankings import draw_rankings
from counterrank.research.simulate import random


@pytest.fixture(scope="module")
def log():
    env = random(4, K=4, actions=3, d=2, context_policies=True)
    return env.draw(300, np.random.default_rng(0)).to_log()


def layout_of(log, **options):
    slots = options.pop("slots", pair_slots(4))
    return Layout(4, 3, 3, slots, *ContextMoments.from_batch(log).mean_and_spread, **options)


def naive_features(log, layout, i, k):
    a, A = log.action[i], layout.A
    x = layout.standardised(log.context)[i]
    near = np.clip(x[1:], -3, 3)
    other = [m for m in range(4) if m != k]
    count = np.array([sum(a[m] == b for m in other) for b in range(A)], dtype=float)
    columns = [*x]
    if layout.curved:
        pairs = [(j, m) for j in range(len(near)) for m in range(j, len(near))]
        columns += [near[j] * near[m] - (j == m) for j, m in pairs]
    if layout.cross:
        columns += [x[j] * count[b] for j in range(1, len(x)) for b in range(A)]
    if layout.squares:
        pairs = [(b, c) for b in range(A) for c in range(b, A) if layout.squares == 1 or b == c]
        columns += [count[b] * count[c] for b, c in pairs]
    blocks = np.zeros((layout.blocks, A))
    for m in other:
        blocks[layout.slots[k, m], a[m]] += 1
    return np.array([*columns, *blocks.ravel()])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cross": True},
        {"squares": 1},
        {"squares": 2, "cross": True},
        {"slots": count_slots(4)},
        {"curved": True},
        {"cross": True, "groups": Grouping(1, np.array([-0.4, 0.6]))},
    ],
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
        f, x = log.bucket[i] % 3, layout.standardised(log.context)[i]
        b = 0 if layout.groups is None else sum(x[2] > cut for cut in layout.groups.cuts)
        for k in range(4):
            z = naive_features(log, layout, i, k)
            u, r = log.action[i, k], log.reward[i, k]
            gram[f, b, k, u] += np.outer(z, z)
            cover[f, b, k, u] += r * z
            square[f, b, k, u] += r * r
    np.testing.assert_allclose(found.gram, gram, atol=1e-9)
    np.testing.assert_allclose(found.cover, cover, atol=1e-9)
    np.testing.assert_allclose(found.square, square, atol=1e-9)


@pytest.mark.parametrize("slots", [pair_slots(4), count_slots(4)])
def test_sums_of_a_newton_step_equal_the_naive_ones(log, slots):
    """Clicks at three of four positions, pages of two to four items, and chances up to nought and one."""
    layout, rng = layout_of(log, slots=slots), np.random.default_rng(2)
    lengths = rng.integers(2, 5, log.n)
    shown = np.arange(4) < lengths[:, None]
    batch = log.changed(
        action=np.where(shown, log.action, -1), reward=1.0 * shown * (rng.random((log.n, 4)) < 0.3), lengths=lengths
    )  # fmt: skip
    coef = rng.normal(0, 4, (3, 4, 3, layout.width))
    gram, slope = np.zeros((*coef.shape, layout.width)), np.zeros_like(coef)
    for i in range(log.n):
        x, f = layout.standardised(log.context)[i], log.bucket[i] % 3
        for k in range(lengths[i]):
            z, u = np.zeros(layout.width), batch.action[i, k]
            z[: len(x)] = x
            for m in range(lengths[i]):
                z[len(x) + slots[k, m] * 3 + batch.action[i, m]] += m != k
            p = 1 / (1 + np.exp(-z @ coef[f, k, u]))
            gram[f, k, u] += max(p * (1 - p), 1e-5) * np.outer(z, z)
            slope[f, k, u] += z * (batch.reward[i, k] - p)
    found = newton_sums(batch, layout, coef)
    np.testing.assert_allclose(found[..., :-1, :-1], gram, atol=1e-10)
    np.testing.assert_allclose(found[..., -1, :-1], slope, atol=1e-10)
    parts = [newton_sums(part, layout, coef) for part in batch.chunks(77)]
    np.testing.assert_allclose(sum(parts[1:], parts[0]), found, atol=1e-10)


def test_other_rewards_of_the_same_rows_share_what_does_not_depend_on_them(log):
    layout, shared = layout_of(log, cross=True, squares=1), {}
    other = log.changed(reward=np.where(log.action >= 0, log.reward**2 + log.action, 0.0))
    first, second = (
        shared_grams(MemorySource(rows, threads=1), layout, "gram", shared) for rows in (log, other)
    )
    assert second.gram is first.gram
    for found, rows in ((first, log), (second, other)):
        alone = grams_of(rows, layout)
        for name in ("gram", "cover", "square", "rows"):
            np.testing.assert_allclose(
                getattr(found, name), getattr(alone, name), rtol=1e-10, atol=1e-10
            )


def test_layouts_of_different_groups_share_no_sums(log):
    layouts = [
        layout_of(log, groups=groups)
        for groups in (
            None,
            Grouping(0, np.zeros(1)),
            Grouping(1, np.zeros(1)),
            Grouping(1, np.ones(1)),
        )
    ]
    assert len({layout.key for layout in layouts}) == len(layouts)


def test_newton_steps_that_would_change_nothing_are_not_made(log, monkeypatch):
    clicks = log.changed(reward=(log.reward > np.median(log.reward)).astype(float))
    training, calls = train(MemorySource(clicks, threads=1)), []

    def counted_sums(*given):
        calls.append(1)
        return newton_sums(*given)

    monkeypatch.setattr(linear, "newton_sums", counted_sums)
    monkeypatch.setattr(settings, "NEWTON_STEPS", 12)
    found = linear.fit_logistic(training)
    stopped = len(calls)
    monkeypatch.setattr(settings, "NEWTON_ENOUGH", -1.0)
    np.testing.assert_allclose(found, linear.fit_logistic(training), rtol=0, atol=1e-9)
    assert stopped < 13 == len(calls) - stopped


def test_grams_add_over_any_chunking(log):
    layout = layout_of(log, cross=True, squares=1)
    whole = grams_of(log, layout)
    parts = [grams_of(part, layout) for part in log.chunks(77)]
    added = parts[0] + parts[1] + parts[2] + parts[3]
    for name in ("gram", "cover", "square", "rows"):
        np.testing.assert_allclose(
            getattr(added, name), getattr(whole, name), rtol=1e-10, atol=1e-10
        )


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
