"""Plackett-Luce: exponentials of scores, and draws from a tree of sums.

Exponentials stand here in vector lanes: the library's takes one number at a time, four times as
long.
"""

from math import factorial

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.kernels.jit import fused_jit, jit, vector_jit

#: Below this exp(x) is taken as exp of it: 1e-304, nothing beside anything it is added to here.
LOWEST = -700.0
_PER_LOG_2 = 1.4426950408889634
# log 2 in two parts, the first so short that a whole number times it is exact (as in fdlibm).
_LOG_2_HIGH, _LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Added to a small whole number, it leaves that number in the last bits: no conversion is needed.
_ROUND = 1.5 * 2.0**52
#: Mass relative to the best item's beside which exp(`LOWEST`) of a million items is nothing.
_PLENTY = 1e-280
#: 1 / 13!, ..., 1 / 2!
_TAYLOR = tuple(1.0 / factorial(j) for j in range(13, 1, -1))


@fused_jit
def rung(x: Floats, rate: float, p: Floats, q: Floats, power: Floats, bits: Ints) -> None:
    """Fill q = exp(rate x) and p = 1 - exp(rate x), each to its last digits, for rate x <= 0.

    rate x = m log 2 + r with |r| <= log(2) / 2, and exp(r) - 1 by its Taylor polynomial. `power` is room
    for as many numbers, and `bits` its view as integers.
    """
    for i in range(x.size):
        v = max(rate * x[i], LOWEST)
        m = np.floor(v * _PER_LOG_2 + 0.5)
        power[i] = m + _ROUND
        r = v - m * _LOG_2_HIGH - m * _LOG_2_LOW
        s = 0.0
        for c in _TAYLOR:
            s = s * r + c
        p[i] = r + r * r * s
    for i in range(x.size):
        bits[i] = (bits[i] + 1023) << 52
    for i in range(x.size):
        less = p[i] * power[i]
        p[i] = (1.0 - power[i]) - less
        q[i] = power[i] + less


@vector_jit
def total_of(values: Floats) -> float:
    """Return the sum of some values."""
    total = 0.0
    for j in range(values.size):
        total += values[j]
    return total


@jit
def prefix_log_probs(scores: Floats, mass: Floats, items: Ints) -> Floats:
    """Return (n, S, K) log P(a_1..a_k).

    Scores (n or 1, A), at most 0, with their exponentials, which are left as they were.
    """
    n, S, K = items.shape
    out, removed = np.empty((n, S, K)), np.empty(K)
    for i in range(n):
        r = i if mass.shape[0] > 1 else 0
        row = mass[r]
        for s in range(S):
            ranking = items[i, s]
            length = 0
            while length < K and ranking[length] >= 0:
                # An item that is shown again finds nothing there.
                removed[length], row[ranking[length]] = row[ranking[length]], 0.0
                length += 1
            left = total_of(row)
            faint = length > 0 and left + removed[length - 1] <= _PLENTY
            for k in range(length - 1, -1, -1):
                left += removed[k]
                row[ranking[k]] = removed[k]
                out[i, s, k] = scores[r, ranking[k]] - np.log(left)
                faint = faint or removed[k] == 0.0
            if faint:
                log_steps(scores[r], ranking[:length], out[i, s])
            total = 0.0
            for k in range(K):
                total += out[i, s, k] if k < length else 0.0
                out[i, s, k] = total
    return out


@jit
def log_steps(row: Floats, ranking: Ints, out: Floats) -> None:
    """Fill the log-probability of each item given those above it, by logarithms of sums.

    For what underflows beside the best item; what cannot be shown or is shown again has -inf.
    """
    left = -np.inf
    for a in range(row.size):
        shown = False
        for item in ranking:
            shown = shown or item == a
        if not shown:
            left = np.logaddexp(left, row[a])
    for k in range(ranking.size - 1, -1, -1):
        score = row[ranking[k]]
        for item in ranking[:k]:
            score = -np.inf if item == ranking[k] else score
        left = np.logaddexp(left, score)
        out[k] = score - left if score > -np.inf else -np.inf


@jit
def masses(row: Floats) -> tuple[Floats, float]:
    """Return exp(score) relative to the best score (A,), 0 where it is below exp(`LOWEST`), and that score."""
    # Plain loops here and below: they run as fast as array expressions and compile ten times
    # faster.
    top, A = -np.inf, row.size
    x, spare, out, power = np.empty(A), np.empty(A), np.empty(A), np.empty(A)
    for a in range(A):
        top = max(top, row[a])
    for a in range(A):
        x[a] = row[a] - top
    rung(x, 1.0, spare, out, power, power.view(np.int64))
    for a in range(A):
        out[a] = out[a] if x[a] > LOWEST else 0.0
    return out, top


@jit
def build_tree(mass: Floats) -> Floats:
    """Return a heap of sums (2P,): leaves at P.., parents hold the sum of their children, the root is at 1."""
    P = 1
    while P < mass.size:
        P *= 2
    tree = np.zeros(2 * P)
    for a in range(mass.size):
        tree[P + a] = mass[a]
    for v in range(P - 1, 0, -1):
        tree[v] = tree[2 * v] + tree[2 * v + 1]
    return tree


@jit
def find(tree: Floats, goal: float) -> int:
    """Return the leaf (item) whose interval of cumulated mass holds `goal` in [0, root)."""
    P = tree.size // 2
    v = 1
    while v < P:
        left = tree[2 * v]
        # Rounding may point into an empty subtree; never enter one.
        if (goal < left or tree[2 * v + 1] == 0.0) and left > 0.0:
            v = 2 * v
        else:
            goal -= left
            v = 2 * v + 1
    return v - P


@jit
def set_leaf(tree: Floats, item: int, mass: float) -> None:
    """Set one leaf and add its ancestors anew: a sum of what is there, so nothing cancels."""
    v = tree.size // 2 + item
    tree[v] = mass
    v //= 2
    while v >= 1:
        tree[v] = tree[2 * v] + tree[2 * v + 1]
        v //= 2


@jit
def sample(scores: Floats, uniforms: Floats) -> Ints:
    """Return (n, S, K) rankings drawn without replacement; -1 once a row has no item left."""
    n, S, K = uniforms.shape
    out = np.full((n, S, K), -1, np.int64)
    for i in range(n):
        mass, _ = masses(scores[i])
        full_tree = build_tree(mass)
        for s in range(S):
            tree, drawn = full_tree, 0
            while drawn < K:
                if tree[1] <= _PLENTY:
                    # What is left may underflow beside what was drawn: it is weighed anew.
                    left = scores[i].copy()
                    for item in out[i, s, :drawn]:
                        left[item] = -np.inf
                    tree = build_tree(masses(left)[0])
                if tree[1] == 0.0:
                    break
                item = find(tree, uniforms[i, s, drawn] * tree[1])
                out[i, s, drawn] = item
                set_leaf(tree, item, 0.0)
                drawn += 1
            for item in out[i, s, :drawn]:
                set_leaf(full_tree, item, mass[item])
    return out
