"""Trees as arrays: the same predictions as the library's, and no file does harm."""

import json

import numpy as np
import pytest

from counterrank.common.errors import PolicyError
from counterrank.learning.trees import Trees

lightgbm = pytest.importorskip("lightgbm")


def booster(seed: int = 0, objective: str = "binary", missing: float = 0.2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(600, 5))
    x[:, 1] = rng.integers(0, 3, 600)
    x[:, 2] = 0.0
    y = (x[:, 0] + x[:, 1] + rng.normal(size=600) > 1).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    options = {"objective": objective, "num_leaves": 8, "verbose": -1, "num_threads": 1}
    return lightgbm.train(options, lightgbm.Dataset(x, y), num_boost_round=12)


def grown():
    return booster().dump_model()


@pytest.mark.parametrize("objective", ["binary", "regression"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_it_predicts_what_lightgbm_predicts(objective, missing):
    """The library is the twin: also for missing values, zeros and numbers far out."""
    rng = np.random.default_rng(1)
    x = 3 * rng.normal(size=(2000, 5))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[rng.random(x.shape) < 0.1] = 0.0
    x[0] = 1e300
    model = booster(3, objective, missing)
    stored = json.loads(
        json.dumps(Trees.from_lightgbm(model.dump_model()).to_dict(), allow_nan=False)
    )
    expected = model.predict(x, num_threads=1)
    np.testing.assert_allclose(Trees.from_dict(stored).predict(x), expected, rtol=0, atol=1e-14)


def test_a_tree_of_one_leaf_is_a_number():
    x = np.zeros((40, 1))
    data = lightgbm.Dataset(x, np.arange(40.0))
    model = lightgbm.train({"verbose": -1}, data, num_boost_round=2)
    found = Trees.from_lightgbm(model.dump_model())
    np.testing.assert_allclose(found.predict(x), model.predict(x))


def damaged(name, value):
    """Trees as a file holds them, with one entry changed."""
    data = Trees.from_lightgbm(grown()).to_dict()
    return {**data, name: value(data[name]) if callable(value) else value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left", lambda old: [0, *old[1:]]),
        ("left", lambda old: [10**6, *old[1:]]),
        ("right", lambda old: [-(10**6), *old[1:]]),
        ("right", lambda old: old[:-1]),
        ("right", lambda old: [0.5, *old[1:]]),
        ("first", []),
        ("first", lambda old: [10**30]),
        ("column", lambda old: [99, *old[1:]]),
        ("column", lambda old: [-1, *old[1:]]),
        ("threshold", lambda old: [float("nan"), *old[1:]]),
        ("threshold", lambda old: ["1", *old[1:]]),
        ("missing", lambda old: [1, *old[1:]]),
        ("leaf", lambda old: [float("inf"), *old[1:]]),
        ("leaf", lambda old: [1e308] * len(old)),
        ("leaf", None),
        ("leaf", [[1.0]]),
        ("columns", 0),
        ("columns", "5"),
        ("sigmoid", float("nan")),
        ("sigmoid", -1.0),
    ],
)
def test_damaged_trees_are_refused(name, value):
    with pytest.raises(PolicyError, match="learn the policy again"):
        Trees.from_dict(damaged(name, value))


@pytest.mark.parametrize("data", [None, 7, "tree\nend of trees", [], {}, {"columns": 1}])
def test_what_is_no_trees_is_refused(data):
    with pytest.raises(PolicyError, match="learn the policy again"):
        Trees.from_dict(data)


def test_trees_changed_anywhere_are_refused_or_predict_numbers():
    """400 changes of single numbers. Nothing but a PolicyError may come of them."""
    rng, x = np.random.default_rng(5), np.random.default_rng(6).normal(size=(20, 5))
    data = Trees.from_lightgbm(grown()).to_dict()
    names = ("first", "column", "threshold", "missing", "left", "right", "leaf")
    values = [-1, 0, 10**12, 1e308, float("nan"), "", None, 0.5, True, -7]
    for _ in range(400):
        name = str(rng.choice(names))
        changed = list(data[name])
        changed[int(rng.integers(len(changed)))] = values[int(rng.integers(len(values)))]
        try:
            found = Trees.from_dict({**data, name: changed}).predict(x)
        except PolicyError:
            continue
        assert np.isfinite(found).all()


def test_a_policy_file_with_damaged_trees_is_one_message(tmp_path, counterrank_policy):
    data = counterrank_policy.to_dict()
    data["scorer"]["trees"]["left"][0] = 0
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(data))
    import counterrank as cr

    with pytest.raises(PolicyError, match="trees are damaged"):
        cr.load_policy(path)


@pytest.fixture(scope="module")
def counterrank_policy():
    from tests.learning.conftest import clicks_log, learn

    return learn(clicks_log(1, 600), model="boosting", despite_audit=True).policy
