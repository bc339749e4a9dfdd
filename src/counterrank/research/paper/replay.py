"""The published data sets, draw for draw: the log of a run, and what its oracle saw.

The original runs take contexts and actions from one legacy generator seeded by the run, but
behaviours and noise from generators seeded 12345 in every run: all runs of equal n share them. The
published figures are then averages over contexts and actions alone. Runs 0..299 give the published
MSE of IPS, IIPS, RIPS and AIPS (true): of the 63 values that can be read at the 16 distinct points,
57 agree within 1 % and all within 3 %. The number of runs is inferred: prefixes of runs were
compared with four points (n = 1k to 8k), and the other twelve then agreed. The text speaks of 1000
runs in section 4.2 and of 300 in the appendix.

After the log, the same generator draws what the public code's tree is told: V_k from 10,000
rankings shown by the target, then ten fresh data sets of the log's size
(github.com/aiueola/kdd2023-aips, src/main.py and src/tree.py).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import ConfigError
from counterrank.research.simulate import (
    Environment,
    SimulatedLog,
    Which,
    behavior_probability,
    distribution,
    pair_effect,
    whole,
)

_SHARED_SEED = 12345
_VALUE_ROWS = 10_000
_FRESH_DATA_SETS = 10


@dataclass(frozen=True, slots=True)
class OracleView:
    """What an oracle knows besides the log: V_k (K,), fresh contexts (N, d), contributions of every model (K, M, N).

    Contributions are kept in single precision: their rounding is far below the error of their mean.
    """

    values: Floats
    context: Floats
    contributions: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRun:
    """One run of the published experiment: its rows, and its generator as they left it.

    `base` are the base rewards (ceil(n / K), A) of the contexts that its rows see.
    """

    env: Environment
    seed: int
    log: SimulatedLog
    base: Floats
    stream: np.random.RandomState

    def value(self) -> Floats:
        """Return V_k of the target on the run's contexts, behaviours and noise, actions summed out: (K,).

        The published V is the average of on-policy runs on these rows; this is its mean over their
        actions.
        """
        env, n = self.env, len(self.log.context)
        p = _policy(env, "target")
        # Row i sees the base reward of row i // K: the first n / K rows count K times each.
        seen = np.bincount(np.arange(n) // env.K, minlength=len(self.base)) / n
        shares = np.bincount(self.log.behavior, minlength=env.M) / n
        others = (env.masks & ~np.eye(env.K, dtype=bool)).sum(axis=2)  # (M, K)
        out: Floats = (
            seen @ self.base @ p
            + shares @ others * (p @ env.interaction @ p)
            + env.sigma * _shared(n)[1].mean()
        )
        return out

    def oracle(self) -> OracleView:
        """Return what the tree of this run was told; the same at every call."""
        env, n = self.env, len(self.log.context)
        stream = np.random.RandomState()
        stream.set_state(self.stream.get_state())
        # The original's truth: the target's actions on the log's contexts.
        stream.random_sample((n, env.K))
        context = stream.standard_normal((_VALUE_ROWS, env.d))
        # Draws of the original that nothing here uses: the stream has to move on.
        stream.random_sample((_VALUE_ROWS, env.K))
        values = _batch(env, context, stream, "target")[0].reward.mean(axis=0)
        ratio = _policy(env, "target") / _policy(env, "logging")
        context = np.empty((_FRESH_DATA_SETS * n, env.d))
        y = np.empty((env.K, env.M, len(context)), dtype=np.float32)
        for first in range(0, len(context), n):
            part = slice(first, first + n)
            context[part] = stream.standard_normal((n, env.d))
            fresh, _ = _batch(env, context[part], stream)
            contributions(ratio[fresh.action], fresh.reward, env.masks, y[:, :, part])
        return OracleView(values, context, y)


def replay_run(env: Environment, n: int, seed: int) -> PublishedRun:
    """Return run `seed` of the published experiment, for an environment of preset `published`.

    Base rewards are standardised over the run's own rows and seen with the context of row i // K,
    as there.

    >>> from counterrank.research.simulate import published
    >>> replay_run(published(), 1000, 0).log.action[0].tolist()
    [0, 1, 1, 0, 1, 1, 1, 1]
    """
    if env.name != "published":
        raise ConfigError(f"only preset 'published' can be replayed; this is {env.name!r}")
    whole("n", n, 2)
    if whole("seed", seed, 0) >= 2**32:
        raise ConfigError(
            f"seed is {seed}; runs of the published experiment are numbered below 2^32"
        )
    stream = np.random.RandomState(seed)
    return PublishedRun(env, seed, *_batch(env, stream.standard_normal((n, env.d)), stream), stream)


def _batch(
    env: Environment, context: Floats, stream: np.random.RandomState, policy: Which = "logging"
) -> tuple[SimulatedLog, Floats]:
    """Return rows of these contexts (n, d), their actions drawn from the stream, and base rewards."""
    n = len(context)
    uniform, noise = _shared(n)
    linear = env.base(context)
    # The original standardises over the rows of the run, so its base rewards differ a little from
    # run to run.
    base = 1.0 + expit((linear[: -(-n // env.K)] - linear.mean()) / linear.std())
    # Inverse distribution functions; what rounding leaves belongs to the last class.
    below = behavior_probability(env, context).cumsum(axis=1)[:, :-1]
    behavior = (below <= uniform[:, None]).sum(axis=1, dtype=np.int64)
    shown = np.cumsum(_policy(env, policy))[:-1]
    action = np.searchsorted(shown, stream.random_sample((n, env.K)), side="right")
    q = expected(action, behavior, env.masks, env.interaction, base)
    # Views of one row: these policies ignore the context.
    p0, p1 = (np.broadcast_to(_policy(env, which), (n, env.A)) for which in ("logging", "target"))
    reward = q + env.sigma * noise[:, None]
    return SimulatedLog(env, context, action, reward, p0, p1, behavior, q, policy), base


def _policy(env: Environment, which: Which) -> Floats:
    """Return the distribution (A,) of a policy: in this environment it ignores the context."""
    first: Floats = distribution(env, np.zeros((1, env.d)), which)[0]
    return first


@lru_cache(maxsize=16)
def _shared(n: int) -> tuple[Floats, Floats]:
    """Return the uniforms behind behaviours and the noise, which all data sets of n rows share."""
    return np.random.RandomState(_SHARED_SEED).uniform(size=n), np.random.RandomState(
        _SHARED_SEED
    ).standard_normal(n)


def expected(action: Ints, behavior: Ints, masks: Bools, effect: Floats, base: Floats) -> Floats:
    """Return base(x', a_k) + sum of effect[a_k, a_l] over the relevant l, in half precision: (n, K).

    Row i of the original sees the context of row i // K: base is (ceil(n / K), A). The original
    keeps expected rewards as float16: up to 5e-4 of each value is its rounding.
    """
    n, K = action.shape
    own = base[np.arange(n)[:, None] // K, action]
    total: Floats = own + pair_effect(action, behavior, masks, effect)
    return total.astype(np.float16).astype(np.float64)


def contributions(
    ratio: Floats, reward: Floats, masks: Bools, out: Floats | NDArray[np.float32]
) -> None:
    """Fill out (K, M, n): reward[i, k] times the product of ratio[i, l] over the items l in masks[m, k].

    >>> out = np.empty((2, 1, 1))
    >>> contributions(np.array([[2.0, 3.0]]), np.ones((1, 2)), np.array([[[True, True], [False, True]]]), out)
    >>> out.ravel().tolist()
    [6.0, 3.0]
    """
    columns = np.ascontiguousarray(ratio.T)
    # Sets of items that several positions and models share are multiplied once.
    known: dict[bytes, Floats] = {}
    for m, k in np.ndindex(masks.shape[:2]):
        chosen = masks[m, k]
        if chosen.tobytes() not in known:
            known[chosen.tobytes()] = columns[chosen].prod(axis=0)
        out[k, m] = known[chosen.tobytes()] * reward[:, k]
