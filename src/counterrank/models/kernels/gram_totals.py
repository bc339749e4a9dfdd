"""Second moments of a ranking's summed features: what correlated noise between its positions needs."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.gram_products import add_scaled
from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def add_totals(
    action: Ints, lengths: Ints, fold: Ints, reward: Floats, x: Floats, centre: Floats,
    gram: Floats, cover: Floats, square: Floats,
) -> None:  # fmt: skip
    """Add s s', s R and R^2 with R = sum_k r_k and s = sum_k z_k, to lower triangles by fold.

    z_k lives in a space with one block of p = d+1+2A columns for each own action, [x, counts above and below less
    their logging means], and one intercept for each (position, own action): gram (F, S, S) with S = A p + K A.
    """
    n, length = action.shape
    width, A = x.shape[1], centre.shape[1]
    p = width + 2 * A
    size = gram.shape[1]
    s = np.zeros(size)
    for i in range(n):
        s[:] = 0.0
        total = 0.0
        for k in range(lengths[i]):
            u = action[i, k]
            total += reward[i, k]
            first = u * p
            for j in range(width):
                s[first + j] += x[i, j]
            for b in range(A):
                s[first + width + b] -= k * centre[i, b]
                s[first + width + A + b] -= (length - 1 - k) * centre[i, b]
            for other in range(lengths[i]):
                if other != k:
                    s[first + width + (A if other > k else 0) + action[i, other]] += 1.0
            s[A * p + k * A + u] += 1.0
        matrix = gram[fold[i]]
        for j in range(size):
            if s[j] != 0.0:
                add_scaled(s, s[j], j + 1, matrix[j])
        add_scaled(s, total, size, cover[fold[i]])
        square[fold[i]] += total * total
