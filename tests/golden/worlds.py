"""Small logs of every kind, drawn from NumPy's generator and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

import counterrank as cr


def softmax(scores: np.ndarray) -> np.ndarray:
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def factored(
    n: int = 400, K: int = 3, items: int = 4, *, seed: int = 1, sharp: float = 0.7,
    whole: bool = True, ragged: bool = False, **more: bool,
) -> cr.RankingLog:  # fmt: skip
    """Return a log of independent positions; `whole`: with the whole distributions of each policy."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n, 2))
    taste = np.linspace(-1, 1, items)
    scores = 0.4 * context[:, :1, None] * taste + 0.3 * np.sin(np.arange(K * items)).reshape(
        K, items
    )
    tables = {
        "propensity": softmax(scores),
        "new": softmax(scores + sharp * taste),
        "old": softmax(scores - 0.4 * taste),
    }
    draws = rng.random((n, K, 1))
    action = np.minimum((draws > tables["propensity"].cumsum(axis=2)).sum(axis=2), items - 1)
    shown = {
        name: np.take_along_axis(p, action[:, :, None], 2)[..., 0] for name, p in tables.items()
    }
    gone = _gone(rng, n, K, ragged)
    reward = _clicks(rng, action, items, gone)
    for values in shown.values():
        values[gone] = 1.0
    action[gone] = -1
    return _told(
        rng, action, reward, shown["propensity"],
        {name: cr.Propensity("factored", shown[name]) for name in ("new", "old")},
        context=context, dists=tables if whole else {}, **more,
    )  # fmt: skip


def plackett_luce(
    n: int = 400, K: int = 3, items: int = 6, *, seed: int = 2, ragged: bool = False, **more: bool
) -> cr.RankingLog:
    """Return a log of rankings without replacement; the targets are policies."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n, 2))
    taste = np.linspace(-1, 1, items)
    scores = 0.4 * context[:, :1] * taste + 0.2 * rng.normal(size=(n, items))
    action = np.argsort(-(scores + rng.gumbel(size=(n, items))), axis=1)[:, :K]
    gone = _gone(rng, n, K, ragged)
    reward = _clicks(rng, action, items, gone)
    action[gone] = -1
    targets = {
        "new": cr.PlackettLuce(scores + 0.5 * taste),
        "old": cr.PlackettLuce(scores - 0.3 * taste),
    }
    return _told(rng, action, reward, cr.PlackettLuce(scores), targets, context=context, **more)  # fmt: skip


def arms(n: int = 600, *, seed: int = 3, three: bool = False, **more: bool) -> cr.RankingLog:
    """Return an A/B test of rankers with independent positions."""
    rng = np.random.default_rng(seed)
    policies = {"a": np.array([0.4, 0.3, 0.3]), "b": np.array([0.3, 0.3, 0.4])}
    if three:
        policies["c"] = np.array([0.2, 0.5, 0.3])
    names = list(policies)
    arm = rng.choice(names, n)
    served = np.stack([policies[name] for name in arm])
    action = (rng.random((n, 2, 1)) > served.cumsum(axis=1)[:, None, :]).sum(axis=2)
    targets = {name: cr.Propensity("factored", policies[name][action]) for name in names}
    log = _told(
        rng, action, _clicks(rng, action, 3, np.zeros(action.shape, bool)),
        np.take_along_axis(served, action, axis=1), targets,
        context=rng.normal(size=(n, 2)), columns={"arm": arm}, **more,
    )  # fmt: skip
    return log


def ranked(kind: str = "plackett-luce", n: int = 500, items: int = 6) -> cr.RankingLog:
    """Return a log with the scores of all candidates, from which policies can be planned and learned."""
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(n, items))
    sets = cr.Candidates(np.arange(n + 1) * items, np.tile(np.arange(items, dtype=np.int32), n))
    policy = cr.parse_policy(kind).bind(candidates=sets, scores=scores.reshape(-1))
    other = cr.parse_policy("plackett-luce").bind(
        candidates=sets, scores=(scores + np.linspace(-0.5, 0.5, items)).reshape(-1)
    )
    action = policy.sample(3, rng)[:, 0]
    chance = np.linspace(0.1, 0.8, items)[action] * np.array([1.0, 0.7, 0.4])
    return cr.RankingLog(
        action=action, reward=(rng.random(chance.shape) < chance).astype(float), propensity=policy,
        targets={"new": other}, candidates=sets, context=rng.normal(size=(n, 1)),
        columns={"device": rng.choice(["phone", "desk"], n), "day": np.arange(n) * 14 // n},
    )  # fmt: skip


def _gone(rng: np.random.Generator, n: int, K: int, ragged: bool) -> np.ndarray:
    length = rng.integers(1, K + 1, n) if ragged else np.full(n, K)
    return np.arange(K) >= length[:, None]


def _clicks(
    rng: np.random.Generator, action: np.ndarray, items: int, gone: np.ndarray
) -> np.ndarray:
    """Return clicks: some items are liked, and a good first item draws clicks to those below."""
    below = 0.1 * (action[:, :1] >= items - 1) * (np.arange(action.shape[1]) > 0)
    chance = 0.15 + 0.35 * action / items + below
    return np.where(gone, 0.0, rng.random(action.shape) < chance)


def _told(
    rng: np.random.Generator, action: Any, click: Any, propensity: Any, targets: Any, *,
    users: bool = False, weights: bool = False, named: bool = False, page: bool = False,
    groups: bool = False, columns: Any = (), **more: Any,
) -> cr.RankingLog:  # fmt: skip
    """Return a log with users, weights of rows, several rewards, one reward a page, or groups of rows."""
    n = len(action)
    reward: Any = click.sum(axis=1) if page else click
    columns = dict(columns)
    if named:
        reward = {"click": click, "revenue": click * np.round(rng.gamma(2.0, 2.0, click.shape), 2)}
    if groups:
        columns["device"] = rng.choice(["app", "web"], n)
        columns["country"] = rng.choice(["at", "de", "fr"], n, p=[0.2, 0.5, 0.3])
        columns["day"] = np.array([f"2026-10-{1 + row * 10 // n:02d}" for row in range(n)])
    if users:
        more["unit"] = rng.integers(0, n // 4, n)
    if weights:
        more["weight"] = rng.choice([1.0, 2.0, 4.0], n)
    return cr.RankingLog(
        action=action,
        reward=reward,
        propensity=propensity,
        targets=targets,
        columns=columns,
        **more,
    )
