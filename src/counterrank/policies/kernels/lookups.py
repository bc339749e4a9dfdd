"""Small walks over tables: where items stand, which questions are the same, what a uniform number
draws.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
Floats = NDArray[np.float64]

#: Beyond this many questions a row, a table of places is cheaper than a walk along the list for
#: each.
_MANY = 64


@jit
def locate(offsets: Ints, items: Ids, asked: Ints, n_items: int) -> Ints:
    """Return (n, Q) places of asked items (n, Q) in their row's list: -1 for padding, -2 when
    absent.
    """
    n, Q = asked.shape
    out = np.full((n, Q), -2, np.int64)
    tabled = Q > _MANY
    place = np.empty(n_items if tabled else 0, np.int64)
    owner = np.full(
        n_items if tabled else 0, -1, np.int64
    )  # the row that wrote `place`: no clearing between rows
    for i in range(n):
        row = items[offsets[i] : offsets[i + 1]]
        if tabled:
            for j in range(row.size):
                place[row[j]], owner[row[j]] = j, i
        for k in range(Q):
            a = asked[i, k]
            if a < 0:
                out[i, k] = -1
            elif tabled:
                if a < n_items and owner[a] == i:
                    out[i, k] = place[a]
            else:
                for j in range(row.size):
                    if row[j] == a:
                        out[i, k] = j
                        break
    return out


@jit
def first_bad_candidate(offsets: Ints, items: Ids, n_items: int) -> tuple[int, int]:
    """Return row and place of the first candidate that is negative or listed before in its row, or
    (-1, -1).
    """
    owner = np.full(n_items, -1, np.int64)
    for i in range(offsets.size - 1):
        for j in range(offsets[i], offsets[i + 1]):
            a = items[j]
            if a < 0 or owner[a] == i:
                return i, j - offsets[i]
            owner[a] = i
    return -1, -1


@jit
def places(items: Ints, ranking: Ints) -> Ints:
    """Return (n, K) positions of items (n, K) in ranking (n or 1, R): -1 for padding, -2 when
    absent.
    """
    n, K = items.shape
    out = np.full((n, K), -2, np.int64)
    for i in range(n):
        base = ranking[i if ranking.shape[0] > 1 else 0]
        for k in range(K):
            if items[i, k] < 0:
                out[i, k] = -1
                continue
            for r in range(base.size):
                if base[r] == items[i, k]:
                    out[i, k] = r
                    break
    return out


@jit
def first_equal(codes: Ints) -> Ints:
    """Return (n, J): for each mask of codes (n, J, W), the number of the first equal mask in its
    row.
    """
    n, J, W = codes.shape
    out = np.empty((n, J), np.int64)
    for i in range(n):
        for j in range(J):
            out[i, j] = j
            for m in range(j):
                same = out[i, m] == m
                for w in range(W):
                    same = same and codes[i, m, w] == codes[i, j, w]
                if same:
                    out[i, j] = m
                    break
    return out


@jit
def categorical(cumulative: Floats, uniforms: Floats) -> Ints:
    """Return (n, D) indices drawn by inversion from cumulative tables (n or 1, A) and uniforms (n,
    D).

    The first entry above u times the total is taken, so an action of probability zero is never
    drawn.
    """
    n, D = uniforms.shape
    A = cumulative.shape[1]
    out = np.empty((n, D), np.int64)
    for i in range(n):
        table = cumulative[i if cumulative.shape[0] > 1 else 0]
        for j in range(D):
            goal = uniforms[i, j] * table[A - 1]
            low, high = 0, A - 1
            while low < high:
                middle = (low + high) // 2
                if table[middle] > goal:
                    high = middle
                else:
                    low = middle + 1
            out[i, j] = low
    return out
