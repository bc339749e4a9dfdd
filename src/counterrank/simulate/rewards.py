"""Expected rewards of given rankings under given behaviours: compiled loops over rows."""

import numpy as np

from counterrank.kernels.jit import jit
from counterrank.policies import Bools, Floats, Ints
from counterrank.simulate.environment import Environment


def base_reward(env: Environment, context: Floats) -> Floats:
    """Return base(x, a) for every action: (n, A)."""
    linear = env.base(context)
    return 1.0 + sigmoid(linear) if env.sigmoid_base else linear


def sigmoid(z: Floats) -> Floats:
    """Return 1 / (1 + exp(-z)).

    >>> sigmoid(np.array([0.0, 2.0])).round(4)
    array([0.5   , 0.8808])
    """
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
