"""The values of the paper's figures, for comparison."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _table() -> dict[str, Any]:
    text = files("counterrank.paper").joinpath("data/published_figures.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def published(figure: str, metric: str, estimator: str, x: float) -> float | None:
    """Return the published value (divided by V^2), or None where there is none.

    >>> published("data-size", "mse", "iips", 8000)
    0.204
    """
    table = _table()
    estimator = estimator.replace(", cached", "")
    if figure not in table["x"] or estimator not in table[figure][metric]:
        return None
    if x not in table["x"][figure]:
        return None
    value: float | None = table[figure][metric][estimator][table["x"][figure].index(x)]
    return value


def published_seconds(estimator: str, n: float) -> float | None:
    """Return the published run time at K = 8."""
    table = _table()["runtime"]
    if estimator not in table or n not in table["n"]:
        return None
    return float(table[estimator][table["n"].index(n)])
