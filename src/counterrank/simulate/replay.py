"""The published data sets, draw for draw.

The original runs take contexts and actions from one legacy generator seeded by the run, but behaviours and
noise from generators seeded 12345 in every run: all runs of equal n share them. The published figures are then
averages over contexts and actions alone. Runs 0..299 give the published MSE of IPS, IIPS, RIPS and AIPS (true):
of the 63 values that can be read at the 16 distinct points, 57 agree within 1 % and all within 3 %. The number of
runs is inferred: prefixes of runs were compared with four points (n = 1k to 8k), and the other twelve then agreed.
The text speaks of 1000 runs in section 4.2 and of 300 in the appendix.
"""

from dataclasses import replace

import numpy as np

from counterrank.errors import ConfigError
from counterrank.policies.base import Floats, Ints
from counterrank.simulate.conditional import closed_form_given
from counterrank.simulate.draw import SimulatedLog
from counterrank.simulate.environment import Environment, Linear
from counterrank.simulate.policy import behavior_probability, categorical, distribution
from counterrank.simulate.rewards import base_reward, expected_reward

_SHARED_SEED = 12345


def replay(env: Environment, n: int, seed: int) -> SimulatedLog:
    """Return the log of run `seed` of the published experiment, for an environment of preset `published`.

    Base rewards are standardised over the run's own rows and seen with the context of row i // K, as there.

    >>> from counterrank.simulate import published
    >>> replay(published(), 1000, 0).action[0].tolist()
    [0, 1, 1, 0, 1, 1, 1, 1]
    """
    context, base, behavior, stream = _prepare(env, n, seed)
    p0, p1 = distribution(env, context, "logging"), distribution(env, context, "target")
    action = categorical(p0[:, None, :], stream.uniform(size=(n, env.K)))
    q = expected_reward(env, action, behavior, base)
    noise = np.random.RandomState(_SHARED_SEED).standard_normal(n)
    reward = q + env.sigma * noise[:, None]
    return SimulatedLog(env, context, action, reward, p0, p1, behavior, q)


def replay_value(env: Environment, n: int, seed: int) -> Floats:
    """Return V_k of the target on the contexts, behaviours and noise of one run, actions summed out: (K,).

    The published V is the average of on-policy runs on these rows; this is its mean over their actions.
    """
    context, base, behavior, _ = _prepare(env, n, seed)
    p1 = distribution(env, context, "target")
    known = np.eye(env.M)[behavior]  # (n, M)
    noise = np.random.RandomState(_SHARED_SEED).standard_normal(n)
    value = closed_form_given(env, p1, base, known).mean(axis=0)
    out: Floats = value + env.sigma * noise.mean()
    return out


def _prepare(env: Environment, n: int, seed: int) -> tuple[Floats, Floats, Ints, np.random.RandomState]:
    """Return contexts, base rewards (n, A), behaviours, and the generator about to draw the actions."""
    if env.name != "published" or n < 2:
        raise ConfigError(f"only preset 'published' with n >= 2 can be replayed; this is {env.name!r} with n={n}")
    stream = np.random.RandomState(seed)
    context = stream.standard_normal((n, env.d))
    linear = env.base(context)
    # The original standardises over the rows of the run, so its base rewards differ a little from run to run.
    scaled = Linear(env.base.coef / linear.std(), (env.base.bias - linear.mean()) / linear.std())
    base = base_reward(replace(env, base=scaled), context[np.arange(n) // env.K])
    chance = behavior_probability(env, context)
    uniform = np.random.RandomState(_SHARED_SEED).uniform(size=(n, 1))
    behavior: Ints = (chance.cumsum(axis=1) > uniform).argmax(axis=1)
    return context, base, behavior, stream
