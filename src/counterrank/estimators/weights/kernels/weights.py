"""Importance weights from per-position ratios, and the exact second moments of interaction orders.

A weight is a product over the positions that matter.

Arrays are position-major, (K, n): the inner loop runs over rankings, so that it vectorises.
Products, never exp of summed logs: a ratio of zero outside the mask must not become 0 * inf = NaN.
"""

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.kernels.jit import fill, helper, jit

#: Rows handled at a time where polynomials of ratios are built: a few degrees fit the same cache.
_ORDER_BLOCK = 512
#: Rows turned position-major at a time.
_TURNED = 4096


def ratios(target: Floats, logging: Floats, lengths: Ints, out: Floats) -> None:
    """Fill out (K, n) with rho_k = pi(a_k) / pi0(a_k) of (n, K) inputs; one in the padding: products skip it."""
    n, length = target.shape
    quotient = np.empty((min(_TURNED, n), length))
    # In parts that stay in the cache while they are turned.
    for first in range(0, n, _TURNED):
        rows = slice(first, min(first + _TURNED, n))
        part = quotient[: rows.stop - first]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            np.divide(target[rows], logging[rows], out=part)
        # Position by position: a third faster than turning all at once.
        for k in range(length):
            out[k, rows] = part[:, k]
    if lengths.min(initial=length) < length:
        out[np.arange(length)[:, None] >= lengths] = 1.0


def prefix(rho: Floats, out: Floats) -> None:
    """Fill w_k = prod_{l<=k} rho_l (RIPS)."""
    out[0] = rho[0]
    # Weights beyond all numbers are found by the estimate that rests on them, which says so.
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(1, len(rho)):
            np.multiply(out[k - 1], rho[k], out=out[k])


def full(rho: Floats, out: Floats) -> None:
    """Fill w_k = prod_l rho_l at every position (IPS)."""
    with np.errstate(over="ignore", invalid="ignore"):
        out[:] = rho.prod(axis=0)


@jit
def masked(rho: Floats, masks: Bools, choice: Ints, out: Floats) -> None:
    """Fill w_k = prod over l with masks[choice[i, k], k, l] of rho_l; masks (M, K, K), choice (n, K)."""
    length, n = rho.shape
    for k in range(length):
        for i in range(n):
            mask = masks[choice[i, k], k]
            product = 1.0
            for m in range(length):
                if mask[m]:
                    product *= rho[m, i]
            out[k, i] = product


@helper
def _raise_degree(rho: Floats, lower: Floats, upper: Floats) -> None:
    """Add (rho - 1) lower to upper; rows of one table are known to be apart only as arguments."""
    for i in range(rho.shape[0]):
        upper[i] += (rho[i] - 1.0) * lower[i]


@helper
def _multiply(values: Floats, out: Floats) -> None:
    for i in range(out.shape[0]):
        out[i] *= values[i]


@helper
def _add(values: Floats, out: Floats) -> None:
    for i in range(values.shape[0]):
        out[i] += values[i]


@jit
def at_position(rho: Floats, k: int, relevant: Bools, order: int, out: Floats) -> None:
    """Fill out (n,) with w_k of the items relevant (K,), truncated at an interaction order.

    w_k(c, m) = rho_k * sum over T in Phi_k(c) without k, |T| <= m-1, of prod_{l in T} (rho_l - 1),
    by the recurrence of elementary symmetric polynomials, O(K m) a position. At full order the
    plain product is used: the alternating sum loses all digits to cancellation for long rankings.
    """
    length, n = rho.shape
    others = 0
    for m in range(length):
        others += relevant[m] and m != k
    plain = order > others
    poly = np.empty((1 if plain else order, _ORDER_BLOCK))
    for first in range(0, n, _ORDER_BLOCK):
        end = min(first + _ORDER_BLOCK, n)
        row = out[first:end]
        fill(row, 1.0)
        if plain:
            for m in range(length):
                if relevant[m]:
                    _multiply(rho[m, first:end], row)
            continue
        for j in range(order):
            fill(poly[j], 1.0 if j == 0 else 0.0)
        for m in range(length):
            if relevant[m] and m != k:
                for j in range(order - 1, 0, -1):
                    _raise_degree(rho[m, first:end], poly[j - 1], poly[j])
        for j in range(1, order):
            _add(poly[j], poly[0])
        _multiply(poly[0], row)
        if relevant[k]:
            _multiply(rho[k, first:end], row)


def ordered(rho: Floats, mask: Bools, order: int, out: Floats) -> None:
    """Fill out (K, n) with the weights of one mask (K, K) for every ranking, as `at_position`."""
    for k in range(len(rho)):
        at_position(rho, k, mask[k], order, out[k])


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
