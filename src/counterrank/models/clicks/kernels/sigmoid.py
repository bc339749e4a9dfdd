"""Exponential and logistic function in a form that compilers turn into vector instructions."""

import numpy as np

from counterrank.arrays import Floats
from counterrank.kernels.jit import helper, jit

_PER_OCTAVE = 1.4426950408889634  # 1 / log 2
# log 2 in two parts: whole multiples of the first are exact.
_OCTAVE, _REST = 0.693147180369123816490, 1.90821492927058770002e-10
#: Beyond this the result is 0 or 1 to the last digit.
_FAR = 700.0


@helper
def _exponential(t: float) -> float:
    """Return exp(t) for |t| <= _FAR to a unit in the last place, beyond that exp(+-_FAR); NaN stays NaN.

    exp(t) = 2^m exp(t - m log 2) with m the nearest whole number and 13 terms of the series for
    what is left.
    """
    t = _FAR if t > _FAR else t
    t = -_FAR if t < -_FAR else t
    # Argument reduction: |s| <= log(2) / 2, where 13 terms reach the last digit.
    m = np.floor(t * _PER_OCTAVE + 0.5)
    s = (t - m * _OCTAVE) - m * _REST
    p = 1.0 / 6227020800.0
    p = p * s + 1.0 / 479001600.0
    p = p * s + 1.0 / 39916800.0
    p = p * s + 1.0 / 3628800.0
    p = p * s + 1.0 / 362880.0
    p = p * s + 1.0 / 40320.0
    p = p * s + 1.0 / 5040.0
    p = p * s + 1.0 / 720.0
    p = p * s + 1.0 / 120.0
    p = p * s + 1.0 / 24.0
    p = p * s + 1.0 / 6.0
    p = p * s + 0.5
    p = p * s + 1.0
    p = p * s + 1.0
    # 2^m by its exponent bits: no branch and no call, so the loop around it vectorises.
    power: float = p * np.int64((np.int64(m) + 1023) << 52).view(np.float64)
    return power


@jit
def exponential(values: Floats, count: int) -> None:
    """Replace the first `count` values by their exponentials."""
    for i in range(count):
        values[i] = _exponential(values[i])


@jit
def sigmoid(values: Floats, count: int) -> None:
    """Replace the first `count` values v by 1 / (1 + exp(-v)), to a few units in the last place; NaN stays NaN."""
    for i in range(count):
        values[i] = 1.0 / (1.0 + _exponential(-values[i]))
