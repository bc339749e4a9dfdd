"""Rows of the published experiment from its uniform draws: behaviours, actions and rewards in one pass."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Splitting a double by this factor leaves 11 bits: those of a half-precision number (Veltkamp; Dekker 1971).
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


@jit
def expected(action: Ints, behavior: Ints, masks: Bools, effect: Floats, base: Floats) -> Floats:
    """Return base(x', a_k) + sum of effect[a_k, a_l] over the relevant l, in half precision: (n, K).

    Row i of the original sees the context of row i // K: base is (ceil(n / K), A).
    """
    n, K = action.shape
    out = np.empty((n, K))
    for i in range(n):
        mask = masks[behavior[i]]
        for k in range(K):
            row = effect[action[i, k]]
            total = base[i // K, action[i, k]]
            for m in range(K):
                if m != k and mask[k, m]:
                    total += row[action[i, m]]
            out[i, k] = half(total)
    return out


@jit
def half(value: float) -> float:
    """Return the nearest half-precision number, of values in its normal range; smaller ones keep 2^-24."""
    if abs(value) < 2.0**-14:
        return float(np.rint(value * 2.0**24)) * 2.0**-24
    scaled = value * _HALF
    return scaled - (scaled - value)
