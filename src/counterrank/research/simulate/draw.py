"""Draws from an environment: its policies as plain arrays, its rewards, and rows with all that a simulator knows."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, softmax

from counterrank.arrays import Bools, Floats, Ints
from counterrank.data.log import LOGGING, Propensity, RankingLog
from counterrank.kernels.jit import jit
from counterrank.research.simulate.environment import TARGET, Environment, Which, whole


@dataclass(frozen=True, slots=True)
class SimulatedLog:
    """n simulated rankings.

    context (n, d), action (n, K), reward (n, K), expected reward q (n, K), behavior (n,) index into
    `masks`; p0 and p1: whole distributions of the logging and target policies (n, A).
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
    def drawn_from(self) -> Floats:
        """The whole distribution of the policy that chose the actions: (n, A)."""
        return self.p0 if self.drawn_by == "logging" else self.p1

    @property
    def propensity(self) -> Floats:
        """Probabilities of the shown actions under the policy that drew them: (n, K)."""
        return np.take_along_axis(self.drawn_from, self.action, axis=1)

    @property
    def target(self) -> Floats:
        """Probabilities of the shown actions under the target policy: (n, K)."""
        return np.take_along_axis(self.p1, self.action, axis=1)

    def to_log(self) -> RankingLog:
        """Return the rankings with target "new", whole distributions and behaviour names."""
        return RankingLog(
            action=self.action,
            reward=self.reward,
            propensity=Propensity("factored", self.propensity),
            context=self.context,
            behavior=np.array(self.env.behavior_names)[self.behavior],
            behavior_masks=self.env.mask_rows,
            targets={TARGET: Propensity("factored", self.target)},
            dists={LOGGING: self.drawn_from, TARGET: self.p1},
        )


def draw(
    env: Environment, n: int, rng: np.random.Generator, *, policy: Which = "logging"
) -> SimulatedLog:
    """Return n rankings shown by one of the environment's policies.

    >>> from counterrank.research.simulate import published
    >>> log = draw(published(), 4, np.random.default_rng(0))
    >>> log.action.shape, log.p1[0].round(3).tolist()
    ((4, 8), [0.8, 0.1, 0.1])
    """
    whole("n", n, 1)
    context = rng.standard_normal((n, env.d))
    seen = rng.standard_normal(context.shape) if env.as_published else context
    base = base_reward(env, seen)
    chance = behavior_probability(env, context)  # (n, M)
    # Inverse of the distribution function; the last class needs no comparison and takes what
    # rounding leaves.
    below = chance.cumsum(axis=1)[:, :-1] < rng.random((n, 1))
    behavior = below.sum(axis=1, dtype=np.int64)
    p0 = distribution(env, context, "logging")
    p1 = distribution(env, context, "target")
    action = categorical(p0 if policy == "logging" else p1, rng.random((n, env.K)))
    q = expected_reward(env, action, behavior, base)
    if env.reward_model == "binary":
        reward = (rng.random(q.shape) < q).astype(np.float64)
    else:
        reward = q + env.sigma * rng.standard_normal((n, 1 if env.as_published else env.K))
    return SimulatedLog(env, context, action, reward, p0, p1, behavior, q, policy)


def distribution(env: Environment, context: Floats, which: Which) -> Floats:
    """Return each action's probability at a position: (n, A)."""
    if which == "logging":
        return softmax(env.logging(context), axis=1)  # type: ignore[no-any-return]
    if env.target is not None:
        return softmax(env.target(context), axis=1)  # type: ignore[no-any-return]
    return least_greedy(env.logging(context), env.epsilon)


def least_greedy(score: Floats, epsilon: float) -> Floats:
    """Return (1 - epsilon) on the action of least score plus epsilon / A on every action.

    >>> least_greedy(np.array([[0.2, -1.0]]), 0.3)
    array([[0.15, 0.85]])
    """
    A = score.shape[-1]
    out = np.full(score.shape, epsilon / A)
    least = score.argmin(axis=-1)[..., None]
    np.put_along_axis(out, least, 1.0 - epsilon + epsilon / A, axis=-1)
    return out


def behavior_probability(env: Environment, context: Floats) -> Floats:
    """Return p(c_z | x) = softmax_z(lam_z |theta_z . x|): (n, M); zeros and ones where there are groups."""
    if env.groups:
        part = np.minimum((env.M * ndtr(context[:, 0])).astype(np.int64), env.M - 1)
        known: Floats = np.eye(env.M)[part]
        return known
    return softmax(env.lam * np.abs(context @ env.behavior_coef.T), axis=1)  # type: ignore[no-any-return]


@jit
def categorical(dist: Floats, uniform: Floats) -> Ints:
    """Return draws from dist (n, A) by inversion of uniform (n, K): (n, K)."""
    n, K = uniform.shape
    A = dist.shape[1]
    out = np.empty((n, K), np.int64)
    for i in range(n):
        row = dist[i]
        for k in range(K):
            left = uniform[i, k]
            choice = 0
            last = 0
            found = False
            for a in range(A):
                if row[a] > 0.0:
                    last = a
                    if not found and left < row[a]:
                        choice = a
                        found = True
                    left -= row[a]
            # Rounding can leave a sliver above the sum of the row: it belongs to the last possible
            # action.
            out[i, k] = choice if found else last
    return out


def base_reward(env: Environment, context: Floats) -> Floats:
    """Return base(x, a) for every action: (n, A)."""
    linear = env.base(context)
    return 1.0 + sigmoid(linear) if env.as_published else linear


def sigmoid(z: Floats) -> Floats:
    """Return 1 / (1 + exp(-z)).

    >>> sigmoid(np.array([0.0, 2.0])).round(4)
    array([0.5   , 0.8808])
    """
    # exp(-z) would overflow far below zero.
    out: Floats = 0.5 * (1.0 + np.tanh(0.5 * z))
    return out


def expected_reward(env: Environment, action: Ints, behavior: Ints, base: Floats) -> Floats:
    """Return q_k(x, a, c) of each row: (n, K), for action (n, K), behaviour index (n,), base (n, A).

    pairwise        base + sum_l c_kl W(a_k, a_l)
    triple          pairwise + sum_{l < m} c_kl c_km T(a_k, a_l, a_m)
    multiplicative  base * exp(sum_l c_kl W(a_k, a_l))
    binary          sigmoid(pairwise), the probability of a reward of 1
    """
    pair = pair_effect(action, behavior, env.masks, env.interaction)  # (n, K)
    own = np.take_along_axis(base, action, axis=1)  # (n, K)
    if env.reward_model == "multiplicative":
        scaled: Floats = own * np.exp(pair)
        return scaled
    linear: Floats = own + pair
    if env.triple is not None and env.reward_model == "triple":
        linear += triple_effect(action, behavior, env.masks, env.triple)
    return sigmoid(linear) if env.reward_model == "binary" else linear


@jit
def pair_effect(action: Ints, behavior: Ints, masks: Bools, effect: Floats) -> Floats:
    """Return sum over l != k with c_kl of effect[a_k, a_l]: (n, K)."""
    n, K = action.shape
    out = np.empty((n, K))
    for i in range(n):
        mask = masks[behavior[i]]
        for k in range(K):
            total = 0.0
            row = effect[action[i, k]]
            for m in range(K):
                if m != k and mask[k, m]:
                    total += row[action[i, m]]
            out[i, k] = total
    return out


@jit
def triple_effect(action: Ints, behavior: Ints, masks: Bools, effect: Floats) -> Floats:
    """Return sum over l < m, both != k and relevant, of effect[a_k, a_l, a_m]: (n, K)."""
    n, K = action.shape
    out = np.empty((n, K))
    for i in range(n):
        mask = masks[behavior[i]]
        for k in range(K):
            total = 0.0
            for first in range(K):
                if first == k or not mask[k, first]:
                    continue
                row = effect[action[i, k], action[i, first]]
                for second in range(first + 1, K):
                    if second != k and mask[k, second]:
                        total += row[action[i, second]]
            out[i, k] = total
    return out
