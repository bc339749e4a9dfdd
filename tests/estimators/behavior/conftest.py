"""Logs with a known behaviour in each group, and an objective written out naively."""

from collections.abc import Callable

import numpy as np
import pytest

from counterrank import RankingLog


def planted(
    n: int,
    seed: int,
    *,
    categorical: bool = False,
    missing: float = 0.0,
    width: int = 3,
    unit: bool = False,
) -> RankingLog:
    """Return a log whose rewards depend on the own item where x_0 <= 0.3, and on pairs of items
    elsewhere.

    With `categorical`, x_0 holds codes 0..5 and the first group is {1, 4}. `missing` is the share
    of x_0 that is NaN; those rankings belong to the second group.
    """
    rng = np.random.default_rng(seed)
    K = 3
    x = rng.normal(size=(n, width))
    if categorical:
        x[:, 0] = rng.integers(6, size=n)
    alone = np.isin(x[:, 0], (1, 4)) if categorical else x[:, 0] <= 0.3
    if missing:
        gone = rng.random(n) < missing
        x[gone, 0], alone[gone] = np.nan, False
    action = rng.integers(2, size=(n, K))
    others = action.sum(axis=1, keepdims=True) - action
    together = 3.0 * (2.0 * action - 1.0) * others
    # A large reward where the own item matters: weighing all items there is what costs variance.
    reward = np.where(alone[:, None], 8.0 + 2.0 * action, together) + 0.2 * rng.normal(size=(n, K))
    return RankingLog(
        action=action,
        reward=reward,
        propensity=np.full((n, K), 0.5),
        context=x,
        categories={"x_0": tuple("abcdef")} if categorical else {},
        unit=rng.permutation(n) if unit else None,
        targets={"new": np.where(action == 1, 0.8, 0.2)},
    )


@pytest.fixture
def make_log() -> Callable[..., RankingLog]:
    return planted


def naive_score(
    y: np.ndarray, choice: np.ndarray, value: float, kappa: float, *, n_apply: int
) -> float:
    """Return Var + max(0, (V - value)^2 - kappa Var) of an assignment choice (n,), from rows y
    (n, M).
    """
    n = len(y)
    own = y[np.arange(n), choice]
    bias = max((own.mean() - value) ** 2 - kappa * own.var() / n, 0.0)
    return float(own.var() / n_apply + bias)


@pytest.fixture
def score_of() -> Callable[..., float]:
    return naive_score
