"""A small log with clicks, revenue and an order a ranking, and policies that move them apart."""

import numpy as np
import pytest

import counterrank as cr


def made(n=1500, K=3, A=5, seed=0, ragged=False):
    rng = np.random.default_rng(seed)
    p0 = rng.dirichlet(np.full(A, 4.0), size=n)
    rel, price = np.linspace(0.2, 0.9, A), np.linspace(9.0, 2.0, A)

    def tilted(by):
        found = p0 * np.exp(by)
        return found / found.sum(axis=1, keepdims=True)

    dists = {"propensity": p0, "new": tilted(rel), "prod": tilted(-0.5 * rel)}
    action = np.array([[rng.choice(A, p=row) for _ in range(K)] for row in p0])
    if ragged:
        action[::4, -1] = -1
    clicks = (rng.random((n, K)) < rel[action] * 0.5).astype(float) * (action >= 0)
    revenue = clicks * price[action] * rng.exponential(1.0, size=(n, K))

    def shown(name):
        found = np.take_along_axis(dists[name], np.maximum(action, 0), axis=1)
        return np.where(action >= 0, found, 1.0)

    return {
        "action": action,
        "click": clicks,
        "revenue": revenue,
        "propensity": shown("propensity"),
        "new": shown("new"),
        "prod": shown("prod"),
        "order": revenue.sum(axis=1),
        "device": rng.choice(["phone", "desk"], size=n),
        "user": rng.integers(n // 2, size=n).astype(str),
    }


def log_of(data, **more):
    return cr.RankingLog(
        action=data["action"],
        reward={"clicks": data["click"], "revenue": data["revenue"], "order": data["order"]},
        propensity=data["propensity"],
        targets={name: cr.Propensity("factored", data[name]) for name in ("new", "prod")},
        columns={"device": data["device"]},
        **more,
    )


@pytest.fixture(scope="session")
def data():
    return made()


@pytest.fixture(scope="session")
def log(data):
    return log_of(data)
