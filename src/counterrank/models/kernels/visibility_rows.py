"""What a step of the visibility model sees of each row: predictions, weights and errors, and the loss it is judged by.

`reward` and `present` are (n, K); predictions q come from `parts` (3, n, K) and `scale` (n, 2), how much of the items
above and below a row's user sees.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit
from counterrank.kernels.sigmoid import exponential, sigmoid

Floats = NDArray[np.float64]

#: Kinds of link: q = own + pair, its sigmoid, or own exp(pair).
SUM, LOGISTIC, PRODUCT = 0, 1, 2
#: exp() of a pair part beyond this is no effect any log could show.
LARGEST = 20.0
#: Least variance of a 0/1 reward in a step's weights, least chance of one in its loss.
_LEAST_VARIANCE, _LEAST_CHANCE = 1e-5, 1e-9
#: Chances multiplied before one logarithm is taken of them: 1e-9^16 is still far from underflow.
_AT_ONCE = 16
#: Rows whose predictions go through the link while they are in the cache.
_ROWS = 256


@vector_jit
def _pair(parts: Floats, scale: Floats, offset: Floats, first: int, last: int, out: Floats) -> None:
    """Fill rows first to last of out with the pair part as each row's user sees it."""
    for i in range(first, last):
        above, below = scale[i, 0], scale[i, 1]
        for k in range(out.shape[1]):
            out[i, k] = parts[1, i, k] * above + parts[2, i, k] * below + offset[i, k]


@jit
def _curve(kind: int, own: Floats, values: Floats) -> None:
    """Replace pair parts (N,) by values of the link."""
    count = values.shape[0]
    if kind == PRODUCT:
        for j in range(count):
            values[j] = min(max(values[j], -LARGEST), LARGEST)
        exponential(values, count)
        for j in range(count):
            values[j] *= own[j]
        return
    for j in range(count):
        values[j] += own[j]
    if kind == LOGISTIC:
        sigmoid(values, count)


@jit
def link_values(kind: int, parts: Floats, scale: Floats, offset: Floats, q: Floats) -> None:
    """Fill q (n, K), the link of own part and pair part, the pair part with its offset (n, K)."""
    n, K = q.shape
    flat, own = q.reshape(n * K), parts[0].reshape(n * K)
    for first in range(0, n, _ROWS):
        last = min(first + _ROWS, n)
        _pair(parts, scale, offset, first, last, q)
        _curve(kind, own[first * K : last * K], flat[first * K : last * K])


@vector_jit
def logistic_slopes(q: Floats, reward: Floats, present: Floats, weight: Floats, error: Floats) -> None:
    """Fill the weights q (1 - q) and working errors (reward - q) / weight of a Newton step (n, K)."""
    for i in range(q.shape[0]):
        for k in range(q.shape[1]):
            variance = max(q[i, k] * (1.0 - q[i, k]), _LEAST_VARIANCE)
            weight[i, k] = variance * present[i, k]
            error[i, k] = (reward[i, k] - q[i, k]) / variance * present[i, k]


@jit
def logistic_loss(q: Floats, reward: Floats, present: Floats) -> float:
    """Return -2 sum of the log of the chance that each present reward (above a half or not) is what it is."""
    total = 0.0
    for i in range(q.shape[0]):
        chance = 1.0
        for k in range(q.shape[1]):
            one = min(max(q[i, k], _LEAST_CHANCE), 1.0 - _LEAST_CHANCE)
            if present[i, k] > 0.0:
                chance *= one if reward[i, k] > 0.5 else 1.0 - one
            if k % _AT_ONCE == _AT_ONCE - 1:
                total += np.log(chance)
                chance = 1.0
        total += np.log(chance)
    return -2.0 * total


@vector_jit
def squared_loss(q: Floats, reward: Floats, present: Floats, shared: Floats) -> float:
    """Return sum_i (sum_k e_ik^2 - c_i (sum_k e_ik)^2), e = (reward - q) present, all (n, K)."""
    total = 0.0
    for i in range(q.shape[0]):
        square, summed = 0.0, 0.0
        for k in range(q.shape[1]):
            error = (reward[i, k] - q[i, k]) * present[i, k]
            square += error * error
            summed += error
        total += square - shared[i] * summed * summed
    return total
