"""Draws from an environment, with everything only a simulator knows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterrank.policies import Bools, Floats, Ints
from counterrank.simulate.bounds import whole
from counterrank.simulate.environment import Environment
from counterrank.simulate.policy import Which, behavior_probability, distribution, draw_actions, propensity
from counterrank.simulate.rewards import base_reward, expected_reward

if TYPE_CHECKING:
    from counterrank.log import RankingLog


@dataclass(frozen=True, slots=True)
class SimulatedLog:
    """n simulated rankings.

    context (n, d), action (n, K), reward (n, K), expected reward q (n, K), behavior (n,) index into `masks`;
    p0 and p1: whole distributions of the logging and target policies, (n, A) or (n, K, A).
    `drawn_by` names the policy that chose the actions.
    """

    env: Environment
    context: Floats
    action: Ints
    reward: Floats
    p0: Floats
    p1: Floats
    behavior: Ints
    q: Floats
    drawn_by: Which = "logging"

    @property
    def masks(self) -> Bools:
        """Relevance masks of the behaviours: (M, K, K)."""
        return self.env.masks

    @property
    def propensity(self) -> Floats:
        """Probabilities of the shown actions under the policy that drew them: (n, K)."""
        return propensity(self.env, self.p0 if self.drawn_by == "logging" else self.p1, self.action)

    @property
    def target(self) -> Floats:
        """Probabilities of the shown actions under the target policy: (n, K)."""
        return propensity(self.env, self.p1, self.action)

    @property
    def behavior_name(self) -> list[str]:
        """Name of each row's behaviour."""
        return [self.env.behavior_names[z] for z in self.behavior]

    def to_log(self) -> "RankingLog":
        """Return the rankings as a `RankingLog` with target "new"."""
        from counterrank.simulate.adapt import to_log

        return to_log(self)


def draw(env: Environment, n: int, rng: np.random.Generator, *, policy: Which = "logging") -> SimulatedLog:
    """Return n rankings shown by one of the environment's policies.

    >>> from counterrank.simulate import published
    >>> log = draw(published(), 4, np.random.default_rng(0))
    >>> log.action.shape, log.p1[0].round(3).tolist()
    ((4, 8), [0.8, 0.1, 0.1])
    """
    whole("n", n, 1)
    context = rng.standard_normal((n, env.d))
    base = base_reward(env, base_context(env, context, rng))
    chance = behavior_probability(env, context)  # (n, M)
    below = chance.cumsum(axis=1)[:, :-1] < rng.random((n, 1))
    behavior = below.sum(axis=1, dtype=np.int64)
    p0 = distribution(env, context, "logging")
    p1 = distribution(env, context, "target")
    action = draw_actions(env, p0 if policy == "logging" else p1, rng)
    q = expected_reward(env, action, behavior, base)
    reward = add_noise(env, q, rng)
    return SimulatedLog(env, context, action, reward, p0, p1, behavior, q, policy)


def base_context(env: Environment, context: Floats, rng: np.random.Generator) -> Floats:
    """Return the contexts that the base reward sees: (n, d)."""
    if env.base_context == "own":
        return context
    if env.base_context == "other":
        return rng.standard_normal(context.shape)
    slipped: Floats = context[np.arange(len(context)) // env.K]
    return slipped


def add_noise(env: Environment, q: Floats, rng: np.random.Generator) -> Floats:
    """Return rewards with mean q: 0/1 draws for binary rewards, Gaussian noise otherwise."""
    if env.reward_model == "binary":
        return (rng.random(q.shape) < q).astype(np.float64)
    noise = rng.standard_normal((len(q), 1 if env.noise_shared else q.shape[1]))
    return q + env.sigma * noise
