"""Trees in words, tables and pictures."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.behavior import BehaviorTree, People
from counterrank.behavior.forest import Forest
from counterrank.behavior.settings import TreeLimits


@pytest.fixture
def tree(make_log):
    log = make_log(6_000, 0)
    return BehaviorTree(candidates=cr.candidates(3, ["S", "I"]), limits=TreeLimits(prune=0.0)).fit(
        log, "new"
    )


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


def test_text(tree):
    assert "x_0 <=" in str(tree)
    assert "not fitted" in str(BehaviorTree())


def chain(names, splits, sets=()):
    """Return a forest of one tree whose every right child is split again: (feature, threshold, row
    of sets + 1).
    """
    depth = len(splits)
    nodes = np.full((2 * depth + 1, 4), -1)
    nodes[:, 3] = 0
    threshold = np.full(2 * depth + 1, np.nan)
    for i, (feature, cut, row) in enumerate(splits):
        nodes[2 * i] = feature, 2 * i + 1, 2 * i + 2, row
        threshold[2 * i] = cut
    model = np.zeros(len(nodes), dtype=np.int64)
    return Forest(
        candidates=tuple(cr.candidates(1, ["I"])), context_names=names, categories={"kind": tuple("abcdef")},
        roots=np.array([0]), nodes=nodes, threshold=threshold, missing_left=np.zeros(len(nodes), dtype=bool),
        sets=np.array(sets, dtype=bool).reshape(len(sets), 6), model=model, facts=np.full((len(nodes), 5), np.nan),
        mse="gl", n_grown=1,
    )  # fmt: skip


def test_a_feature_that_is_split_again_has_one_interval():
    tree = BehaviorTree(forest=chain(("x_0", "x_1"), [(0, 0.1, 0), (1, 2.0, 0), (0, 0.4, 0)]))
    rules = [list(group["rules"]) for group in tree.describe()["positions"][0]["groups"]]
    assert rules == [
        ["x_0 <= 0.1"],
        ["x_0 > 0.1", "x_1 <= 2"],
        ["0.1 < x_0 <= 0.4", "x_1 > 2"],
        ["x_0 > 0.4", "x_1 > 2"],
    ]


def test_a_category_that_is_split_again_has_one_set():
    sets = [[1, 0, 0, 1, 0, 0], [0, 1, 0, 1, 0, 0]]
    tree = BehaviorTree(forest=chain(("kind",), [(0, np.nan, 1), (0, np.nan, 2)], sets))
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


def test_without_a_split_people_are_all_rankings(make_log):
    tree = BehaviorTree(candidates=["S"]).fit(make_log(500, 2), "new")
    assert tree.describe().people == (People("all rankings", share=1.0, sees=((1.0,) * 3,) * 3),)


def test_people_turn_sets_of_categories_the_same_way(make_log):
    log = make_log(60_000, 203, categorical=True)
    tree = BehaviorTree(candidates=cr.candidates(3, ["S", "I"]), limits=TreeLimits(prune=0.0)).fit(
        log, "new"
    )
    sides = {kind["rule"]: np.array(kind["sees"]) for kind in tree.describe()["people"]}
    off = ~np.eye(3, dtype=bool)
    alone = [
        sees[off].mean() for rule, sees in sides.items() if ("b" in rule) != ("not in" in rule)
    ]
    together = [
        sees[off].mean() for rule, sees in sides.items() if ("b" in rule) == ("not in" in rule)
    ]
    assert len(alone) == len(together) == 1 and alone[0] < together[0]
