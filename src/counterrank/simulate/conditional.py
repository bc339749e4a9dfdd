"""E[r_k | x] under a policy, with actions and behaviours summed out exactly."""

from itertools import permutations, product
from math import perm

import numpy as np

from counterrank.policies import Floats, Ints
from counterrank.simulate.environment import Environment
from counterrank.simulate.policy import Which, behavior_probability, distribution, propensity
from counterrank.simulate.rewards import base_reward, expected_reward


def has_closed_form(env: Environment) -> bool:
    """Return whether `closed_form` applies: independent positions and any reward model but the logit."""
    return env.factored and env.reward_model != "binary"


def n_rankings(env: Environment) -> int:
    """Return how many rankings exist: A^K, or A! / (A - K)! without replacement."""
    return env.A**env.K if env.factored else perm(env.A, env.K)


def closed_form(env: Environment, context: Floats, seen: Floats, policy: Which) -> Floats:
    """Return E_pi[r_k | x] of a factored policy: (n, K).

    pairwise        p_k.base + sum_l E[c_kl | x] p_k' W p_l
    triple          the same + sum_{l<m} E[c_kl c_km | x] T(p_k, p_l, p_m)
    multiplicative  sum_z p(z | x) sum_u p_k(u) base(u) prod_{l in c_z(k)} sum_b p_l(b) exp W(u, b)

    `seen` (n, d) is the context of the base reward.
    """
    chance = behavior_probability(env, context)
    return closed_form_given(env, distribution(env, context, policy), base_reward(env, seen), chance)


def closed_form_given(env: Environment, dist: Floats, base: Floats, chance: Floats) -> Floats:
    """Return `closed_form` from the policy's distributions, base rewards (n, A) and p(c | x) (n, M)."""
    p = dist if dist.ndim == 3 else dist[:, None, :]  # (n, P, A); P is K, or 1 where positions are alike
    off = (env.masks & ~np.eye(env.K, dtype=bool)).astype(np.float64)  # (M, K, K)
    if env.reward_model == "multiplicative":
        return _multiplicative(env.interaction, p, base, chance, off)
    pair = np.einsum("iku,uv,ilv->ikl", p, env.interaction, p, optimize=True)  # (n, P, P)
    relevant = (chance @ off.reshape(len(off), -1)).reshape(len(chance), *off.shape[1:])  # (n, K, K)
    out: Floats = (p * base[:, None, :]).sum(axis=2) + (relevant * pair).sum(axis=2)
    if env.reward_model == "triple" and env.triple is not None:
        out = out + _triple(env.triple, p, chance, off)
    return out


def _triple(effect: Floats, p: Floats, chance: Floats, off: Floats) -> Floats:
    K = off.shape[1]
    both = off[:, :, :, None] * off[:, :, None, :] * np.triu(np.ones((K, K)), 1)  # (M, K, K, K)
    if p.shape[1] == 1:
        q = p[:, 0]
        halves = (q @ effect.reshape(len(effect), -1)).reshape(len(q), *effect.shape[1:])  # (n, A, A)
        mean = (np.matmul(halves, q[:, :, None])[:, :, 0] * q).sum(axis=1)
        counted: Floats = (chance @ both.sum(axis=(2, 3))) * mean[:, None]
        return counted
    relevant = np.einsum("im,mkst->ikst", chance, both)
    mean = np.einsum("iku,isv,itw,uvw->ikst", p, p, p, effect, optimize=True)
    out: Floats = (relevant * mean).sum(axis=(2, 3))
    return out


def _multiplicative(effect: Floats, p: Floats, base: Floats, chance: Floats, off: Floats) -> Floats:
    M, K, _ = off.shape
    n, _, A = p.shape
    log_factor = np.log(np.einsum("ilb,ub->iul", p, np.exp(effect)))  # (n, A, P)
    if p.shape[1] == 1:
        exponent = log_factor * off.sum(axis=2).reshape(1, 1, M * K)
    else:
        exponent = log_factor @ off.reshape(M * K, K).T
    product_of_factors = np.exp(exponent).reshape(n, A, M, K)
    given_own = np.einsum("im,iumk->iku", chance, product_of_factors)  # (n, K, A)
    out: Floats = (p * base[:, None, :] * given_own).sum(axis=2)
    return out


def enumeration(env: Environment, context: Floats, seen: Floats, policy: Which) -> Floats:
    """Return E_pi[r_k | x] summed over every ranking and behaviour: (n, K). For small spaces."""
    dist = distribution(env, context, policy)
    base = base_reward(env, seen)
    chance = behavior_probability(env, context)
    n = len(context)
    out = np.zeros((n, env.K))
    for ranking in _rankings(env):
        action = np.broadcast_to(ranking, (n, env.K)).copy()
        probability = propensity(env, dist, action).prod(axis=1)
        for z in range(env.M):
            q = expected_reward(env, action, np.full(n, z, dtype=np.int64), base)
            out += (probability * chance[:, z])[:, None] * q
    return out


def _rankings(env: Environment) -> Ints:
    """Return every ranking: (n_rankings, K)."""
    ids = range(env.A)
    every = product(ids, repeat=env.K) if env.factored else permutations(ids, env.K)
    return np.array(list(every), dtype=np.int64)
