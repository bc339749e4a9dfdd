"""Rankings as choices one after the other: the loss of Plackett-Luce and its slope."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def choice_loss(
    offsets: Ints, utility: Floats, places: Ints, weight: Floats, slope: Floats
) -> float:
    """Return sum_i w_i sum_k [log D_ik - u_ik], and write its slope in each utility to `slope` (N,).

    u_ik is the utility of what row i shows at k, D_ik the summed exponentials of what was left
    before k. A row counts down to its first item that is no candidate, not eligible (-inf) or shown
    before: what was left after it is not known.
    """
    n, K = places.shape
    log_left = np.empty(K)
    total = 0.0
    for i in range(n):
        first, last = offsets[i], offsets[i + 1]
        row, out = utility[first:last], slope[first:last]
        out[:] = 0.0
        if weight[i] == 0.0:
            continue
        length = 0
        # While the row is read, `out` marks what was shown.
        while length < K:
            place = places[i, length]
            if place < 0 or row[place] == -np.inf or out[place] != 0.0:
                break
            out[place] = 1.0
            length += 1
        if length == 0:
            continue
        top = -np.inf
        for c in range(row.size):
            if out[c] == 0.0 and row[c] > top:
                top = row[c]
        rest = 0.0
        if top > -np.inf:
            for c in range(row.size):
                if out[c] == 0.0:
                    out[c] = np.exp(row[c] - top)
                    rest += out[c]
        # The mass left before k is added up from the end: no difference of nearly equal numbers.
        left = top + np.log(rest) if rest > 0.0 else -np.inf
        loss = 0.0
        for k in range(length - 1, -1, -1):
            u = row[places[i, k]]
            left = np.logaddexp(left, u)
            log_left[k] = left
            loss += left - u
        unshown = 0.0
        for k in range(length):
            unshown += np.exp(top - log_left[k])
        for c in range(row.size):
            out[c] *= weight[i] * unshown
        for k in range(length):
            u, expected = row[places[i, k]], 0.0
            for j in range(k + 1):
                expected += np.exp(u - log_left[j])
            out[places[i, k]] = weight[i] * (expected - 1.0)
        total += weight[i] * loss
    return total
