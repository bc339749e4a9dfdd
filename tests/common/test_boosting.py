"""The options of gradient boosting, and that kept trees are the same for the same rows."""

import numpy as np
import pytest

from counterrank.common import boosting

sklearn = pytest.importorskip("sklearn")


def test_models_that_are_used_once_have_the_options_they_were_tried_with():
    regressor = boosting.regressor(3)
    assert type(regressor).__name__ == "HistGradientBoostingRegressor"
    assert (regressor.max_iter, regressor.learning_rate, regressor.random_state) == (100, 0.1, 3)


@pytest.mark.parametrize(("rows", "threads"), [(19_999, 1), (20_000, None)])
def test_few_rows_get_one_thread(rows, threads, monkeypatch):
    import threadpoolctl

    seen = []
    monkeypatch.setattr(threadpoolctl, "threadpool_limits", lambda limits: seen.append(limits))
    boosting.threads_for(rows)
    assert seen == [threads]


def test_kept_trees_are_deterministic():
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    given = {"leaves": 4, "leaf_rows": 5, "rate": 0.2, "seed": 1}
    for value, objective in (
        ((x[:, 0] > 0) * 1.0, "binary"),
        (np.where(x[:, 0] > 0, 1.0, 0.5), "regression"),
    ):
        options = boosting.kept_options(value, **given)
        assert options == {
            "objective": objective,
            "num_leaves": 4,
            "min_data_in_leaf": 5,
            "learning_rate": 0.2,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "seed": 1,
            "verbose": -1,
        }
        grown = boosting.kept_trees(x, value, options, 3)
        assert grown == boosting.kept_trees(x, value, options, 3)
        assert len(grown["tree_info"]) == 3
