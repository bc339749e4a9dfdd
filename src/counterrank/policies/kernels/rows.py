"""Row by row: where items stand, and what a uniform number draws.

Uniform numbers by counting; and choices one after the other.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.kernels.hashing import mix
from counterrank.kernels.jit import jit

Ids = NDArray[np.int32]


@jit
def locate(ends: Ints, items: Ids, queried: Ints, n_items: int) -> Ints:
    """Return (n, Q) places of asked items (n, Q) in their row's list: -1 for padding, -2 when absent.

    Lists are items[ends[i, 0] : ends[i, 1]]; an only row of ends serves all.
    """
    n, Q = queried.shape
    out = np.full((n, Q), -2, np.int64)
    # `owner` is the row that wrote `place`: no clearing between rows.
    place, owner = np.empty(n_items, np.int64), np.full(n_items, -1, np.int64)
    for i in range(n):
        list_row = i if ends.shape[0] > 1 else 0
        row = items[ends[list_row, 0] : ends[list_row, 1]]
        for j in range(row.size):
            # A list may be padded with -1.
            if row[j] >= 0:
                place[row[j]], owner[row[j]] = j, i
        for k in range(Q):
            a = queried[i, k]
            if a < 0:
                out[i, k] = -1
            elif a < n_items and owner[a] == i:
                out[i, k] = place[a]
    return out


@jit
def first_bad_candidate(offsets: Ints, items: Ids, n_items: int) -> tuple[int, int]:
    """Return row and place of the first candidate that is negative or listed before in its row, or (-1, -1)."""
    owner = np.full(n_items, -1, np.int64)
    for i in range(offsets.size - 1):
        for j in range(offsets[i], offsets[i + 1]):
            a = items[j]
            if a < 0 or owner[a] == i:
                return i, j - offsets[i]
            owner[a] = i
    return -1, -1


@jit
def categorical(cumulative: Floats, uniforms: Floats) -> Ints:
    """Return (n, D) indices drawn by inversion from cumulative tables (n or 1, A) and uniforms (n, D).

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


@jit
def fill_uniforms(keys: NDArray[np.uint64], first: int, out: Floats) -> None:
    """Fill `out` (n, m) with numbers in [0, 1): of row i those from `first` on."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = (
                np.float64(mix(keys[i] + mix(np.uint64(first + j))) >> np.uint64(11)) * 2.0**-53
            )


@jit
def choices(
    offsets: Ints, scores: Floats, places: Ints, slope: float, sums: Floats, counts: Ints
) -> None:
    """Add to sums (3, R): observed, expected, variance by score rank among what is left.

    The last cell takes the rest.

    Counts: shown items of score -inf, and rows whose shown scores rise. A row stops at its first
    item that is no candidate or not eligible: what was left after it is not known.
    """
    n, K = places.shape
    R = sums.shape[1]
    chance = np.empty(R)
    for i in range(n):
        row = scores[offsets[i] : offsets[i + 1]]
        order = np.argsort(-row, kind="mergesort")
        C = 0
        while C < row.size and row[order[C]] > -np.inf:
            C += 1
        left = order[:C].copy()
        mass = np.empty(C)
        for r in range(C):
            # Relative to the best score: exp cannot overflow, and the first mass is 1.
            mass[r] = np.exp(slope * (row[left[r]] - row[left[0]]))
        before = np.inf
        rises, following = False, True
        for k in range(K):
            place = places[i, k]
            if place == -1:
                break
            if place == -2 or row[place] == -np.inf:
                counts[0] += place >= 0
                following = False
                continue
            rises = rises or row[place] > before
            before = row[place]
            if not following or C < 2:
                continue
            total = 0.0
            for r in range(
                C - 1, -1, -1
            ):  # the lightest first: sums from what is left, never total minus used
                total += mass[r]
            chosen = -1
            chance.fill(0.0)
            for r in range(C):
                chance[min(r, R - 1)] += mass[r] / total
                if left[r] == place:
                    chosen = r
            for r in range(R):
                sums[1, r] += chance[r]
                sums[2, r] += chance[r] * (1.0 - chance[r])
            if chosen < 0:  # shown before: no choice among what was left
                following = False
                continue
            sums[0, min(chosen, R - 1)] += 1.0
            for r in range(chosen, C - 1):
                left[r], mass[r] = left[r + 1], mass[r + 1]
            C -= 1
        counts[1] += rises
