"""Exponentials in vector lanes: the library's takes one number at a time, four times as long."""

from math import factorial

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import fused_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Below this exp(x) is taken as exp of it: 1e-304, nothing beside anything it is added to here.
LOWEST = -700.0
_PER_LOG_2 = 1.4426950408889634
# log 2 in two parts, the first so short that a whole number times it is exact (as in fdlibm).
_LOG_2_HIGH, _LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Added to a small whole number, it leaves that number in the last bits: no conversion is needed.
_ROUND = 1.5 * 2.0**52
(_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13) = (
    1.0 / factorial(j) for j in range(2, 14)
)


@fused_jit
def rung(x: Floats, p: Floats, q: Floats, power: Floats, bits: Ints) -> None:
    """Fill q = exp(x) and p = 1 - exp(x), each to its last digits, for x <= 0.

    x = m log 2 + r with |r| <= log(2) / 2, and exp(r) - 1 by its Taylor polynomial. `power` is room
    for as many numbers, and `bits` its view as integers.
    """
    for i in range(x.size):
        v = max(x[i], LOWEST)
        m = np.floor(v * _PER_LOG_2 + 0.5)
        power[i] = m + _ROUND
        r = v - m * _LOG_2_HIGH - m * _LOG_2_LOW
        s = _C13 * r + _C12
        s = s * r + _C11
        s = s * r + _C10
        s = s * r + _C9
        s = s * r + _C8
        s = s * r + _C7
        s = s * r + _C6
        s = s * r + _C5
        s = s * r + _C4
        s = s * r + _C3
        s = s * r + _C2
        p[i] = r + r * r * s
    for i in range(x.size):
        bits[i] = (bits[i] + 1023) << 52
    for i in range(x.size):
        less = p[i] * power[i]
        p[i] = (1.0 - power[i]) - less
        q[i] = power[i] + less
