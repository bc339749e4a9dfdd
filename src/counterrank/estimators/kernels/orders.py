"""Second moments of interaction-order weights, exact from whole distributions."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import fill, helper, jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def others_polynomial(value: Floats, k: int, poly: Floats) -> None:
    """Fill poly (J,) with the elementary symmetric polynomials e_0..e_{J-1} of value (K,) without entry k."""
    fill(poly, 0.0)
    poly[0] = 1.0
    for other in range(value.shape[0]):
        if other != k:
            for j in range(poly.shape[0] - 1, 0, -1):
                poly[j] += value[other] * poly[j - 1]


@helper
def excess_squares(logging: Floats, target: Floats, lengths: Ints, out: Floats) -> int:
    """Fill out (n, 1 or K) with v_k = sum_b pi(b)^2 / pi0(b) - 1 = E[rho_k^2 | x] - 1; return rows without support.

    Distributions are (n, 1 or K, A); one column is enough where both have one for all positions.
    """
    bad = 0
    for i in range(lengths.shape[0]):
        supported = True
        for k in range(min(out.shape[1], lengths[i])):
            p, t = (
                logging[i, 0 if logging.shape[1] == 1 else k],
                target[i, 0 if target.shape[1] == 1 else k],
            )
            total = 0.0
            for b in range(p.shape[0]):
                if t[b] > 0.0:
                    if p[b] <= 0.0:
                        supported = False
                    else:
                        total += t[b] * t[b] / p[b]
            out[i, k] = total - 1.0
        bad += not supported
    return bad


@jit
def order_squares(excess: Floats, lengths: Ints, orders: Ints, out: Floats) -> None:
    """Add sum_k E[w_k^2 | x] of each order to out (J+1,), the full product last, from excess (n, 1 or K).

    E[w_k(m)^2 | x] = (1 + v_k) sum_{j<m} e_j(v without k): the terms of the expansion are
    uncorrelated.
    """
    J = orders.shape[0]
    poly = np.zeros(orders[J - 1] if J else 1)
    alike = excess.shape[1] == 1
    for i in range(lengths.shape[0]):
        used = lengths[i]
        v = excess[i, :used]
        product = (1.0 + v[0]) ** used
        if not alike:
            product = 1.0
            for k in range(used):
                product *= 1.0 + v[k]
        # Positions that are alike have the same polynomial: the first one's, with binomial
        # coefficients.
        for k in range(1 if alike else used):
            if alike:
                poly[0] = 1.0
                for j in range(1, poly.shape[0]):
                    poly[j] = poly[j - 1] * v[0] * (used - j) / j
            elif J:
                others_polynomial(v, k, poly)
            total = 0.0
            done = 0
            for j in range(J):
                while done < orders[j]:
                    total += poly[done]
                    done += 1
                out[j] += (used if alike else 1) * (1.0 + v[k]) * total
        out[J] += used * product


@jit
def exact_squares(logging: Floats, target: Floats, lengths: Ints, orders: Ints, out: Floats) -> int:
    """Add `order_squares` of the distributions to out (J+1,); return rows without support."""
    alike = logging.shape[1] == 1 and target.shape[1] == 1
    excess = np.zeros((lengths.shape[0], 1 if alike else max(logging.shape[1], target.shape[1])))
    bad = excess_squares(logging, target, lengths, excess)
    order_squares(excess, lengths, orders, out)
    return bad
