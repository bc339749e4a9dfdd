"""Gradient boosting: the one place that names its libraries and their options.

scikit-learn's histogram boosting fits models that are used once, inside an evaluation. LightGBM fits
trees that are kept, because it hands them out as data that needs no library to be read.
"""

from typing import Any

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import require
from counterrank.common.records import Json

#: Rows from which on several threads are worth their start: below, they mostly wait for each other.
_FOR_THREADS = 20_000


def regressor(seed: int) -> Any:
    """Return an unfitted regressor of scikit-learn."""
    ensemble = require("sklearn.ensemble", extra="models")
    return ensemble.HistGradientBoostingRegressor(
        max_iter=100, learning_rate=0.1, random_state=seed
    )


def threads_for(rows: int) -> Any:
    """Return a context in which libraries use one thread where there are few rows.

    On a busy machine the threads of a small fit took fifty times as long as one.
    """
    pools = require("threadpoolctl", extra="models")
    return pools.threadpool_limits(limits=1 if rows < _FOR_THREADS else None)


def kept_options(value: Floats, *, leaves: int, leaf_rows: int, rate: float, seed: int) -> Json:
    """Return LightGBM's options for values (N,): the same rows give the same trees."""
    return {
        "objective": "binary" if np.isin(value, (0.0, 1.0)).all() else "regression",
        "num_leaves": leaves,
        "min_data_in_leaf": leaf_rows,
        "learning_rate": rate,
        "deterministic": True,
        # `deterministic` rests on it: LightGBM else times both layouts and takes the faster.
        "force_row_wise": True,
        "num_threads": 1,
        "seed": seed,
        "verbose": -1,
    }


def kept_trees(columns: Floats, value: Floats, options: Json, rounds: int) -> Json:
    """Return LightGBM's trees of values (N,) on columns (N, p), as plain data."""
    lightgbm = require("lightgbm", extra="boosting")
    data = lightgbm.Dataset(columns, value)
    grown: Json = lightgbm.train(options, data, num_boost_round=rounds).dump_model()
    return grown
