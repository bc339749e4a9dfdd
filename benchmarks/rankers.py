"""Plain ways to learn a ranking from a click log, for comparison: each returns scores to sort by.

They are given all rows. LightGBM and XGBoost read the context, the item's features, its id and its
position; where new requests are scored, every candidate stands at the first position.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from counterrank.research.simulate.worlds import DrawnWorld

Floats = NDArray[np.float64]
Ranker = Callable[[DrawnWorld], Floats]

ROUNDS = 100


def columns(drawn: DrawnWorld, items: NDArray[np.int64]) -> Floats:
    """Return context, features and id (n * C, d) of items (n, C)."""
    n, C = items.shape
    flat = items.ravel()
    return np.concatenate(
        [np.repeat(drawn.context, C, axis=0), drawn.feature[flat], flat[:, None]], axis=1
    )


def lightgbm_binary(drawn: DrawnWorld) -> Ranker:
    """A classifier of clicks with the position among its columns."""
    import lightgbm

    n, K = drawn.action.shape
    place = np.tile(np.arange(K, dtype=float), n)[:, None]
    table = np.concatenate([columns(drawn, drawn.action), place], axis=1)
    ident = [table.shape[1] - 2]
    data = lightgbm.Dataset(table, drawn.reward.ravel(), categorical_feature=ident)
    options = {"objective": "binary", "verbose": -1, "num_threads": 1, "learning_rate": 0.05}
    model = lightgbm.train(options, data, ROUNDS)

    def scores(other: DrawnWorld) -> Floats:
        new = columns(other, other.candidates)
        return model.predict(np.concatenate([new, np.zeros((len(new), 1))], axis=1), num_threads=1)

    return lambda other: scores(other).reshape(other.candidates.shape)


def lightgbm_lambdarank(drawn: DrawnWorld) -> Ranker:
    """LambdaRank with LightGBM's own correction for positions."""
    import lightgbm

    n, K = drawn.action.shape
    table = columns(drawn, drawn.action)
    data = lightgbm.Dataset(
        table,
        drawn.reward.ravel(),
        group=np.full(n, K),
        position=np.tile(np.arange(K), n),
        categorical_feature=[table.shape[1] - 1],
    )
    options = {"objective": "lambdarank", "verbose": -1, "num_threads": 1, "learning_rate": 0.05}
    model = lightgbm.train(options, data, ROUNDS)
    return lambda other: model.predict(columns(other, other.candidates), num_threads=1).reshape(
        other.candidates.shape
    )


def xgboost_unbiased(drawn: DrawnWorld) -> Ranker:
    """LambdaMART with XGBoost's own correction for positions."""
    import xgboost

    n, K = drawn.action.shape
    data = xgboost.DMatrix(columns(drawn, drawn.action), drawn.reward.ravel())
    data.set_group(np.full(n, K))
    options = {
        "objective": "rank:ndcg", "lambdarank_unbiased": True, "lambdarank_pair_method": "topk",
        "nthread": 1, "eta": 0.05, "verbosity": 0,
    }  # fmt: skip
    model = xgboost.train(options, data, ROUNDS)
    return lambda other: model.predict(xgboost.DMatrix(columns(other, other.candidates))).reshape(
        other.candidates.shape
    )


def logger_sharpened(drawn: DrawnWorld) -> Ranker:
    """Today's scores, sorted."""
    return lambda other: other.old_scores


def click_through(drawn: DrawnWorld) -> Ranker:
    """Clicks per showing of each item, with one showing at the average rate added."""
    shown = np.bincount(drawn.action.ravel(), minlength=drawn.world.items)
    clicked = np.bincount(
        drawn.action.ravel(), weights=drawn.reward.ravel(), minlength=drawn.world.items
    )
    rate = (clicked + drawn.reward.mean()) / (shown + 1.0)
    return lambda other: rate[other.candidates]


def rankers() -> Iterator[tuple[str, Callable[[DrawnWorld], Ranker]]]:
    """Yield names and what fits; XGBoost where it is installed."""
    yield "lightgbm", lightgbm_binary
    yield "lambdarank", lightgbm_lambdarank
    try:
        import xgboost  # noqa: F401
    except ImportError:
        pass
    else:
        yield "xgboost", xgboost_unbiased
    yield "sharpened", logger_sharpened
    yield "click-through", click_through
