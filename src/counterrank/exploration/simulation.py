"""The interval of `auto` on a log that an option has not written yet: pages and rewards are drawn, and it is asked.

Formulas for weights promise more than `auto` keeps: its interval has room for the errors of its models and
for the choice of its members. So rankings are drawn from the option for requests of the log, rewards from
the reward models, and `auto` estimates the targets on them. Its standard error and its allowance both fall
with the root of the rows (`plan_for` says how far), which leads from the drawn rows to any number of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import CounterrankError
from counterrank.data.log import RankingLog
from counterrank.estimators import get_estimator
from counterrank.evaluation import detectable
from counterrank.exploration.predictions import PageRewards
from counterrank.policies import Policy, PolicySpec


@dataclass(frozen=True, slots=True)
class SimulatedError:
    """The standard error and the allowance of a relative lift by `auto`, from `rows` drawn rankings."""

    rows: int
    stderr: float
    allowance: float

    def detectable(self, rows: float, level: float) -> float:
        """Return the smallest relative lift that is seen from so many rankings with a chance of 80 %."""
        shrunk = math.sqrt(self.rows / rows)
        return detectable(self.stderr * shrunk, allowance=self.allowance * shrunk, level=level)


def simulated_error(
    models: PageRewards, spec: PolicySpec, target: Policy, level: float, seed: int
) -> SimulatedError | None:
    """Return the error of `auto` for a target on a log that an option wrote; None where it cannot run.

    Parameters
    ----------
    models
        Reward models on the requests that are served.
    spec
        The option.
    target
        The policy that is evaluated, over the same requests.
    level
        Confidence of the interval.
    seed
        Seed of pages, rewards and of `auto`.
    """
    log = simulated_log(models, spec, np.random.default_rng([seed, 18]))
    earned = float((log.reward @ log.position_weights).mean())
    try:
        estimate = get_estimator("auto").estimate(log, target, level=level, seed=seed)
    except CounterrankError:
        return None
    if not (estimate.estimable and earned > 0):
        return None
    stderr, allowance = estimate.lift.stderr / earned, estimate.allowance / earned
    measured = stderr > 0 and math.isfinite(stderr + allowance)
    return SimulatedError(log.n, stderr, allowance) if measured else None


def simulated_log(models: PageRewards, spec: PolicySpec, rng: np.random.Generator) -> RankingLog:
    """Return the requests with pages that an option draws, and rewards that the models draw."""
    served = models.policy(spec)
    pages = models.pages(served, 1, rng)
    return models.requests.changed(
        action=pages[:, 0],
        reward=drawn_rewards(models.mean(pages)[:, 0], models.square, rng),
        propensity=served,
        rewards={},
        dists={},
        unit=None,
        targets={},
        notes=(),
    )


def drawn_rewards(q: Floats, amounts: Floats, rng: np.random.Generator) -> Floats:
    """Return rewards (n, K) with means q and second moments amounts * q: amounts[k], or nothing.

    >>> rewards = drawn_rewards(np.full((100_000, 1), 0.5), np.array([2.0]), np.random.default_rng(0))
    >>> rewards.mean().round(2), (rewards**2).mean().round(1), np.unique(rewards).tolist()
    (np.float64(0.5), np.float64(1.0), [0.0, 2.0])
    """
    amount = np.where(amounts > 0, amounts, 1.0)
    chance = np.clip(q / amount, 0.0, 1.0)
    return np.where(rng.random(q.shape) < chance, amount, 0.0)
