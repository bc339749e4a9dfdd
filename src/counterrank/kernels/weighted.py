"""Sums of contributions y = w r, which are never stored; sums of rewards alone are made elsewhere,
once.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import vector_helper, vector_jit

Floats = NDArray[np.float64]


@vector_helper
def multiply(values: Floats, out: Floats) -> None:
    """Multiply `out` by `values`, entry by entry."""
    for i in range(out.shape[0]):
        out[i] *= values[i]


@vector_jit
def weighted_sums(
    w: Floats, r: Floats, alpha: float, share: float, total: Floats, weight: Floats, out: Floats
) -> None:
    """Add alpha w r to the totals, share w to the mean weights, and sums of y, w, yy, ww, yw, yr to
    `out`.
    """
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


@vector_helper
def common_sums(w: Floats, r: Floats, out: Floats) -> None:
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
