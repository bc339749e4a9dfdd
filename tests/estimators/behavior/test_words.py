"""Trees in words, tables and pictures."""

from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.behavior import BehaviorTree, People
from counterrank.estimators.behavior.forest import SCHEMA, Forest, Node, StoredModel


@pytest.fixture
def tree(make_log):
    log = make_log(6_000, 0)
    return BehaviorTree(candidates=cr.candidates(3, ["S", "I"])).fit(log, "new")


def test_groups_partition_the_rankings(tree):
    for position in tree.describe()["positions"]:
        assert sum(group["share"] for group in position["groups"]) == pytest.approx(1)
        for group in position["groups"]:
            assert group["low"] < group["estimate"] < group["high"]
            assert len(group["items"]) == 3


def test_rules_describe_the_assignment(tree):
    """Rows that satisfy a group's rule, read back from its words, are the rows with its model."""
    x = np.random.default_rng(1).normal(size=(500, 3))
    models = tree.assign(x)
    names = {f"x_{j}": x[:, j] for j in range(3)}
    labels = [c.name for c in tree.fitted.candidates]
    for k, position in enumerate(tree.describe()["positions"]):
        covered = np.zeros(500, dtype=bool)
        for group in position["groups"]:
            rows = np.ones(500, dtype=bool)
            for rule in group["rules"]:
                rows &= holds(rule, names)
            assert (models[rows, k] == labels.index(group["model"])).all()
            assert not (covered & rows).any()
            covered |= rows
        assert covered.all()


def holds(rule, names):
    words = rule.split()
    if len(words) == 5:  # low < x <= high
        return (float(words[0]) < names[words[2]]) & (names[words[2]] <= float(words[4]))
    value = float(words[2])
    return names[words[0]] <= value if words[1] == "<=" else names[words[0]] > value


def test_importance_names_the_planted_feature(tree):
    importance = tree.describe()["importance"]
    assert importance["x_0"] > 0.8
    assert sum(importance.values()) == pytest.approx(1)


def test_splits_of_a_shuffled_context_are_no_groups(make_log):
    """The tree may split on it to mix models; the words name no kinds of people."""
    log = make_log(6_000, 0)
    rng = np.random.default_rng(0)
    splits = clear = 0
    for _ in range(10):
        mixed = replace(log, context=log.context[rng.permutation(log.n)])
        tree = BehaviorTree(candidates=cr.candidates(3, ["S", "I"])).fit(mixed, "new")
        chances = [node.chance for node in tree.fitted.nodes if not node.leaf]
        splits, clear = splits + len(chances), clear + sum(one <= 0.05 for one in chances)
        if chances and min(chances) > 0.05:
            found = tree.describe()
            assert [one.rule for one in found.people] == ["all rankings"]
            assert set(found.importance.values()) == {0.0}
            assert found.notes[-1].startswith(f"groups: 0 of {len(chances)} splits")
            assert found.notes[-1] in str(tree)
    assert splits >= 10 and clear <= 0.1 * splits


def test_text(tree):
    assert "x_0 <=" in str(tree)
    assert "not fitted" in str(BehaviorTree())


def chain(names, splits):
    """Return a forest of one tree whose every right child is split again: (feature, threshold, categories)."""
    nodes = []
    for i, (feature, cut, categories) in enumerate(splits):
        split = Node(0, feature=feature, left=2 * i + 1, right=2 * i + 2, threshold=cut)
        nodes += [replace(split, left_categories=categories), Node(0)]
    return Forest(
        SCHEMA, "gl", 1, names, (StoredModel("I", ("1",)),), (0,), (*nodes, Node(0)),
        categories={"kind": tuple("abcdef")},
    )  # fmt: skip


def test_a_feature_that_is_split_again_has_one_interval():
    tree = BehaviorTree(forest=chain(("x_0", "x_1"), [(0, 0.1, ()), (1, 2.0, ()), (0, 0.4, ())]))
    rules = [list(group["rules"]) for group in tree.describe()["positions"][0]["groups"]]
    assert rules == [
        ["x_0 <= 0.1"],
        ["x_0 > 0.1", "x_1 <= 2"],
        ["0.1 < x_0 <= 0.4", "x_1 > 2"],
        ["x_0 > 0.4", "x_1 > 2"],
    ]


def test_a_category_that_is_split_again_has_one_set():
    splits = [(0, np.nan, (0, 3)), (0, np.nan, (1, 3))]
    tree = BehaviorTree(forest=chain(("kind",), splits))
    rules = [group["rule"] for group in tree.describe()["positions"][0]["groups"]]
    assert rules == ["kind in {a, d}", "kind in {b}", "kind not in {a, b, d}"]


def test_people_are_the_sides_of_the_split_that_matters_most(make_log):
    """Planted: the own item counts where x_0 <= .3, all items elsewhere."""
    tree = BehaviorTree(candidates=cr.candidates(3, ["S", "I"])).fit(make_log(60_000, 1), "new")
    low, high = tree.describe()["people"]
    assert low["rule"].startswith("x_0 <= 0.") and high["rule"].startswith("x_0 > 0.")
    assert low["share"] + high["share"] == pytest.approx(1.0)
    assert 0.5 < low["share"] < 0.7  # P(x <= .3) = .62
    alone, together = np.array(low["sees"]), np.array(high["sees"])
    assert (np.diag(alone) == 1).all() and (np.diag(together) == 1).all()
    off = ~np.eye(3, dtype=bool)
    assert alone[off].mean() < 0.2 and together[off].mean() > 0.8


def test_shares_of_people_add_up_where_a_leaf_is_on_neither_side():
    tree = BehaviorTree(forest=chain(("x_0", "x_1"), [(1, 2.0, ()), (0, 0.4, ())]))
    nodes = tree.forest.nodes
    shares = {1: 0.4, 3: 0.2, 4: 0.4}
    nodes = tuple(
        replace(node, share=shares.get(at, 1.0), gain=float(at), objective=1.0)
        for at, node in enumerate(nodes)
    )
    low, high = BehaviorTree(forest=replace(tree.forest, nodes=nodes)).describe().people
    assert (low.rule, high.rule) == ("x_0 <= 0.4", "x_0 > 0.4")
    assert low.share == pytest.approx(1 / 3) and high.share == pytest.approx(2 / 3)


def test_without_a_split_people_are_all_rankings(make_log):
    tree = BehaviorTree(candidates=["S"]).fit(make_log(500, 2), "new")
    assert tree.describe().people == (People("all rankings", share=1.0, sees=((1.0,) * 3,) * 3),)


def test_people_turn_sets_of_categories_the_same_way(make_log):
    log = make_log(60_000, 203, categorical=True)
    tree = BehaviorTree(candidates=cr.candidates(3, ["S", "I"])).fit(log, "new")
    sides = {kind["rule"]: np.array(kind["sees"]) for kind in tree.describe()["people"]}
    off = ~np.eye(3, dtype=bool)
    alone = [
        sees[off].mean() for rule, sees in sides.items() if ("b" in rule) != ("not in" in rule)
    ]
    together = [
        sees[off].mean() for rule, sees in sides.items() if ("b" in rule) == ("not in" in rule)
    ]
    assert len(alone) == len(together) == 1 and alone[0] < together[0]
