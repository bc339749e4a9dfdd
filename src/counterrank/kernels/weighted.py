"""Moments of contributions y = w r, with weights made on the way: they never leave the first-level cache.

Sums of rewards alone (r, rr) are the same for every estimator, so they are not made here.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.accumulate import BINS, BLOCK, close_block, largest
from counterrank.kernels.jit import jit, vector_jit

Floats = NDArray[np.float64]


@vector_jit
def _multiply(values: Floats, out: Floats) -> None:
    for i in range(out.shape[0]):
        out[i] *= values[i]


@vector_jit
def _weighted_sums(
    w: Floats, r: Floats, alpha: float, share: float, total: Floats, weight: Floats, out: Floats
) -> None:
    """Add alpha w r to the totals, share w to the mean weights, and sums of y, w, yy, ww, yw, yr to `out`."""
    sy, sw, syy, sww, syw, syr = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(w.shape[0]):
        a, c = w[i], r[i]
        y = a * c
        sy += y
        sw += a
        syy += y * y
        sww += a * a
        syw += y * a
        syr += y * c
        total[i] += alpha * y
        weight[i] += share * a
    out[0] += sy
    out[1] += sw
    out[3] += syy
    out[4] += sww
    out[6] += syw
    out[7] += syr


@vector_jit
def _common_sums(w: Floats, r: Floats, out: Floats) -> None:
    """The same for a weight common to all positions, whose own sums are made once."""
    sy, syy, syw, syr = 0.0, 0.0, 0.0, 0.0
    for i in range(w.shape[0]):
        a, c = w[i], r[i]
        y = a * c
        sy += y
        syy += y * y
        syw += y * a
        syr += y * c
    out[0] += sy
    out[3] += syy
    out[6] += syw
    out[7] += syr


@jit
def by_position(
    rho: Floats, cumulative: bool, reward: Floats, base: Floats, alpha: Floats, positions: Floats, rows: Floats,
    peaks: Floats, histogram: Floats, totals: Floats,
) -> None:  # fmt: skip
    """Fill the moments for w_k = rho_k, or w_k = prod_{l<=k} rho_l when `cumulative`; arrays as in `accumulate`."""
    length, n = rho.shape
    block, product = np.empty(BLOCK), np.empty(BLOCK)
    sums, counts = np.zeros((length, 8)), np.zeros((BINS, 2))
    top = np.zeros(length + 1, dtype=np.int64)
    scale = 1.0 / alpha.sum()
    for first in range(0, n, BLOCK):
        stop = min(first + BLOCK, n)
        total, weight, w = totals[first:stop], block[: stop - first], product[: stop - first]
        total[:] = 0.0
        weight[:] = 0.0
        w[:] = 1.0
        for k in range(length):
            if cumulative:
                _multiply(rho[k, first:stop], w)
            else:
                w = rho[k, first:stop]
            _weighted_sums(w, reward[k, first:stop], alpha[k], alpha[k] * scale, total, weight, sums[k])
            top[k] = largest(w, top[k])
        top[length] = largest(total, top[length])
        close_block(total, base[first:stop], weight, rows, counts)
    positions += sums.T
    histogram += counts.T
    peaks[:] = top.view(np.float64)


@jit
def common(
    rho: Floats, reward: Floats, base: Floats, positions: Floats, rows: Floats, peaks: Floats, histogram: Floats,
    totals: Floats,
) -> None:  # fmt: skip
    """Fill the moments for w = prod_l rho_l at every position, so that a row's total is w times its base."""
    length, n = rho.shape
    product = np.empty(BLOCK)
    sums, counts = np.zeros((length, 8)), np.zeros((BINS, 2))
    top = np.zeros(2, dtype=np.int64)
    for first in range(0, n, BLOCK):
        stop = min(first + BLOCK, n)
        total, base_block, w = totals[first:stop], base[first:stop], product[: stop - first]
        w[:] = rho[0, first:stop]
        for k in range(1, length):
            _multiply(rho[k, first:stop], w)
        for k in range(length):
            _common_sums(w, reward[k, first:stop], sums[k])
        total[:] = base_block
        _multiply(w, total)
        top[0] = largest(w, top[0])
        top[1] = largest(total, top[1])
        close_block(total, base_block, w, rows, counts)
    positions += sums.T
    positions[1, :] = rows[2]
    positions[4, :] = rows[5]
    histogram += counts.T
    peaks[:length] = top.view(np.float64)[0]
    peaks[length] = top.view(np.float64)[1]
