"""The split search against brute force over every feature, threshold and pair of models."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.behavior.growing import Features, Grower, bin_order, confirm, rows_of, totals_of
from counterrank.behavior.objective import Objective, least_score
from counterrank.behavior.settings import TreeLimits

VALUE = 2.3


def objective(n: int, *, kappa: float = 1.0) -> Objective:
    return Objective(
        models=3,
        n_grow=n,
        n_apply=2 * n,
        tails=np.ones(3),
        value=VALUE,
        contrast=(0, 2),
        kappa=kappa,
    )


def data(seed: int, n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 6, size=(n, 2)).astype(np.uint8)  # bin 0 holds missing values
    # Sparser models vary less, but are off in groups of their own.
    off = np.stack(
        [np.zeros(n), 1.5 * (codes[:, 0] > 3), 2.0 * (codes[:, 1] < 2) + 1.0 * (codes[:, 0] == 2)],
        axis=1,
    )
    y = 2.0 + rng.normal(size=(n, 3)) * [4.0, 1.5, 0.3] + off
    return y, codes


def grown(y: np.ndarray, codes: np.ndarray, goal: Objective, **limits: float) -> Grower:
    grower = Grower(
        goal,
        TreeLimits(**{"max_depth": 1, "min_leaf": 10, "min_gain": 0.0, **limits}),
        np.array([6] * codes.shape[1], dtype=np.int64),
        np.zeros(codes.shape[1], dtype=bool),
    )
    grower.grow(rows_of(goal, y, np.ones(len(y)), codes))
    return grower


def every_split(codes: np.ndarray, least: int):
    for f in range(codes.shape[1]):
        for cut in range(6):
            for missing_left in (True, False):
                left = (codes[:, f] <= cut) & (codes[:, f] > 0) | (
                    (codes[:, f] == 0) & missing_left
                )
                if least <= left.sum() <= len(codes) - least:
                    yield left


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), kappa=st.sampled_from([0.0, 1.0, 4.0]))
def test_best_split_is_the_best_of_all(score_of_naive, seed, kappa):
    y, codes = data(seed)
    goal = objective(len(y), kappa=kappa)
    n = len(y)

    def score(choice):
        return score_of_naive(y, choice, VALUE, kappa, n_apply=2 * n)

    root = min(score(np.full(n, m)) for m in range(3))
    best = root
    for left in every_split(codes, 10):
        for a in range(3):
            for b in range(3):
                best = min(best, score(np.where(left, a, b)))
    grower = grown(y, codes, goal)
    assert grower.scores[0] == pytest.approx(best, rel=1e-9)
    assert grower.score == pytest.approx(best, rel=1e-9)
    if grower.count == 1:
        assert best == pytest.approx(root, rel=1e-9)


@pytest.fixture(scope="module")
def score_of_naive():
    from importlib import util
    from pathlib import Path

    spec = util.spec_from_file_location("naive", Path(__file__).with_name("conftest.py"))
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.naive_score


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_deeper_trees_never_score_worse(seed):
    y, codes = data(seed, n=400)
    scores = [grown(y, codes, objective(400), max_depth=depth).score for depth in range(4)]
    assert all(
        after <= before * (1 + 1e-9) for before, after in zip(scores, scores[1:], strict=False)
    )


def test_node_sums_add_up_and_leaves_are_large_enough():
    y, codes = data(5, n=600)
    grower = grown(y, codes, objective(600), max_depth=4, min_leaf=30)
    feature, left, right, _ = grower.tree
    assert grower.count > 3
    for at in range(grower.count):
        if feature[at] >= 0:
            np.testing.assert_allclose(
                grower.stats[at],
                grower.stats[left[at]] + grower.stats[right[at]],
                rtol=1e-12,
                atol=1e-9,
            )
        assert grower.stats[at, 0] >= 30


def test_limits_on_leaves_and_gain_are_kept():
    y, codes = data(6, n=600)
    assert (grown(y, codes, objective(600), max_depth=5, max_leaves=3).count + 1) // 2 <= 3
    assert grown(y, codes, objective(600), max_depth=5, min_gain=1.0).count == 1


def test_sibling_histogram_by_subtraction_equals_the_direct_sum():
    """Growth level by level from histograms of every node (the streamed way) gives the same tree."""
    y, codes = data(7, n=500)
    goal = objective(500)
    fast = grown(y, codes, goal, max_depth=3)
    slow = Grower(goal, fast.limits, *fast.features)
    rows = rows_of(goal, y, np.ones(500), codes)
    node = np.zeros(500, dtype=np.int32)
    slow.start(rows.totals())
    while len(slow.wants):
        hist = np.zeros((len(slow.wants), 2, 6, goal.width))
        stats = [rows._replace(chosen=np.array([i])).totals() for i in range(500)]
        for place, at in enumerate(slow.wants):
            for i in np.flatnonzero(node == at):
                for f in range(2):
                    hist[place, f, codes[i, f]] += stats[i]
        slow.split(hist)
        feature, left, right, _ = slow.tree
        for i in range(500):
            at = node[i]
            if feature[at] >= 0:
                node[i] = left[at] if slow.goes_left[at, codes[i, feature[at]]] else right[at]
    np.testing.assert_array_equal(fast.tree[:, : fast.count], slow.tree[:, : slow.count])
    np.testing.assert_allclose(fast.scores[: fast.count], slow.scores[: slow.count], rtol=1e-9)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_confirmation_keeps_the_splits_that_help_on_other_rows(seed):
    """After pruning, the objective on the confirming rows is no worse, and each last split still
    lowers it.
    """
    y, codes = data(seed, n=600)
    goal = objective(300)
    grower = grown(y[:300], codes[:300], goal, max_depth=3)
    sums = grower.node_sums(rows_of(goal, y[300:], np.ones(300), codes[300:]))
    channels, score = goal.goal.channels(sums), goal.goal.score
    before = score(totals_of(grower.tree, channels))
    confirm(grower, goal, sums)
    total = totals_of(grower.tree, channels)
    after = score(total)
    assert after <= before * (1 + 1e-12)
    feature, left, right, model = grower.tree
    kept = [
        at
        for at in range(grower.count)
        if feature[at] >= 0 and feature[left[at]] < 0 and feature[right[at]] < 0
    ]
    for at in set(kept) & set(reachable(grower)):
        a, b = left[at], right[at]
        merged = total - channels[a, model[a]] - channels[b, model[b]] + channels[at, model[at]]
        assert score(merged) > after


def reachable(grower):
    stack, found = [0], []
    while stack:
        at = stack.pop()
        found.append(at)
        if grower.tree[0, at] >= 0:
            stack += [int(grower.tree[1, at]), int(grower.tree[2, at])]
    return found


def test_a_margin_counts_a_bias_more():
    plain, wide = objective(50), replace(objective(50), margin=0.5)
    totals = np.array([2.0, 5.0])
    assert plain.goal.score(totals) == pytest.approx(1 / 100 + 0.3**2 - 1 / 50)
    assert wide.goal.score(totals) == pytest.approx(1 / 100 + 0.8**2 - 1 / 50)


def test_scores_are_only_found_below_what_is_asked():
    totals = np.array([1.0, 3.0]).reshape(1, 1, -1)
    goal, nothing = objective(50).goal, np.zeros((1, 1, 2))
    full = goal.score(totals)
    assert goal.best(totals, nothing, below=full * 1.01) == (full, 0, 0, 0)
    assert goal.best(totals, nothing, below=full) == (full, -1, -1, -1)
    assert goal.best(totals, nothing, below=full * 0.5) == (full * 0.5, -1, -1, -1)


@pytest.mark.parametrize("different", [True, False])
def test_least_score_is_the_least_of_every_pair(different):
    """Small whole numbers tie often: the first of them wins."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        left, right = rng.integers(0, 4, (2, 5, 3, 2)).astype(float)
        goal = objective(50, kappa=float(rng.integers(0, 3))).goal
        best, place = np.inf, (-1, -1, -1)
        for i, a, b in np.ndindex(5, 3, 3):
            value = goal.score(left[i, a] + right[i, b])
            if value < best and not (different and a == b):
                best, place = value, (i, a, b)
        found = least_score(left, right, goal.rule, goal.targets, np.inf, different)
        assert found == (best, *place)


def test_without_a_contrast_categories_stay_in_order():
    plain = Objective(models=3, n_grow=9, n_apply=9, tails=np.ones(3))
    hist = np.random.default_rng(0).random((2, 6, plain.width))
    order = bin_order(hist, Features(np.array([6, 6]), np.array([True, False])), plain.contrast)
    assert order.tolist() == [[1, 2, 3, 4, 5]] * 2


def test_categories_are_split_by_set():
    """Categories 2 and 5 need the dense model, whatever their codes: the set is found, not an
    interval.
    """
    rng = np.random.default_rng(3)
    n = 3000
    codes = rng.integers(1, 6, size=(n, 1)).astype(np.uint8)
    special = np.isin(codes[:, 0], (2, 5))
    dense = rng.normal(0, 3, n) + 5.0 * special
    y = np.stack([dense, rng.normal(0, 0.1, n)], axis=1)
    goal = Objective(
        models=2, n_grow=n, n_apply=n, tails=np.ones(2), value=5.0 * special.mean(), contrast=(0, 1)
    )
    grower = Grower(goal, TreeLimits(max_depth=1, min_leaf=50), np.array([6]), np.array([True]))
    grower.grow(rows_of(goal, y, np.ones(n), codes))
    assert grower.tree[0, 0] == 0
    model = np.where(
        grower.goes_left[0], grower.tree[3, grower.tree[1, 0]], grower.tree[3, grower.tree[2, 0]]
    )
    assert model[1:].tolist() == [1, 0, 1, 1, 0]
