"""The two policies of an environment as plain arrays: whole distributions, draws, propensities."""

from typing import Literal

import numpy as np

from counterrank.kernels.jit import jit
from counterrank.policies import Floats, Ints
from counterrank.simulate.environment import Environment

Which = Literal["logging", "target"]


def distribution(env: Environment, context: Floats, which: Which) -> Floats:
    """Return each action's probability at a position: (n, A), or (n, K, A) where positions differ.

    For Plackett-Luce policies these are the first position's probabilities, which fix all the others.
    """
    if which == "logging":
        return softmax(env.logging(context))
    if env.target is not None:
        return softmax(env.target(context))
    return least_greedy(env.logging(context), env.epsilon)


def softmax(score: Floats) -> Floats:
    """Return exp(score) normalised over the last axis.

    >>> softmax(np.log([[1.0, 3.0]]))
    array([[0.25, 0.75]])
    """
    weight = np.exp(score - score.max(axis=-1, keepdims=True))
    out: Floats = weight / weight.sum(axis=-1, keepdims=True)
    return out


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
    """Return p(c_z | x) = softmax_z(lam_z |theta_z . x|): (n, M)."""
    return softmax(env.lam * np.abs(context @ env.behavior_coef.T))


def draw_actions(env: Environment, dist: Floats, rng: np.random.Generator) -> Ints:
    """Return one ranking per row: (n, K)."""
    n = dist.shape[0]
    if env.factored:
        return categorical(dist if dist.ndim == 3 else dist[:, None, :], rng.random((n, env.K)))
    # The order of weight / exponential draws is a Plackett-Luce ranking (Gumbel top-k).
    race = rng.standard_exponential(dist.shape) / np.maximum(dist, 1e-300)
    order: Ints = race.argsort(axis=1)[:, : env.K].astype(np.int64)
    return order


@jit
def categorical(dist: Floats, uniform: Floats) -> Ints:
    """Return draws from dist (n, 1 or K, A) by inversion of uniform (n, K): (n, K)."""
    n, K = uniform.shape
    A = dist.shape[2]
    shared = dist.shape[1] == 1
    out = np.empty((n, K), np.int64)
    for i in range(n):
        for k in range(K):
            row = dist[i, 0 if shared else k]
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
            # Rounding can leave a sliver above the sum of the row: it belongs to the last possible action.
            out[i, k] = choice if found else last
    return out


def propensity(env: Environment, dist: Floats, action: Ints) -> Floats:
    """Return the probability of each logged action: (n, K).

    P(a_k | x) for factored policies, P(a_k | a_1..a_k-1, x) for Plackett-Luce.
    """
    if dist.ndim == 3:
        return np.take_along_axis(dist, action[:, :, None], axis=2)[:, :, 0]
    weight = np.take_along_axis(dist, action, axis=1)
    if env.factored:
        return weight
    # What is left is summed from the items not shown yet: 1 - (what is gone) would cancel.
    rest = dist.sum(axis=1) - weight.sum(axis=1)
    if env.K == env.A:
        rest = np.zeros(len(dist))
    tail = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1] + np.maximum(rest, 0.0)[:, None]
    out: Floats = weight / tail
    return out
