"""One row's contribution to every member of `auto`: interaction orders, projected weights, classic weights."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@jit
def others_polynomial(value: Floats, k: int, poly: Floats) -> None:
    """Fill poly (J,) with the elementary symmetric polynomials e_0..e_{J-1} of value (K,) without entry k."""
    poly[:] = 0.0
    poly[0] = 1.0
    for other in range(value.shape[0]):
        if other != k:
            for j in range(poly.shape[0] - 1, 0, -1):
                poly[j] += value[other] * poly[j - 1]


@jit
def members(
    rho: Floats, reward: Floats, q: Floats, mean: Floats, projected: Floats, orders: Ints, lengths: Ints,
    out: Floats, square: Floats,
) -> None:  # fmt: skip
    """Fill out (K, C, n) with the contributions of all members; add sum_k w_k^2 of each order to square (J+1,).

    Columns: logger, IIPS, DM, projected, pairs, full product, then each order. The full product is last in `square`.

    IN rho, reward, q, mean (n, K): ratios, rewards, model, model's mean under the target; projected (2, n, K):
    whole projected weights, then what their interactions add to rho; orders (J,) increasing, all below K.
    """
    n, length = rho.shape
    J = orders.shape[0]
    poly = np.zeros(orders[J - 1] if J else 1)
    quick = 0 < poly.shape[0] <= 3
    poly[0] = 1.0
    excess, whole = np.empty(length), np.zeros(3)
    for i in range(n):
        product = 1.0
        whole[:] = 0.0
        for k in range(length):
            excess[k] = rho[i, k] - 1.0
            product *= rho[i, k]
            whole[2] += excess[k] * whole[1]
            whole[1] += excess[k]
        for k in range(lengths[i]):
            w, r, m = rho[i, k], reward[i, k], mean[i, k]
            error = r - q[i, k]
            column = out[k]
            column[0, i] = r
            column[1, i] = w * r
            column[2, i] = m
            column[3, i] = m + projected[0, i, k] * error
            column[4, i] = m + (w + projected[1, i, k]) * error
            column[5, i] = m + product * error
            if quick:
                # e_j without k is e_j - x_k e_{j-1} without k: harmless for two steps, unstable for many.
                for j in range(1, poly.shape[0]):
                    poly[j] = whole[j] - excess[k] * poly[j - 1]
            elif J:
                others_polynomial(excess, k, poly)
            total = 0.0
            done = 0
            for j in range(J):
                while done < orders[j]:
                    total += poly[done]
                    done += 1
                column[6 + j, i] = m + w * total * error
                square[j] += (w * total) ** 2
            square[J] += product * product


@jit
def excess_squares(logging: Floats, target: Floats, lengths: Ints, out: Floats) -> int:
    """Fill out (n, 1 or K) with v_k = sum_b pi(b)^2 / pi0(b) - 1 = E[rho_k^2 | x] - 1; return rows without support.

    Distributions are (n, 1 or K, A); one column is enough where both have one for all positions.
    """
    bad = 0
    for i in range(lengths.shape[0]):
        supported = True
        for k in range(min(out.shape[1], lengths[i])):
            p, t = logging[i, 0 if logging.shape[1] == 1 else k], target[i, 0 if target.shape[1] == 1 else k]
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

    E[w_k(m)^2 | x] = (1 + v_k) sum_{j<m} e_j(v without k): the terms of the expansion are uncorrelated.
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
        # Positions that are alike have the same polynomial: the first one's, with binomial coefficients.
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
