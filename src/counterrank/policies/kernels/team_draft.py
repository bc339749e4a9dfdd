"""Team-draft interleaving: two rankings pick in turns, a coin a round says who first."""

import numpy as np

from counterrank.arrays import Ints
from counterrank.kernels.jit import jit


@jit
def draft(first: Ints, second: Ints, coins: int, out: Ints) -> None:
    """Fill `out` (K,) with the ranking of one path; bit r of `coins` lets the second team open round r."""
    i, j, filled, turn = 0, 0, 0, 0
    while filled < out.size:
        opener = (coins >> (turn // 2)) & 1
        team = opener if turn % 2 == 0 else 1 - opener
        turn += 1
        base = second if team else first
        at = j if team else i
        while at < base.size and base[at] >= 0 and taken(out, filled, base[at]):
            at += 1
        if at < base.size and base[at] >= 0:
            out[filled] = base[at]
            filled += 1
            at += 1
        # A team without items passes its turns; the other fills the page.
        elif exhausted(first, i, out, filled) and exhausted(second, j, out, filled):
            break
        if team:
            j = at
        else:
            i = at
    for k in range(filled, out.size):
        out[k] = -1


@jit
def taken(out: Ints, filled: int, item: int) -> bool:
    """Return whether the item is among the first `filled`."""
    for k in range(filled):
        if out[k] == item:
            return True
    return False


@jit
def exhausted(base: Ints, at: int, out: Ints, filled: int) -> bool:
    """Return whether a team has nothing left to pick."""
    for r in range(at, base.size):
        if base[r] >= 0 and not taken(out, filled, base[r]):
            return False
    return True


@jit
def count_paths(first: Ints, second: Ints, items: Ints, sets: Ints) -> Ints:
    """Return (n, J): how many of the 2^ceil(K/2) coin paths agree with items (n, K) on sets (n or 1, J) of bits."""
    n, K = items.shape
    J = sets.shape[1]
    counts = np.zeros((n, J), np.int64)
    ranking = np.empty(K, np.int64)
    for i in range(n):
        left = first[i if first.shape[0] > 1 else 0]
        right = second[i if second.shape[0] > 1 else 0]
        # Coins are fair, so that all paths weigh the same, also those that end in one ranking.
        for coins in range(1 << ((K + 1) // 2)):
            draft(left, right, coins, ranking)
            agrees = 0
            for k in range(K):
                if items[i, k] < 0 or items[i, k] == ranking[k]:
                    agrees |= 1 << k
            for j in range(J):
                wanted = sets[i if sets.shape[0] > 1 else 0, j]
                counts[i, j] += (agrees & wanted) == wanted
    return counts


@jit
def sample(first: Ints, second: Ints, coins: Ints, length: int) -> Ints:
    """Return (n, S, length) rankings of coin paths (n, S)."""
    n, S = coins.shape
    out = np.empty((n, S, length), np.int64)
    for i in range(n):
        left = first[i if first.shape[0] > 1 else 0]
        right = second[i if second.shape[0] > 1 else 0]
        for s in range(S):
            draft(left, right, coins[i, s], out[i, s])
    return out
