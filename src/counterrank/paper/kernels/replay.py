"""Rows of the published experiment from its uniform draws: behaviours, actions and rewards in one
pass.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Splitting a double by this factor leaves 11 bits: those of a half-precision number (Veltkamp;
#: Dekker 1971).
_HALF = float(2**42 + 1)


@jit
def behaviors(context: Floats, coef: Floats, lam: Floats, uniform: Floats) -> Ints:
    """Return draws (n,) from softmax_z(lam_z |coef_z . x|) by inversion of uniform (n,)."""
    n, d = context.shape
    M = coef.shape[0]
    out = np.empty(n, np.int64)
    weight = np.empty(M)
    for i in range(n):
        total = 0.0
        for z in range(M):
            dot = 0.0
            for f in range(d):
                dot += coef[z, f] * context[i, f]
            total += np.exp(lam[z] * abs(dot))
            weight[z] = total
        level = uniform[i] * total
        z = 0
        while z < M - 1 and weight[z] <= level:
            z += 1
        out[i] = z
    return out


@jit
def actions(below: Floats, uniform: Floats) -> Ints:
    """Return draws (n, K) from one distribution with cumulative probabilities below (A,)."""
    n, K = uniform.shape
    A = below.shape[0]
    out = np.empty((n, K), np.int64)
    for i in range(n):
        for k in range(K):
            a = 0
            for b in range(A - 1):
                a += uniform[i, k] >= below[b]
            out[i, k] = a
    return out


def expected(action: Ints, behavior: Ints, masks: Bools, effect: Floats, base: Floats) -> Floats:
    """Return base(x', a_k) + sum of effect[a_k, a_l] over the relevant l, in half precision: (n,
    K).

    Row i of the original sees the context of row i // K: base is (ceil(n / K), A).
    """
    K = masks.shape[1]
    others = masks & ~np.eye(K, dtype=bool)
    return _expected(action, behavior, others @ (1 << np.arange(K)), effect, base, _ones(K))


@jit
def _expected(
    action: Ints, behavior: Ints, others: Ints, effect: Floats, base: Floats, ones: NDArray[np.int8]
) -> Floats:
    """Return `expected`, counting the relevant positions of each action by sets of positions (M, K)
    as bits.
    """
    n, K = action.shape
    A = effect.shape[0]
    out = np.empty((n, K))
    places = np.empty(A, np.int64)
    for i in range(n):
        places[:] = 0
        for k in range(K):
            places[action[i, k]] |= 1 << k
        for k in range(K):
            own = action[i, k]
            total = base[i // K, own]
            for b in range(A):
                total += effect[own, b] * ones[others[behavior[i], k] & places[b]]
            out[i, k] = half(total)
    return out


@lru_cache(maxsize=16)
def _ones(K: int) -> NDArray[np.int8]:
    """Return the number of ones in each number of K bits."""
    return np.array([number.bit_count() for number in range(1 << K)], dtype=np.int8)


@jit
def half(value: float) -> float:
    """Return the nearest half-precision number, of values in its normal range; smaller ones keep
    2^-24.
    """
    if abs(value) < 2.0**-14:
        return float(np.rint(value * 2.0**24)) * 2.0**-24
    scaled = value * _HALF
    return scaled - (scaled - value)
