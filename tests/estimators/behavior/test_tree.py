"""The behaviour tree on logs with a planted behaviour."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import BehaviorError, ConfigError
from counterrank.estimators.behavior import BehaviorTree
from counterrank.estimators.behavior.forest import SCHEMA, Forest, Node, StoredModel
from counterrank.estimators.behavior.settings import TreeLimits
from counterrank.estimators.weights.ratios import ratios_of

MODELS = ["S", "I"]
SEARCH = {"limits": TreeLimits(max_depth=3)}


def tree_on(log, **options):
    return BehaviorTree(candidates=cr.candidates(log.K, MODELS), **options).fit(log, "new")


def test_planted_groups_are_found(make_log):
    # Over 6 other draws 18 of 18 first splits were on x_0; 16 of their thresholds lay between .2
    # and .4, and 97 to 100 % of the rankings away from the border had the planted model.
    log = make_log(60_000, 0)
    tree = tree_on(log, **SEARCH)
    forest = tree.fitted
    roots = [forest.nodes[at] for at in forest.roots]
    assert all(root.feature == 0 for root in roots)
    assert 0.15 < np.median([root.threshold for root in roots]) < 0.45
    far = np.abs(log.context[:, 0] - 0.3) > 0.25
    expected = np.where(log.context[:, 0] <= 0.3, 1, 0)
    assert (tree.assign(log.context) == expected[:, None])[far].mean() > 0.9


def test_missing_values_choose_their_own_side(make_log):
    log = make_log(60_000, 2, missing=0.3)
    tree = tree_on(log, **SEARCH)
    models = tree.assign(np.array([[np.nan, 0, 0], [-1.0, 0, 0]]))
    assert (models[0] == 0).all() and (models[1] == 1).all()
    assert "missing" in str(tree)


def test_categories_are_found_and_named(make_log):
    # Of 18 other trees 16 found the set.
    log = make_log(60_000, 203, categorical=True)
    tree = tree_on(log, limits=TreeLimits(max_depth=2, min_gain=0.0))
    codes = np.zeros((6, 3))
    codes[:, 0] = np.arange(6)
    assert (tree.assign(codes)[:, 0] == [0, 1, 0, 0, 1, 0]).all()
    groups = [g["rule"] for g in tree.describe()["positions"][0]["groups"]]
    assert any("{b, e}" in rule or "{a, c, d, f}" in rule for rule in groups)
    # An unknown category goes the way of missing values, not out of bounds.
    assert tree.assign(np.array([[99.0, 0, 0], [-3.0, 0, 0]])).shape == (2, 3)


def test_categories_beyond_those_on_the_left_go_right():
    """Only codes that no category has go the way of missing values."""
    split = Node(0, feature=0, left=1, right=2, missing_left=True, left_categories=(0, 1))
    forest = Forest(
        SCHEMA, "pairs", 1, ("kind",), (StoredModel("I", ("1",)),) * 2, (0,), (split, Node(0), Node(1)),
        categories={"kind": ("a", "b", "c", "d")},
    )  # fmt: skip
    assert forest.assign([[0.0], [1.0], [2.0], [3.0], [4.0], [np.nan]]).ravel().tolist() == [
        0, 0, 1, 1, 0, 0,
    ]  # fmt: skip


def test_row_order_does_not_matter(make_log):
    log = make_log(6_000, 4, unit=True)
    order = np.random.default_rng(0).permutation(log.n)
    first, second = tree_on(log), tree_on(log.take(order))
    for one, other in zip(first.fitted.nodes, second.fitted.nodes, strict=True):
        assert (one.feature, one.left, one.right, one.model) == (
            (other.feature, other.left, other.right, other.model)
        )
        np.testing.assert_allclose(one.threshold, other.threshold, equal_nan=True)
    np.testing.assert_array_equal(first.assign(log.context), second.assign(log.context))


def test_same_seed_same_tree(make_log):
    log = make_log(3_000, 5)
    for mse in ("pairs", "pasif"):
        assert str(tree_on(log, mse=mse)) == str(tree_on(log, mse=mse))


def test_one_leaf_when_nothing_is_to_gain(make_log):
    log = make_log(4_000, 6)
    tree = tree_on(log, limits=TreeLimits(max_depth=0))
    assert len(tree.fitted.nodes) == log.K
    assert "all rankings" in str(tree)


def test_no_context_gives_the_root_alone(make_log):
    log = make_log(4_000, 7)
    bare = cr.RankingLog(
        action=log.action, reward=log.reward, propensity=log.propensity, targets=dict(log.targets)
    )
    tree = tree_on(bare)
    assert tree.assign(None, n=5).shape == (5, 3)
    weights = tree.weights(bare, ratios_of(bare, "new"))
    assert weights.shape == (bare.n, bare.K)


def test_weights_are_those_of_the_assigned_models(make_log):
    log = make_log(2_000, 8)
    tree = BehaviorTree(candidates=cr.candidates(3, ["S", "C", "I"])).fit(log, "new")
    ratios = ratios_of(log, "new")
    choice = tree.assign(log.context)
    every = [ratios.masked(mask) for mask in tree.fitted.masks]
    expected = np.choose(choice, every)
    np.testing.assert_allclose(tree.weights(log, ratios), expected, rtol=1e-13)


def test_candidates_that_the_log_cannot_weigh_are_left_out(make_log):
    log = make_log(2_000, 9)
    prefix = cr.RankingLog(
        action=log.action,
        reward=log.reward,
        context=log.context,
        propensity=cr.Propensity("prefix", log.propensity.values),
        targets={"new": cr.Propensity("prefix", log.targets["new"].values)},
    )
    tree = BehaviorTree().fit(prefix, "new")
    assert [c.name for c in tree.fitted.candidates] == ["S", "C"]
    assert any("left out" in note for note in tree.fitted.notes)
    with pytest.raises(BehaviorError, match="support none of the candidates I"):
        BehaviorTree(candidates=cr.candidates(3, ["I"])).fit(prefix, "new")


def test_bad_use_is_explained(make_log):
    log = make_log(500, 10)
    with pytest.raises(BehaviorError, match="not fitted"):
        BehaviorTree().assign(log.context)
    with pytest.raises(BehaviorError, match=r"3 context columns .* got an array of shape \(4, 2\)"):
        tree_on(log).assign(np.zeros((4, 2)))
    with pytest.raises(BehaviorError, match="did you mean 'pairs'"):
        tree_on(log, mse="pair")
    with pytest.raises(BehaviorError, match="needs values from outside the log"):
        tree_on(log, mse="oracle")
    with pytest.raises(ConfigError, match="max_depth is 40"):
        TreeLimits(max_depth=40)
