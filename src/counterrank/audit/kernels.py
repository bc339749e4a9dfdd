"""What the checks of every row count, a row at a time."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def grouped_sums(w: Floats, lengths: Ints, code: Ints, out: Floats) -> None:
    """Add count, w and w^2 by group and position to out (G, 3, K), for weights (n, K) and groups
    `code` (n,).
    """
    for i in range(w.shape[0]):
        sums = out[code[i]]
        for k in range(lengths[i]):
            value = w[i, k]
            sums[0, k] += 1.0
            sums[1, k] += value
            sums[2, k] += value * value


@jit
def inverse_sums(values: Floats, lengths: Ints, out: Floats) -> None:
    """Add the count of items, 1/p and 1/p^2 by position to out (3, K), for numbers p (n, K)."""
    for i in range(values.shape[0]):
        for k in range(lengths[i]):
            inverse = 1.0 / values[i, k]
            out[0, k] += 1.0
            out[1, k] += inverse
            out[2, k] += inverse * inverse


@jit
def count_items(action: Ints, lengths: Ints, last: Ints, seen: Ints) -> int:
    """Add how often each item stands at each position to seen (K, A), and return in how many
    rankings one stands twice; `last` (A,) holds zeros.
    """
    repeats = 0
    for i in range(action.shape[0]):
        twice = False
        for k in range(lengths[i]):
            item = action[i, k]
            seen[k, item] += 1
            twice = twice or last[item] == i + 1
            last[item] = i + 1
        repeats += twice
    return repeats


@jit
def steps(values: Floats, lengths: Ints, counts: Ints, span: Floats) -> None:
    """Add to counts (3,) the full rankings, those whose numbers (n, K) are all equal, and those
    whose numbers never rise and fall somewhere; span (2,) holds the extremes of their first ones.
    """
    length = values.shape[1]
    for i in range(values.shape[0]):
        if lengths[i] < length:
            continue
        fell, k, before = False, 1, values[i, 0]
        while k < length and values[i, k] <= before:
            fell = fell or values[i, k] < before
            before = values[i, k]
            k += 1
        counts[0] += 1
        counts[1] += k == length and not fell
        counts[2] += k == length and fell
        span[0], span[1] = max(span[0], values[i, 0]), min(span[1], values[i, 0])
