from functools import partial

import numpy as np
import pytest

import counterrank as cr

#: Chance of a click on an item by its place in the catalogue, the same for all.
RELEVANCE = np.array([0.1, 0.2, 0.3, 0.5, 0.6, 0.8])
EXAMINED = np.array([1.0, 0.7, 0.4])


def clicks_log(
    seed: int, n: int = 1500, *, noise: bool = False, temperature: float = 1.0, **more
) -> cr.RankingLog:
    """Position-based clicks on three of six items that a random ranker shows; `noise`: nothing
    matters.
    """
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, 6))
    policy = cr.PlackettLuce(scores / temperature)
    action = policy.sample(3, rng)[:, 0]
    chance = np.full(action.shape, 0.3) if noise else RELEVANCE[action] * EXAMINED
    reward = (rng.random(action.shape) < chance).astype(float)
    return cr.RankingLog(
        action=action,
        reward=reward,
        propensity=cr.PlackettLuce(scores),
        context=rng.normal(size=(n, 1)),
        columns={"device": rng.choice(["phone", "desk"], n)},
        **more,
    )


#: Rows of these logs are drawn one by one.
learn = partial(cr.learn, independent_rows=True)


@pytest.fixture(scope="session")
def log() -> cr.RankingLog:
    return clicks_log(1)


@pytest.fixture(scope="session")
def learned(log):
    return learn(log, segments="device")
