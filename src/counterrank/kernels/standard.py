"""IPS, RIPS and IIPS in one pass over the log: ratios, weights and moments of a block never leave
the cache.

Inputs are row-major as they lie in the log; each block is turned position-major in scratch, so that
every further loop runs over consecutive rankings.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.accumulate import (
    close_block,
    common_sums,
    largest,
    multiply,
    weighted_sums,
)
from counterrank.kernels.fill import fill
from counterrank.kernels.jit import helper, jit, vector_helper

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Which product of ratios is the weight: one for the whole ranking, one for the items so far, one
#: for the own item.
KINDS = ("joint", "prefix", "position")

#: Rows handled at a time, the best of 32 to 1024 at K = 8: shorter loops pay for their ends, longer
#: ones for cache.
_BLOCK = 256


@jit
def _turn(values: Floats, first: int, used: int, out: Floats) -> None:
    """Fill out (K, used) from rows first .. first + used of flat row-major values."""
    length = out.shape[0]
    block = values[first * length : (first + used) * length]
    for k in range(length):
        row = out[k]
        for i in range(used):
            row[i] = block[i * length + k]


@helper
def _turn_ratios(
    target: Floats, logging: Floats, lengths: Ints, first: int, quotient: Floats, out: Floats
) -> None:
    """Fill out (K, used) with target / logging of the rows from `first` on, one in the padding."""
    length, used = out.shape[0], lengths.shape[0]
    above, below = (
        target[first * length : (first + used) * length],
        logging[first * length : (first + used) * length],
    )
    shortest = length
    for i in range(used * length):
        quotient[i] = above[i] / below[i]
    for i in range(used):
        shortest = min(shortest, lengths[i])
    _turn(quotient, 0, used, out)
    if shortest < length:
        for i in range(used):
            for k in range(lengths[i], length):
                out[k, i] = 1.0


@vector_helper
def reward_sums(values: Floats, alpha: float, base: Floats, out: Floats) -> None:
    """Add alpha r to what the logger earned, and sums of r and r^2 to `out`."""
    first, second = 0.0, 0.0
    for i in range(values.shape[0]):
        first += values[i]
        second += values[i] * values[i]
        base[i] += alpha * values[i]
    out[0] += first
    out[1] += second


@helper
def _joint(
    rho: Floats, reward: Floats, base: Floats, w: Floats, total: Floats, sums: Floats, top: Ints
) -> None:
    length, used = rho.shape[0], w.shape[0]
    fill(w, 1.0)
    for k in range(length):
        multiply(rho[k, :used], w)
    for k in range(length):
        common_sums(w, reward[k, :used], sums[k])
    for i in range(used):
        total[i] = base[i] * w[i]
    top[0] = largest(w, top[0])
    top[length] = largest(total, top[length])


@helper
def _by_position(
    rho: Floats, cumulative: bool, reward: Floats, alpha: Floats, product: Floats, weight: Floats, total: Floats,
    sums: Floats, top: Ints,
) -> None:  # fmt: skip
    length, used = rho.shape[0], product.shape[0]
    scale = 1.0 / alpha.sum()
    fill(total, 0.0)
    fill(weight, 0.0)
    fill(product, 1.0)
    w = product
    for k in range(length):
        if cumulative:
            multiply(rho[k, :used], w)
        else:
            w = rho[k, :used]
        weighted_sums(w, reward[k, :used], alpha[k], alpha[k] * scale, total, weight, sums[k])
        top[k] = largest(w, top[k])
    top[length] = largest(total, top[length])


@jit
def standard(
    target: Floats, logging: Floats, lengths: Ints, reward: Floats, alpha: Floats, wanted: Bools, sums: Floats,
    rows: Floats, top: Ints, histogram: Floats, totals: Floats,
) -> None:  # fmt: skip
    """Fill the moments of each wanted kind of weight.

    IN  target, logging, reward (n, K); lengths (n,); alpha (K,); wanted (3,) in the order of KINDS.
    OUT (zeros) sums (3, K, 8), rows (3, 7), histogram (3, BINS, 2), totals (3, n), each as in
        `accumulate`; top (3, K+1): the largest |w_k|, last the largest |row total|, as bits.
    """
    n, length = target.shape
    flat_target, flat_logging, flat_reward = (
        target.reshape(-1),
        logging.reshape(-1),
        reward.reshape(-1),
    )
    rho, tall = np.empty((length, _BLOCK)), np.empty((length, _BLOCK))
    quotient, room = np.empty(length * _BLOCK), np.empty((3, _BLOCK))
    of_rewards = np.zeros((length, 2))
    for first in range(0, n, _BLOCK):
        stop = min(first + _BLOCK, n)
        used = stop - first
        base, w, weight = room[0, :used], room[1, :used], room[2, :used]
        _turn_ratios(flat_target, flat_logging, lengths[first:stop], first, quotient, rho)
        _turn(flat_reward, first, used, tall)
        fill(base, 0.0)
        for k in range(length):
            reward_sums(tall[k, :used], alpha[k], base, of_rewards[k])
        for kind in range(3):
            if not wanted[kind]:
                continue
            total = totals[kind, first:stop]
            if kind == 0:
                _joint(rho, tall, base, weight, total, sums[0], top[0])
            else:
                _by_position(rho, kind == 1, tall, alpha, w, weight, total, sums[kind], top[kind])
            close_block(total, base, weight, rows[kind], histogram[kind])
    for kind in range(3):
        # The joint weight is the same at every position: its sums and its peak were made once.
        if kind == 0:
            for k in range(length):
                sums[0, k, 1], sums[0, k, 4], top[0, k] = rows[0, 2], rows[0, 5], top[0, 0]
        for k in range(length):
            sums[kind, k, 2], sums[kind, k, 5] = of_rewards[k, 0], of_rewards[k, 1]
