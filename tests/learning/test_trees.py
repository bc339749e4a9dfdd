"""Trees of LightGBM's text: the same predictions as the library's, and no text does harm."""

import json

import numpy as np
import pytest

from counterrank.errors import PolicyError
from counterrank.learning.trees import Trees

lightgbm = pytest.importorskip("lightgbm")


def text_of(seed: int = 0, objective: str = "binary", missing: float = 0.2) -> str:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(600, 5))
    x[:, 1] = rng.integers(0, 3, 600)
    x[:, 2] = 0.0
    y = (x[:, 0] + x[:, 1] + rng.normal(size=600) > 1).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    options = {"objective": objective, "num_leaves": 8, "verbose": -1, "num_threads": 1}
    return lightgbm.train(options, lightgbm.Dataset(x, y), num_boost_round=12).model_to_string()


@pytest.mark.parametrize("objective", ["binary", "regression"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_it_predicts_what_lightgbm_predicts(objective, missing):
    """The library is the twin: also for missing values, zeros and numbers far out."""
    rng = np.random.default_rng(1)
    x = 3 * rng.normal(size=(2000, 5))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[rng.random(x.shape) < 0.1] = 0.0
    x[0] = 1e300
    text = text_of(3, objective, missing)
    expected = lightgbm.Booster(model_str=text).predict(x, num_threads=1)
    np.testing.assert_allclose(Trees.from_text(text).predict(x), expected, rtol=0, atol=1e-14)


def test_a_tree_of_one_leaf_is_a_number():
    x = np.zeros((40, 1))
    data = lightgbm.Dataset(x, np.arange(40.0))
    text = lightgbm.train({"verbose": -1}, data, num_boost_round=2).model_to_string()
    expected = lightgbm.Booster(model_str=text).predict(x)
    np.testing.assert_allclose(Trees.from_text(text).predict(x), expected)


def replaced(text: str, name: str, value: str) -> str:
    """The text with another value in the first line of that name."""
    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{name}="))
    lines[at] = f"{name}={value}"
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("left_child", "0 0 0 0 0 0 0", "links"),
        ("right_child", "5 5 5 5 5 5 5", "links"),
        ("left_child", "-99999 1 2 3 4 5 6", "links"),
        ("left_child", "1", "entries"),
        ("split_feature", "99 99 99 99 99 99 99", "column"),
        ("split_feature", "-1 0 0 0 0 0 0", "column"),
        ("decision_type", "1 1 1 1 1 1 1", "other questions"),
        ("threshold", "nan 0 0 0 0 0 0", "no number"),
        ("leaf_value", "inf 0 0 0 0 0 0 0", "not finite"),
        ("leaf_value", "1e308 0 0 0 0 0 0 0", None),
        ("num_leaves", "2147483647", "number of leaves"),
        ("num_leaves", "-1", "number of leaves"),
        ("num_cat", "3", "categories"),
        ("is_linear", "1", "linear"),
        ("num_class", "0", "num_class"),
        ("num_tree_per_iteration", "7", "num_class"),
        ("max_feature_idx", "-1", "no trees"),
        ("objective", "multiclass num_class:3", "objective"),
        ("objective", "binary sigmoid:nan", "objective"),
        ("objective", "", "damaged"),
    ],
)
def test_a_damaged_text_is_refused(name, value, message):
    text = replaced(text_of(), name, value)
    if message is None:
        assert np.isfinite(Trees.from_text(text).predict(np.zeros((1, 5)))).all()
        return
    with pytest.raises(PolicyError, match=message):
        Trees.from_text(text)


@pytest.mark.parametrize("text", [None, 7, "", "tree\n", "tree\nend of trees", "forest\n" * 9])
def test_what_is_no_text_of_lightgbm_is_refused(text):
    with pytest.raises(PolicyError, match="damaged"):
        Trees.from_text(text)


def test_a_text_changed_anywhere_is_refused_or_predicts_numbers():
    """400 changes: characters, words, lines, cuts. Nothing but a PolicyError may come of them."""
    rng = np.random.default_rng(5)
    text, x = text_of(), rng.normal(size=(20, 5))
    words = ["-1", "0", "999999999999", "1e308", "nan", "-inf", "", "0.5", "1" * 400]
    for turn in range(400):
        parts = list(text) if turn % 2 else text.split(" ")
        at = int(rng.integers(len(parts)))
        parts[at] = chr(rng.integers(32, 127)) if turn % 2 else str(rng.choice(words))
        changed = ("" if turn % 2 else " ").join(parts)
        if turn % 5 == 0:
            changed = text[: int(rng.integers(len(text)))]
        try:
            found = Trees.from_text(changed).predict(x)
        except PolicyError:
            continue
        assert np.isfinite(found).all()


def test_a_policy_file_with_damaged_trees_is_one_message(tmp_path, counterrank_policy):
    data = counterrank_policy.to_dict()
    data["scorer"]["trees"] = replaced(data["scorer"]["trees"], "left_child", "0 0 0 0 0")
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(data))
    import counterrank as cr

    with pytest.raises(PolicyError, match="trees are damaged"):
        cr.load_policy(path)


@pytest.fixture(scope="module")
def counterrank_policy():
    from tests.learning.conftest import clicks_log, learn

    return learn(clicks_log(1, 600), model="boosting", despite_audit=True).policy
