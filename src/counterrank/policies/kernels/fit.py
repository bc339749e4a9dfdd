"""Choices one after the other: which score rank was shown next, and which was expected."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def choices(
    offsets: Ints, scores: Floats, places: Ints, slope: float, sums: Floats, counts: Ints
) -> None:
    """Add to sums (3, R): observed, expected, variance by score rank among what is left; the last
    cell takes the rest.

    Counts: shown items of score -inf, and rows whose shown scores rise. A row stops at its first
    item that is no candidate or not eligible: what was left after it is not known.
    """
    n, K = places.shape
    R = sums.shape[1]
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
            if place == -2:
                following = False
                continue
            if row[place] == -np.inf:
                counts[0] += 1
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
            chosen, beyond = -1, 0.0
            for r in range(C):
                if left[r] == place:
                    chosen = r
                if r < R - 1:
                    p = mass[r] / total
                    sums[1, r] += p
                    sums[2, r] += p * (1.0 - p)
                else:
                    beyond += mass[r] / total
            if C >= R:
                sums[1, R - 1] += beyond
                sums[2, R - 1] += beyond * (1.0 - beyond)
            if chosen < 0:  # shown before: no choice among what was left
                following = False
                continue
            sums[0, min(chosen, R - 1)] += 1.0
            for r in range(chosen, C - 1):
                left[r], mass[r] = left[r + 1], mass[r + 1]
            C -= 1
        counts[1] += rises
