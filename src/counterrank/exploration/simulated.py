"""What `auto` would say: logs drawn from an option, with rewards drawn from the models.

`auto` fits models and weighs evidence, and no formula says how sure it will be. So some future logs
are drawn for requests of this log, and `auto` estimates on them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from counterrank.arrays import Floats
from counterrank.data.log import RankingLog
from counterrank.errors import CounterrankError
from counterrank.estimators import Auto
from counterrank.exploration import settings
from counterrank.exploration.rewards import PageRewards
from counterrank.policies import Policy, PolicySpec, Scored, cut


def drawn_log(
    log: RankingLog,
    logger: Scored,
    rewards: PageRewards,
    spec: PolicySpec,
    rng: np.random.Generator,
) -> RankingLog:
    """Return the log with pages drawn from an option and rewards drawn from the models."""
    policy = Scored(logger.candidates, logger.scores, spec)
    pages = cut(policy.sample(log.K, rng), log.lengths)
    q = rewards.on(log, logger).mean(pages)[:, 0]
    return replace(
        log,
        action=pages[:, 0],
        reward=drawn_rewards(q, log.reward, rewards.pair, rng),
        propensity=policy,
        targets={},
    )


def drawn_rewards(q: Floats, seen: Floats, pair: Floats, rng: np.random.Generator) -> Floats:
    """Return rewards (n, K) with expectations q: a click, then an amount like those seen at the place.

    Where no page has two clicks, a page gets one at most.

    >>> q = np.full((1000, 2), 0.5)
    >>> drawn_rewards(q, np.eye(2), np.zeros((2, 2)), np.random.default_rng(0)).sum(axis=1).max()
    np.float64(1.0)
    """
    n, K = q.shape
    paid = seen > 0
    amount = np.divide(
        np.where(paid, seen, 0.0).sum(axis=0),
        paid.sum(axis=0),
        out=np.ones(K),
        where=paid.any(axis=0),
    )
    chance = np.clip(q / amount, 0.0, 1.0)
    if K > 1 and not pair.any():
        # One number decides whether there is a click, another where.
        total = chance.sum(axis=1)
        some = rng.random(n) < total
        part = np.cumsum(chance, axis=1) / np.maximum(total, 1e-300)[:, None]
        place = (part < rng.random((n, 1))).sum(axis=1).clip(0, K - 1)
        clicks = np.zeros((n, K), dtype=bool)
        clicks[np.flatnonzero(some), place[some]] = True
    else:
        clicks = rng.random((n, K)) < chance
    out = np.zeros((n, K))
    for k in range(K):
        values = seen[paid[:, k], k]
        own = clicks[:, k]
        out[own, k] = rng.choice(values, own.sum()) if len(values) else 1.0
    return out


def by_auto(
    log: RankingLog,
    logger: Scored,
    rewards: PageRewards,
    spec: PolicySpec,
    targets: dict[str, Policy],
    seed: int,
) -> dict[str, tuple[float, float]]:
    """Return (spread, allowance) of `auto`'s lift by target, means over some drawn logs.

    The standard error from n rankings is spread / sqrt(n). Targets of which it would say nothing are
    left out.
    """
    if (log.reward < 0).any() or log.page_reward:
        return {}
    found: dict[str, list[tuple[float, float]]] = {}
    for number in range(settings.LOGS):
        rng = np.random.default_rng([seed, 13, number])
        made = drawn_log(log, logger, rewards, spec, rng).with_targets(targets)
        for name in targets:
            try:
                estimate = Auto().estimate(made, name)
            except CounterrankError:
                continue
            if estimate.estimable and estimate.lift is not None:
                error = estimate.lift.stderr * np.sqrt(made.n)
                found.setdefault(name, []).append((error, estimate.allowance))
    return {
        name: (
            float(np.sqrt(np.mean([error**2 for error, _ in pairs]))),
            float(np.mean([allowed for _, allowed in pairs])),
        )
        for name, pairs in found.items()
        if len(pairs) == settings.LOGS
    }
