"""Plackett-Luce: prefixes by sums, and draws from a tree of sums."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit
from counterrank.policies.kernels.exponentials import rung

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
    rest, spare, mass, power = np.empty(A), np.empty(A), np.empty(A), np.empty(A)
    bits = power.view(np.int64)
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
        for a in range(A):
            rest[a] = row[a]
        for k in range(length):
            rest[actions[i, k]] = -np.inf
        remaining = highest(rest)
        if remaining > -np.inf:
            for a in range(A):
                rest[a] -= remaining
            rung(rest, spare, mass, power, bits)
            remaining += np.log(total_of(mass))
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
def highest(values: Floats) -> float:
    """Return the largest of some values, -inf of none: four at a time, because each comparison
    waits for the one before.
    """
    a = b = c = d = -np.inf
    last = values.size - values.size % 4
    for j in range(0, last, 4):
        a, b = max(a, values[j]), max(b, values[j + 1])
        c, d = max(c, values[j + 2]), max(d, values[j + 3])
    for j in range(last, values.size):
        a = max(a, values[j])
    return max(max(a, b), max(c, d))


@jit
def spans(scores: Floats) -> Floats:
    """Return how far each row's highest score is above its lowest that is not -inf (n,)."""
    n, A = scores.shape
    out = np.empty(n)
    for i in range(n):
        low = np.inf
        for a in range(A):
            if -np.inf < scores[i, a] < low:
                low = scores[i, a]
        out[i] = highest(scores[i]) - low
    return out


@vector_jit
def total_of(values: Floats) -> float:
    """Return the sum of some values."""
    total = 0.0
    for j in range(values.size):
        total += values[j]
    return total


@jit
def masses(row: Floats) -> Floats:
    """Return exp(score) relative to the best score: (A,), 0 of a score of -inf."""
    # Plain loops here and below: they run as fast as array expressions and compile ten times
    # faster.
    top, A = highest(row), row.size
    x, spare, out, power = np.empty(A), np.empty(A), np.empty(A), np.empty(A)
    for a in range(A):
        x[a] = row[a] - top
    rung(x, spare, out, power, power.view(np.int64))
    for a in range(A):
        out[a] = out[a] if row[a] > -np.inf else 0.0
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
