"""How users click down a page: expected clicks of given rankings, and draws, one compiled pass over rows.

Every row has its own kind of user, so that a world may mix kinds that its log does not tell apart.
"""

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.kernels.jit import jit

POSITION, CASCADE, DBN, UBM, REDUNDANCY, ATTENTION = range(6)


@jit
def chance(logit: float) -> float:
    """Return the sigmoid of a logit."""
    return float(1.0 / (1.0 + np.exp(-logit)))


@jit
def page(kind: int, appeal: Floats, group: Ints, curve: Floats, pull: Floats, out: Floats) -> None:
    """Fill out (K,): P(click | examined) where users scan, P(click) where they see the page as a whole.

    appeal (K,) logits, group (K,) categories, curve (K,) examination by position; pull = (similar
    items above take this much off a logit; weight of not clicking at all, and clicks per user has to
    give, of shared attention).
    """
    K = len(appeal)
    if kind == ATTENTION:
        total = pull[1]
        for k in range(K):
            out[k] = curve[k] * np.exp(appeal[k])
            total += out[k]
        for k in range(K):
            # pull[2] clicks on average, each on item k with its share: independent Poisson counts,
            # of which the log keeps whether there was one.
            out[k] = 1.0 - np.exp(-pull[2] * out[k] / total)
        return
    for k in range(K):
        logit = appeal[k]
        if kind == REDUNDANCY:
            for above in range(k):
                if group[above] == group[k]:
                    logit -= pull[0]
        out[k] = chance(logit)
        if kind in (POSITION, REDUNDANCY):
            out[k] *= curve[k]


@jit
def expected(
    kind: Ints,
    appeal: Floats,
    hold: Floats,
    group: Ints,
    curve: Floats,
    gaps: Floats,
    pull: Floats,
    go: float,
) -> Floats:
    """Return P(click at k) of each ranking, click histories summed out: (n, K).

    hold (n, K): probability that a click ends the visit (DBN); go: that a user who has not stopped
    looks at the next item; gaps (K, K + 1): examination of position k when the last click was at l
    - 1, with l = 0 for none (UBM).
    """
    n, K = appeal.shape
    out = np.empty((n, K))
    last = np.empty(K + 1)
    for i in range(n):
        page(kind[i], appeal[i], group[i], curve, pull, out[i])
        if kind[i] in (CASCADE, DBN):
            looks = 1.0
            for k in range(K):
                stop = hold[i, k] if kind[i] == DBN else 1.0
                clicks = looks * out[i, k]
                looks = go * (looks - clicks * stop)
                out[i, k] = clicks
        elif kind[i] == UBM:
            # last[l]: chance that the latest click was at l - 1. K + 1 numbers carry all 2^K
            # histories, since examination asks for the latest click only.
            last[:] = 0.0
            last[0] = 1.0
            for k in range(K):
                clicks = 0.0
                for since in range(k + 1):
                    moved = last[since] * gaps[k, since] * out[i, k]
                    last[since] -= moved
                    clicks += moved
                last[k + 1] = clicks
                out[i, k] = clicks
    return out


@jit
def draw(  # noqa: PLR0913
    kind: Ints,
    appeal: Floats,
    hold: Floats,
    group: Ints,
    curve: Floats,
    gaps: Floats,
    pull: Floats,
    go: float,
    uniform: Floats,
) -> Floats:
    """Return clicks (n, K) of 0 and 1 from uniform (n, K); arguments as in `expected`.

    One uniform serves a position: what is left of it after each decision, rescaled, is uniform
    again.
    """
    n, K = appeal.shape
    out = np.zeros((n, K))
    chances = np.empty(K)
    for i in range(n):
        page(kind[i], appeal[i], group[i], curve, pull, chances)
        last = 0
        for k in range(K):
            level = chances[k]
            if kind[i] == UBM:
                level *= gaps[k, last]
            left = uniform[i, k]
            clicked = left < level
            if clicked:
                out[i, k] = 1.0
                last = k + 1
            if kind[i] not in (CASCADE, DBN):
                continue
            left = left / level if clicked else (left - level) / (1.0 - level)
            if clicked:
                stop = hold[i, k] if kind[i] == DBN else 1.0
                if left < stop:
                    break
                left = (left - stop) / (1.0 - stop)
            if left >= go:
                break
    return out


@jit
def subsets(uniform: Floats, A: int) -> Ints:
    """Return C of A items for each row of uniform (n, C), without replacement (Fisher-Yates, undone after a row)."""
    n, C = uniform.shape
    items = np.arange(A)
    out = np.empty((n, C), np.int64)
    to = np.empty(C, np.int64)
    for i in range(n):
        for c in range(C):
            # A uniform just below one may be rounded up to the end.
            to[c] = c + min(int(uniform[i, c] * (A - c)), A - c - 1)
            items[c], items[to[c]] = items[to[c]], items[c]
            out[i, c] = items[c]
        # Swapped back: a row's items then depend on its own uniforms alone, at C steps a row and
        # not A.
        for c in range(C - 1, -1, -1):
            items[c], items[to[c]] = items[to[c]], items[c]
    return out
