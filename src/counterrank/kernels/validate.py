"""One pass over a matrix, looking for the first value that cannot be used."""

from counterrank.common.arrays import Floats, Ints
from counterrank.kernels.jit import jit


@jit
def first_bad(values: Floats, valid: Ints, low: float, high: float) -> int:
    """Return the flat index of the first used entry that is not in (low, high], or -1.

    `values` (n, K); row i uses its first `valid[i]` entries. NaN is never inside; neither is an
    infinite value when `low` and `high` are the largest floats.
    """
    n, length = values.shape
    for i in range(n):
        for k in range(valid[i]):
            value = values[i, k]
            if not (value > low and value <= high):
                place: int = i * length + k
                return place
    return -1


@jit
def ranking_lengths(action: Ints, lengths: Ints) -> int:
    """Fill `lengths` (n,) with the number of items before the padding of -1.

    Return the first row with a gap or an id below -1, or -1 when there is none.
    """
    n, length = action.shape
    for i in range(n):
        used, last, lowest = 0, 0, 0
        for k in range(length):
            shown = action[i, k] >= 0
            used += shown
            last = k + 1 if shown else last
            lowest = min(lowest, action[i, k])
        if last != used or lowest < -1:
            return i
        lengths[i] = used
    return -1
