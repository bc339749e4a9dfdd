import numpy as np
import pytest

import counterrank as cr
from counterrank.research.simulate import paper, published


def gentle_log(
    n: int, seed: int = 0, *, K: int = 3, A: int = 4, shift: float = 0.3, **more
) -> cr.RankingLog:
    """Independent rewards, a contextual logger and a target close to it: everything is in order."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    scores = x @ rng.normal(size=(2, A)) * 0.5
    table = np.exp(scores)
    p0 = table / table.sum(axis=1, keepdims=True)
    moved = np.exp(scores + shift * np.arange(A) / A)
    p1 = moved / moved.sum(axis=1, keepdims=True)
    action = np.stack(
        [(rng.random(n)[:, None] > np.cumsum(p0, axis=1)).sum(axis=1) for _ in range(K)], axis=1
    )
    action = np.minimum(action, A - 1)
    reward = (rng.random((n, K)) < 0.3 + 0.1 * action / A).astype(float)
    rows = np.arange(n)[:, None]
    return cr.RankingLog(
        action=action,
        reward=reward,
        propensity=p0[rows, action],
        context=x,
        targets={"new": cr.Propensity("factored", p1[rows, action])},
        dists={"propensity": p0, "new": p1},
        **more,
    )


@pytest.fixture(scope="session")
def gentle() -> cr.RankingLog:
    rng = np.random.default_rng(5)
    n = 6000
    return gentle_log(
        n, columns={"device": rng.choice(["mobile", "desktop", "tablet"], n, p=[0.6, 0.38, 0.02])}
    )


@pytest.fixture(scope="session")
def published_8000() -> cr.RankingLog:
    return published().draw(8000, np.random.default_rng(1)).to_log()


@pytest.fixture(scope="session")
def contextual() -> cr.RankingLog:
    return paper(K=3).draw(4000, np.random.default_rng(3)).to_log()
