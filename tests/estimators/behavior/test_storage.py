"""Trees on disk: what is written comes back; what is damaged is refused with a reason."""

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import BehaviorError
from counterrank.estimators.behavior import BehaviorTree


@pytest.fixture
def saved(make_log, tmp_path):
    log = make_log(6_000, 0, missing=0.2)
    tree = BehaviorTree(candidates=cr.candidates(3, ["S", "I"])).fit(log, "new")
    assert any(not node.leaf for node in tree.fitted.nodes)
    path = tmp_path / "tree.json"
    tree.save(path)
    return log, tree, path


def test_round_trip(saved):
    log, tree, path = saved
    back = BehaviorTree.load(path)
    np.testing.assert_array_equal(back.assign(log.context), tree.assign(log.context))
    assert str(back) == str(tree)
    assert back.describe() == tree.describe()
    assert (
        cr.AIPS(behavior=back).estimate(log, "new").value
        == cr.AIPS(behavior=tree).estimate(log, "new").value
    )


def test_round_trip_of_categories_and_missing_only_splits(make_log, tmp_path):
    log = make_log(6_000, 1, categorical=True, missing=0.2)
    tree = BehaviorTree(candidates=cr.candidates(3, ["S", "I"])).fit(log, "new")
    tree.save(tmp_path / "t.json")
    probe = np.array([[c, 0.0, 0.0] for c in (0, 1, 2, 3, 4, 5, np.nan, 17)])
    np.testing.assert_array_equal(
        BehaviorTree.load(tmp_path / "t.json").assign(probe), tree.assign(probe)
    )


DAMAGE = {
    "schema": (lambda d: d.update(schema="x"), "'schema' is not 'counterrank/behavior-tree/3'"),
    "no nodes": (lambda d: d.update(nodes=[]), "'nodes' is not a set of trees"),
    "circle": (lambda d: split(d).update(left=0), "is not a split into later nodes"),
    "twice": (lambda d: split(d).update(right=split(d)["left"]), "a node has no parent or two"),
    "feature": (lambda d: split(d).update(feature=3), "is not one of 3 context columns"),
    "threshold": (lambda d: split(d).update(threshold="high"), "threshold' is not a number"),
    "model": (lambda d: d["nodes"][0].update(model=9), "nodes[0].model' is not one of"),
    "truth": (lambda d: split(d).update(missing_left=1), "missing_left' is not true or false"),
    "mask": (lambda d: d["candidates"][0].update(mask=["11", "1"]), "mask' is not K strings"),
    "doubt": (lambda d: d["doubt"].pop("left_out"), "doubt.left_out' is not"),
    "codes": (lambda d: split(d).update(left_categories=[-1]), "is not a list of category codes"),
    "roots": (lambda d: d.update(roots=[0, 1]), "'roots' is not a list of 3 node numbers"),
    "orphan": (lambda d: d["nodes"].append({"model": 0}), "a node has no parent or two"),
    "number": (lambda d: d["nodes"][0].update(share="half"), "nodes[0].share' is not a number"),
    "names": (lambda d: d.update(context="x_0"), "'context' is not a list"),
    "rows": (lambda d: d.update(rows=-1), "'rows' is not a number of rows"),
    "list": (lambda d: d.update(candidates=[]), "'candidates' is not a list"),
}


def split(d):
    return next(node for node in d["nodes"] if node["feature"] >= 0)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(saved, name):
    _, _, path = saved
    hurt, message = DAMAGE[name]
    content = json.loads(path.read_text())
    hurt(content)
    path.write_text(json.dumps(content))
    with pytest.raises(BehaviorError, match="not a valid behaviour tree") as caught:
        BehaviorTree.load(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '{"schema": NaN}', "[" * 100_000])
def test_files_that_are_no_trees(tmp_path, text):
    path = tmp_path / "tree.json"
    path.write_text(text)
    with pytest.raises(BehaviorError):
        BehaviorTree.load(path)


def test_missing_file(tmp_path):
    with pytest.raises(BehaviorError, match="cannot read the behaviour tree"):
        BehaviorTree.load(tmp_path / "none.json")


def test_a_tree_that_splits_cannot_do_without_context(saved):
    with pytest.raises(BehaviorError, match=r"asks for context \(x_0, x_1, x_2\); none was given"):
        saved[1].assign(None)
