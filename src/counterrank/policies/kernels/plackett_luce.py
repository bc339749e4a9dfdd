"""Plackett-Luce: prefixes by sums, and draws from a tree of sums."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def prefix_log_prob(scores: Floats, actions: Ints) -> Floats:
    """Return (n, K) log P(a_1..a_k) = sum over j<=k of s_{a_j} - log(mass remaining before j).

    Remaining mass is added up from the tail backwards, never total minus used: when the used items
    hold all but 1e-17 of the mass, a difference would be noise. An item asked for twice, or of
    score -inf, gives -inf.
    """
    n, K = actions.shape
    A = scores.shape[1]
    out = np.zeros((n, K))
    used = np.zeros(A, np.bool_)
    step = np.zeros(K)
    for i in range(n):
        row = scores[i if scores.shape[0] > 1 else 0]
        length, possible = 0, K
        for k in range(K):
            a = actions[i, k]
            if a < 0:
                break
            if used[a] or row[a] == -np.inf:
                possible = min(possible, k)
            used[a] = True
            length = k + 1
        last = min(length, possible)
        remaining = _log_sum_unused(row, used)
        for k in range(length - 1, -1, -1):
            a = actions[i, k]
            if k >= last and seen_before(actions[i], k):
                # beyond the first impossible item only the mass still matters, each item's once
                continue
            remaining = np.logaddexp(remaining, row[a])
            step[k] = row[a] - remaining
        total = 0.0
        for k in range(K):
            if k < last:
                total += step[k]
            elif k < length:
                total = -np.inf
            out[i, k] = total
        for k in range(length):
            used[actions[i, k]] = False
    return out


@jit
def seen_before(items: Ints, k: int) -> bool:
    """Return whether the item at k also stands at an earlier position."""
    for j in range(k):
        if items[j] == items[k]:
            return True
    return False


@jit
def _log_sum_unused(row: Floats, used: NDArray[np.bool_]) -> float:
    top = -np.inf
    for a in range(row.size):
        if not used[a] and row[a] > top:
            top = row[a]
    if top == -np.inf:
        return -np.inf
    total = 0.0
    for a in range(row.size):
        if not used[a]:
            total += np.exp(row[a] - top)
    return float(top + np.log(total))


@jit
def masses(row: Floats) -> Floats:
    """Return exp(score) relative to the best score: (A,)."""
    # Plain loops here and below: they run as fast as array expressions and compile ten times
    # faster.
    top = -np.inf
    for a in range(row.size):
        top = max(top, row[a])
    out = np.empty(row.size)
    for a in range(row.size):
        out[a] = np.exp(row[a] - top)
    return out


@jit
def build_tree(mass: Floats) -> Floats:
    """Return a heap of sums (2P,): leaves at P.., parents hold the sum of their children, the root
    is at 1.
    """
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
    """Return (n, S, K) rankings drawn without replacement; -1 once a row has no item left.

    Scores (n, A) must span less than 700 nats; uniforms (n, S, K).
    """
    n, S, K = uniforms.shape
    out = np.full((n, S, K), -1, np.int64)
    for i in range(n):
        mass = masses(scores[i])
        tree = build_tree(mass)
        for s in range(S):
            drawn = 0
            while drawn < K and tree[1] > 0.0:
                item = find(tree, uniforms[i, s, drawn] * tree[1])
                out[i, s, drawn] = item
                set_leaf(tree, item, 0.0)
                drawn += 1
            for k in range(drawn):
                set_leaf(tree, out[i, s, k], mass[out[i, s, k]])
    return out
