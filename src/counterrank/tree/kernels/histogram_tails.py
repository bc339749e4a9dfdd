"""Second moments of products of ratios: of those seen, and exact ones given the context."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit

Floats = NDArray[np.float64]


@vector_jit
def weigh(weight: Floats, reward: Floats, m: int, out: Floats, second: Floats) -> None:
    """Fill out[:, m] of (K, M, n) with w r, and second[:, m] of (K, M) with the mean of w^2; w and r (K, n)."""
    for k in range(weight.shape[0]):
        w, r, row = weight[k], reward[k], out[k, m]
        total = 0.0
        for i in range(w.shape[0]):
            total += w[i] * w[i]
            row[i] = w[i] * r[i]
        second[k, m] = total / w.shape[0]


@jit
def second_moments(excess: Floats, masks: NDArray[np.bool_], orders: NDArray[np.int64], out: Floats) -> None:
    """Fill out (K, M) with the mean over rows of E[w_k^2 | x], from v (n, K), masks (M, K, K), orders (M,).

    (1 + v_k) sum_{j < order} e_j(v_l, l relevant and not k); a full product (order 0) is prod (1 + v_l).
    """
    n, length = excess.shape
    poly = np.empty(length + 1)
    for m in range(masks.shape[0]):
        for k in range(length):
            total = 0.0
            for i in range(n):
                row = excess[i]
                own = 1.0 + row[k] if masks[m, k, k] else 1.0
                if orders[m] == 0:
                    for j in range(length):
                        if j != k and masks[m, k, j]:
                            own *= 1.0 + row[j]
                    total += own
                    continue
                top = min(orders[m], length)
                poly[:top] = 0.0
                poly[0] = 1.0
                for j in range(length):
                    if j != k and masks[m, k, j]:
                        for degree in range(top - 1, 0, -1):
                            poly[degree] += row[j] * poly[degree - 1]
                total += own * poly[:top].sum()
            out[k, m] = total / n
