"""The score of an assignment of models to leaves, from sums.

The objective of a whole assignment is a function of C sums over its leaves ("channels"):
t = [mean, second moment, D_1..D_J, second moment of D_1..D_J], and its score is

    lam Var + max_j or mean_j penalty_j,  Var = (t_1 - t_0^2) / n_apply,  d = D_j - T_j,
    mode 0: penalty = max(0, d^2 - kappa Var(D_j))
    mode 1: infinite when |d| > kappa se(D_j), else 0                      (Lepski)
    mode 2: infinite when |d| > kappa (se(assignment) + width_j), else 0   (SLOPE)
"""

import numpy as np

from counterrank.kernels.jit import jit
from counterrank.tree.kernels.splitting_data import Floats, Ints

#: A score must be lower by this share to count as lower: ties are then broken by order, not by rounding.
TIE = 1e-10


@jit
def lower(value: float, best: float) -> bool:
    """Return whether a score beats the best so far by more than rounding."""
    return value < best if np.isinf(best) else value < best - TIE * abs(best)


@jit
def expand(stats: Floats, terms: Ints, coef: Floats, out: Floats) -> None:
    """Fill out (M, C): the channels a leaf with these stats (L,) adds under each model.

    terms (3, T) = model, channel and statistic of each term, coef (T,): most channels are sums of few statistics.
    """
    out[:] = 0.0
    for t in range(coef.shape[0]):
        out[terms[0, t], terms[1, t]] += coef[t] * stats[terms[2, t]]


@jit
def expand_all(stats: Floats, terms: Ints, coef: Floats, shape: tuple[int, int]) -> Floats:
    """Return the channels (nodes, M, C) of each node's stats (nodes, L)."""
    out = np.empty((stats.shape[0], shape[0], shape[1]))
    for node in range(stats.shape[0]):
        expand(stats[node], terms, coef, out[node])
    return out


@jit
def score(base: Floats, add: Floats, rule: Floats, targets: Floats, stop: float) -> float:
    """Return the score of channels base + add; any value >= stop when it is not below `stop`.

    rule = [mode, mean instead of max, kappa, lam, 1/n_apply, 1/n_grown]; targets (2, J) = T and width.
    """
    mode, mean, kappa = rule[0], rule[1], rule[2]
    first = base[0] + add[0]
    spread = max(base[1] + add[1] - first * first, 0.0)
    low: float = rule[3] * spread * rule[4]
    if low >= stop:
        return low
    count = targets.shape[1]
    worst = 0.0
    for j in range(count):
        raw = base[2 + j] + add[2 + j]
        gap = raw - targets[0, j]
        noise = max(base[2 + count + j] + add[2 + count + j] - raw * raw, 0.0) * rule[5]
        if mode == 0.0:
            penalty = max(gap * gap - kappa * (noise + targets[1, j] ** 2), 0.0)
        elif mode == 1.0:
            penalty = np.inf if gap * gap > kappa * kappa * noise else 0.0
        else:
            reach = kappa * (np.sqrt(spread * rule[5]) + targets[1, j])
            penalty = np.inf if abs(gap) > reach and gap != 0.0 else 0.0
        worst = worst + penalty / count if mean > 0.0 else max(worst, penalty)
        if low + worst >= stop:
            break
    total: float = low + worst
    return total


@jit
def best_model(base: Floats, channels: Floats, rule: Floats, targets: Floats) -> tuple[float, int]:
    """Return the least score of base + channels[m] and its model m; the first model wins a tie."""
    best, chosen = np.inf, -1
    for m in range(channels.shape[0]):
        value = score(base, channels[m], rule, targets, best)
        if chosen < 0 or lower(value, best):
            best, chosen = value, m
    return best, chosen
