"""The steps that confirm a tree, each against a plain twin that recurses and sums
everything anew.

All numbers are multiples of powers of two, so that both sides compute exactly and ties are ties on
both.
"""

import numpy as np
import pytest

import counterrank as cr
from counterrank.behavior import growing
from counterrank.behavior.forest import Forest
from counterrank.behavior.objective import TIE, Goal, Objective
from counterrank.behavior.settings import TreeLimits
from counterrank.weights.ratios import ratios_of

BINS = 6
seeds = pytest.mark.parametrize("seed", range(40))


def random_tree(rng: np.random.Generator, models: int = 3, features: int = 2) -> np.ndarray:
    """Return a tree (4, nodes), parents before children; every node has a model, as when it was a
    leaf.
    """
    feature, left, right = [-1], [-1], [-1]
    for _ in range(rng.integers(0, 8)):
        at = rng.choice(np.flatnonzero(np.array(feature) < 0))
        feature[at], left[at], right[at] = (
            int(rng.integers(features)),
            len(feature),
            len(feature) + 1,
        )
        feature, left, right = feature + [-1, -1], left + [-1, -1], right + [-1, -1]
    return np.array([feature, left, right, rng.integers(0, models, len(feature))])


def random_scene(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return a tree, the channels (nodes, M, C) of its nodes, a rule and targets."""
    rng = np.random.default_rng(seed)
    tree, replicates = random_tree(rng), int(rng.choice([0, 1, 2, 4]))
    channels = rng.integers(-8, 9, (tree.shape[1], 3, 2 + replicates)) / 8
    channels[..., 1] += 4
    for at in range(tree.shape[1] - 1, -1, -1):
        if (
            tree[0, at] >= 0 and rng.random() < 0.5
        ):  # as in a true tree: then a tie where the models are the same
            channels[at] = channels[tree[1, at]] + channels[tree[2, at]]
    value, kappa, margin = rng.integers(0, 9, 3) / 4
    rule = np.array([rng.integers(0, 2), value, kappa, 1.0, 1 / 64, 1 / 32, margin])
    return tree, channels, rule, rng.integers(0, 17, replicates) / 8


def naive_leaves(tree: np.ndarray, at: int = 0) -> list[int]:
    if tree[0, at] < 0:
        return [at]
    return naive_leaves(tree, tree[1, at]) + naive_leaves(tree, tree[2, at])


def naive_score(
    tree: np.ndarray, channels: np.ndarray, rule: np.ndarray, targets: np.ndarray
) -> float:
    """Return the score of the tree's assignment, from the formula of `tree.objective`."""
    total = np.sum([channels[at, tree[3, at]] for at in naive_leaves(tree)], axis=0)
    held, value, kappa, lam, per_applied, per_grown, margin = rule
    spread = max(total[1] - total[0] ** 2, 0.0)
    bias = max((abs(total[0] - value) + margin) ** 2 - kappa * spread * per_grown, 0.0)
    others = ((total[2:] - targets) ** 2).mean() if len(targets) else 0.0
    return float(lam * spread * per_applied + (bias if held else 0.0) + others)


def changed(tree: np.ndarray, at: int, *, model: int | None = None) -> np.ndarray:
    """Return the tree with one node made a leaf, or one leaf given another model."""
    other = tree.copy()
    if model is None:
        other[:3, at] = -1
    else:
        other[3, at] = model
    return other


def naive_prune(tree: np.ndarray, goal: tuple[np.ndarray, ...], share: float) -> np.ndarray:
    root = naive_score(changed(tree, 0), *goal)
    least = share * abs(root) if np.isfinite(root) else 0.0
    while True:
        before = tree
        for at in range(tree.shape[1] - 1, -1, -1):
            # A pair of leaves that can no longer be reached is undone as well, without a change of
            # the score
            if tree[0, at] >= 0 and tree[0, tree[1, at]] < 0 and tree[0, tree[2, at]] < 0:
                merged = changed(tree, at)
                if not naive_score(tree, *goal) < naive_score(merged, *goal) - least:
                    tree = merged
        if before is tree:
            return tree


def naive_choice(tree: np.ndarray, goal: tuple[np.ndarray, ...], sweeps: int) -> np.ndarray:
    for _ in range(sweeps):
        for at in naive_leaves(tree):
            options = [
                naive_score(changed(tree, at, model=m), *goal) for m in range(goal[0].shape[1])
            ]
            chosen = 0
            for m, value in enumerate(options):
                best = options[chosen]
                if value < (best if np.isinf(best) else best - TIE * abs(best)):
                    chosen = m
            if options[chosen] < naive_score(tree, *goal):
                tree = changed(tree, at, model=chosen)
    return tree


def scoring(rule: np.ndarray, targets: np.ndarray) -> Goal:
    """Return the rule as the tree takes it; channels are given, so no sums become channels."""
    return Goal(np.empty((0, 0)), 3, rule, targets)


@seeds
def test_each_row_walks_down_and_is_added_at_its_leaf(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    n = 150  # more than are formed at a time
    codes = rng.integers(0, BINS, (n, 2)).astype(np.uint8)
    y, use = rng.integers(-4, 5, (n, 2)) / 4, rng.integers(0, 2, n).astype(float)
    weight, other = rng.integers(0, 3, (2, n)) / 2, rng.integers(-4, 5, (n, 2)) / 4
    index = rng.permutation(n)[:140]
    goal = Objective(
        models=2, n_grow=n, n_apply=n, tails=np.ones(2), replicates=weight, averaged=other
    )
    rows = growing.rows_of(goal, y, use, codes[index], index)
    grower = growing.Grower(goal, TreeLimits(), np.array([BINS, BINS]), np.zeros(2, dtype=bool))
    grower.tree, grower.count = tree, tree.shape[1]
    grower.goes_left = rng.random((tree.shape[1], BINS)) < 0.5
    expected = np.zeros((tree.shape[1], 2, BINS, rows.width))
    for i in index:
        at = 0
        while tree[0, at] >= 0:
            at = tree[1 if grower.goes_left[at, codes[i, tree[0, at]]] else 2, at]
        own = use[i] * np.array([1, *y[i], *y[i] ** 2])
        for f in range(2):
            expected[at, f, codes[i, f]] += [*own, *np.outer(weight[:, i], other[i]).ravel()]
    ends = naive_leaves(tree, 0)
    at = grower.leaf_rows(rows)
    found = np.stack([at[end].histogram(BINS) for end in ends])
    np.testing.assert_array_equal(found, expected[ends])
    sums = grower.node_sums(rows)
    np.testing.assert_array_equal(sums[ends], expected[ends, 0].sum(axis=1))
    np.testing.assert_array_equal(sums[0], expected[:, 0].sum(axis=(0, 1)))


@seeds
def test_add_children_sums_the_leaves_below(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    sums = rng.integers(-50, 50, (tree.shape[1], 3)) / 4
    expected = np.array([sums[naive_leaves(tree, at)].sum(axis=0) for at in range(tree.shape[1])])
    growing.add_children(tree, sums)
    np.testing.assert_array_equal(sums, expected)


@seeds
def test_leaves_and_totals(seed):
    tree, channels, rule, targets = random_scene(seed)
    found = naive_leaves(tree)
    assert growing.leaves(tree) == found
    totals = growing.totals_of(tree, channels)
    np.testing.assert_array_equal(
        totals, np.sum([channels[at, tree[3, at]] for at in found], axis=0)
    )
    value = scoring(rule, targets).score(totals)
    assert value == naive_score(tree, channels, rule, targets)


@pytest.mark.parametrize("share", [0.0, 1 / 64, 1 / 4])
@seeds
def test_prune_undoes_what_the_twin_undoes(seed, share):
    tree, *goal = random_scene(seed)
    expected, gains = naive_prune(tree, tuple(goal), share), np.ones(tree.shape[1])
    before = tree.copy()
    channels, rule, targets = goal
    growing.prune(tree, gains, channels, scoring(rule, targets), share)
    np.testing.assert_array_equal(tree, expected)
    np.testing.assert_array_equal(gains, np.where((before[0] >= 0) & (expected[0] < 0), 0.0, 1.0))


def test_prune_keeps_some_splits_and_undoes_others():
    """The seeds above hold both cases; a twin that agrees on "nothing happens" would show little."""
    undone = kept = 0
    for seed in range(40):
        tree, *goal = random_scene(seed)
        after = naive_prune(tree, tuple(goal), 0.0)
        undone += int(np.sum((tree[0] >= 0) & (after[0] < 0)))
        kept += int(np.sum(after[0] >= 0))
    assert undone > 20
    assert kept > 20


@pytest.mark.parametrize("sweeps", [1, 3])
@seeds
def test_choosing_again_chooses_what_the_twin_chooses(seed, sweeps):
    tree, *goal = random_scene(seed)
    expected = naive_choice(tree, tuple(goal), sweeps)
    channels, rule, targets = goal
    growing.choose_again(tree, channels, scoring(rule, targets), sweeps)
    np.testing.assert_array_equal(tree, expected)


@seeds
def test_merge_equal_keeps_the_assignment_and_leaves_no_twins(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, models=2)
    expected, gains = tree.copy(), np.ones(tree.shape[1])
    for at in range(
        tree.shape[1] - 1, -1, -1
    ):  # a node is one leaf when all leaves below it have one model
        models = {int(expected[3, leaf]) for leaf in naive_leaves(expected, at)}
        if tree[0, at] >= 0 and len(models) == 1:
            expected[:3, at], expected[3, at] = -1, models.pop()
    before = tree.copy()
    growing.merge_equal(tree, gains)
    np.testing.assert_array_equal(tree, expected)
    np.testing.assert_array_equal(gains, np.where(before[0] != tree[0], 0.0, 1.0))


def described(tree: np.ndarray, at: int = 0) -> tuple:
    """Return a tree as nested tuples, without node numbers."""
    if tree[0, at] < 0:
        return (int(tree[3, at]),)
    return (
        int(tree[0, at]),
        int(tree[3, at]),
        described(tree, tree[1, at]),
        described(tree, tree[2, at]),
    )


def reachable(tree: np.ndarray, at: int = 0) -> list[int]:
    return [at] + [
        node for side in (1, 2) if tree[0, at] >= 0 for node in reachable(tree, tree[side, at])
    ]


@seeds
def test_compacted_is_the_same_tree_without_the_rest(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    tree = changed(tree, int(rng.integers(tree.shape[1])))
    kept, out = growing.compacted(tree)
    assert described(out) == described(tree)
    assert sorted(kept) == sorted(reachable(tree))
    np.testing.assert_array_equal(out[[0, 3]], tree[np.ix_([0, 3], kept)])
    split = out[0] >= 0
    assert np.all(out[1:3, split] > np.flatnonzero(split))
    assert np.all(out[1:3, ~split] == -1)


@seeds
def test_each_row_comes_to_the_leaf_that_a_walk_finds(seed):
    """Numbers, categories, missing and unknown values, a tree for each position."""
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng) for _ in range(2)]
    starts = np.cumsum([0, *(tree.shape[1] for tree in trees)])
    nodes = np.concatenate([tree[[0, 1, 2, 0]].T for tree in trees])
    for tree, first in zip(trees, starts, strict=False):
        part = nodes[first : first + tree.shape[1]]
        part[part[:, 0] >= 0, 1:3] += first
    sets = rng.random((len(nodes), 3)) < 0.5
    nodes[:, 3] = np.where(nodes[:, 0] == 1, np.arange(1, len(nodes) + 1), 0)
    threshold, missing = rng.normal(size=len(nodes)), rng.random(len(nodes)) < 0.5
    model = rng.integers(0, 3, len(nodes))
    candidates = cr.candidates(2)[:3]
    forest = Forest(
        candidates=tuple(candidates), context_names=("x", "c"), categories={"c": ("a", "b", "d", "e")},
        roots=starts[:2], nodes=nodes, threshold=threshold, missing_left=missing, sets=sets,
        model=model, facts=np.zeros((len(nodes), 5)), mse="pairs", n_grown=1,
    )  # fmt: skip
    context = np.column_stack([rng.normal(size=60), rng.integers(0, 4, 60)])
    context[rng.random((60, 2)) < 0.2] = np.nan
    expected = np.empty((60, 2), dtype=np.int64)
    for i, k in np.ndindex(60, 2):
        at = forest.roots[k]
        while nodes[at, 0] >= 0:
            value, left = context[i, nodes[at, 0]], missing[at]
            if nodes[at, 0] == 0 and not np.isnan(value):
                left = value <= threshold[at]
            if nodes[at, 0] == 1 and value < 3:  # 3 was never seen
                left = sets[nodes[at, 3] - 1, int(value)]
            at = nodes[at, 1 if left else 2]
        expected[i, k] = model[at]
    assert (forest.choice(context, 60) == expected).all()
    half = np.full((60, 2), 0.5)
    log = cr.RankingLog(action=rng.integers(0, 2, (60, 2)), reward=half, propensity=half)
    ratios = ratios_of(log.with_targets({"new": rng.random((60, 2))}), "new")
    masks = np.stack([c.mask for c in candidates])
    weights = ratios.by_choice(masks, expected)
    np.testing.assert_allclose(forest.weights(context, ratios), weights, rtol=1e-12)
