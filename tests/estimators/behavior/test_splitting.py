"""The split search against brute force over every feature, threshold and pair of models."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.estimators.behavior import growth
from counterrank.estimators.behavior.growth import Group, Grower, TreeRows, bin_order
from counterrank.estimators.behavior.objective import Objective, least_score
from counterrank.estimators.behavior.settings import TreeLimits

VALUE = 2.3


def position(models, n_grow, n_apply, contrast=(0, 0)):
    """What an objective reads of a position, without a log behind it."""
    return SimpleNamespace(
        models=models, n_grow=n_grow, n_apply=n_apply, tails=np.ones(models), contrast=contrast
    )


def objective(n: int, *, kappa: float = 1.0) -> Objective:
    return Objective(position(3, n, 2 * n, contrast=(0, 2)), value=VALUE, kappa=kappa)


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


def grown(
    y: np.ndarray, codes: np.ndarray, goal: Objective, **limits: float
) -> tuple[Grower, Group]:
    grower = Grower(
        goal,
        TreeLimits(**{"max_depth": 1, "min_leaf": 10, "min_gain": 0.0, **limits}),
        6,
        np.zeros(codes.shape[1], dtype=bool),
    )
    return grower, grower.grow(TreeRows.from_objective(goal, y, codes.T))


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
    grower, tree = grown(y, codes, goal)
    assert tree.score == pytest.approx(best, rel=1e-9)
    assert goal.score(grower.totals) == pytest.approx(best, rel=1e-9)
    if grower.leaves == 1:
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
    goal = objective(400)
    scores = [goal.score(grown(y, codes, goal, max_depth=depth)[0].totals) for depth in range(4)]
    assert all(
        after <= before * (1 + 1e-9) for before, after in zip(scores, scores[1:], strict=False)
    )


def test_node_sums_add_up_and_leaves_are_large_enough():
    y, codes = data(5, n=600)
    grower, tree = grown(y, codes, objective(600), max_depth=4, min_leaf=30)
    assert grower.leaves > 2
    groups = [tree]
    for group in groups:
        assert group.sums[0] >= 30
        if group.sides:
            both = group.sides[0].sums + group.sides[1].sums
            np.testing.assert_allclose(group.sums, both, rtol=1e-12, atol=1e-9)
            groups += group.sides


def test_limits_on_leaves_and_gain_are_kept():
    y, codes = data(6, n=600)
    assert grown(y, codes, objective(600), max_depth=5, max_leaves=3)[0].leaves <= 3
    assert grown(y, codes, objective(600), max_depth=5, min_gain=1.0)[0].leaves == 1


def test_sibling_histogram_by_subtraction_equals_the_direct_sum(monkeypatch):
    """Every histogram that was searched is that of a node, summed row by row."""
    y, codes = data(7, n=500)
    goal = objective(500)
    _, tree = grown(y, codes, goal, max_depth=3)
    stats = np.column_stack([np.ones(500), y, y**2])

    seen, cuts_of = [], growth.cuts_of
    monkeypatch.setattr(
        growth, "cuts_of", lambda hist, *rest: seen.append(hist) or cuts_of(hist, *rest)
    )
    grown(y, codes, goal, max_depth=3)
    waiting, expected = [(tree, np.ones(500, dtype=bool))], []
    for group, reached in waiting:
        hist = np.zeros((2, 6, goal.width))
        for i in np.flatnonzero(reached):
            for f in range(2):
                hist[f, codes[i, f]] += stats[i]
        expected.append(hist)
        if group.sides:
            goes = group.goes_left[codes[:, group.feature]]
            waiting += zip(group.sides, (reached & goes, reached & ~goes), strict=True)
    assert 1 < len(seen) <= len(expected)
    for found in seen:
        assert any(np.allclose(found, hist, rtol=1e-9, atol=1e-9) for hist in expected)


def test_a_score_is_variance_and_bias_beyond_chance():
    totals = np.array([2.0, 5.0])
    assert objective(50).score(totals) == pytest.approx(1 / 100 + 0.3**2 - 1 / 50)


def test_scores_are_only_found_below_what_is_asked():
    totals = np.array([1.0, 3.0]).reshape(1, 1, -1)
    goal, nothing = objective(50), np.zeros((1, 1, 2))
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
        goal = objective(50, kappa=float(rng.integers(0, 3)))
        best, place = np.inf, (-1, -1, -1)
        for i, a, b in np.ndindex(5, 3, 3):
            value = goal.score(left[i, a] + right[i, b])
            if value < best and not (different and a == b):
                best, place = value, (i, a, b)
        found = least_score(left, right, goal.rule, goal.targets, np.inf, different)
        assert found == (best, *place)


def test_without_a_contrast_categories_stay_in_order():
    plain = Objective(position(3, 9, 9))
    hist = np.random.default_rng(0).random((2, 6, plain.width))
    order = bin_order(hist, np.array([True, False]), plain.position.contrast)
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
    goal = Objective(position(2, n, n, contrast=(0, 1)), value=5.0 * special.mean())
    grower = Grower(goal, TreeLimits(max_depth=1, min_leaf=50), 6, np.array([True]))
    tree = grower.grow(TreeRows.from_objective(goal, y, codes.T))
    assert tree.feature == 0
    model = np.where(tree.goes_left, tree.sides[0].model, tree.sides[1].model)
    assert model[1:].tolist() == [1, 0, 1, 1, 0]
