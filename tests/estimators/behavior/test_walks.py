"""What is left of a tree after its search, and the way of each row through it, against plain twins."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.behavior.forest import SCHEMA, Forest, Node, StoredModel
from counterrank.estimators.behavior.growth import Group
from counterrank.estimators.weights.ratios import ratios_of

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


def naive_leaves(tree: np.ndarray, at: int = 0) -> list[int]:
    if tree[0, at] < 0:
        return [at]
    return naive_leaves(tree, tree[1, at]) + naive_leaves(tree, tree[2, at])


@seeds
def test_merge_equal_keeps_the_assignment_and_leaves_no_twins(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, models=2)
    expected = tree.copy()
    for at in range(
        tree.shape[1] - 1, -1, -1
    ):  # a node is one leaf when all leaves below it have one model
        models = {int(expected[3, leaf]) for leaf in naive_leaves(expected, at)}
        if tree[0, at] >= 0 and len(models) == 1:
            expected[:3, at], expected[3, at] = -1, models.pop()
    groups = [Group(np.zeros(0), int(model), gain=1.0) for model in tree[3]]
    for group, (feature, left, right, _) in zip(groups, tree.T, strict=True):
        group.sides = (groups[left], groups[right]) if feature >= 0 else ()
    groups[0].merge_equal()
    np.testing.assert_array_equal([group.model for group in groups], expected[3])
    np.testing.assert_array_equal([bool(group.sides) for group in groups], expected[0] >= 0)
    undone = tree[0] != expected[0]
    np.testing.assert_array_equal([group.gain for group in groups], np.where(undone, 0.0, 1.0))


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
    sets[~sets.any(axis=1), 0] = True
    threshold, missing = rng.normal(size=len(nodes)), rng.random(len(nodes)) < 0.5
    model = rng.integers(0, 3, len(nodes))
    candidates = cr.candidates(2)[:3]
    made = [
        Node(
            int(model[at]), feature=feature, left=left, right=right, missing_left=bool(missing[at]),
            threshold=threshold[at] if feature == 0 else np.nan,
            left_categories=tuple(np.flatnonzero(sets[at]).tolist()) if feature == 1 else (),
        )
        for at, (feature, left, right, _) in enumerate(nodes.tolist())
    ]  # fmt: skip
    forest = Forest(
        SCHEMA, "pairs", 1, ("x", "c"), tuple(map(StoredModel.from_candidate, candidates)),
        tuple(starts[:2].tolist()), tuple(made), categories={"c": ("a", "b", "d")},
    )  # fmt: skip
    assert forest.flaw() is None
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
                left = sets[at, int(value)]
            at = nodes[at, 1 if left else 2]
        expected[i, k] = model[at]
    assert (forest.assign(context, 60) == expected).all()
    half = np.full((60, 2), 0.5)
    log = cr.RankingLog(action=rng.integers(0, 2, (60, 2)), reward=half, propensity=half)
    ratios = ratios_of(log.with_targets({"new": rng.random((60, 2))}), "new")
    masks = np.stack([c.mask for c in candidates])
    weights = ratios.by_choice(masks, expected)
    np.testing.assert_allclose(forest.weights(context, ratios), weights, rtol=1e-12)
