"""Importance weights from per-position ratios, and what their exact second moments are made of.

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


def ratios(target: Floats, logging: Floats, lengths: Ints) -> Floats:
    """Return rho_k = pi(a_k) / pi0(a_k) (K, n) of (n, K) inputs; one in the padding: products skip it."""
    n, length = target.shape
    out = np.empty((length, n))
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
    return out


@jit
def masked(rho: Floats, masks: Bools, choice: Ints) -> Floats:
    """Return w_k (K, n) = prod over l with masks[choice[i, k], k, l] of rho_l; masks (M, K, K), choice (n, K)."""
    length, n = rho.shape
    out = np.empty((length, n))
    for k in range(length):
        for i in range(n):
            mask = masks[choice[i, k], k]
            product = 1.0
            for m in range(length):
                if mask[m]:
                    product *= rho[m, i]
            out[k, i] = product
    return out


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


def ordered(rho: Floats, mask: Bools, order: int) -> Floats:
    """Return the weights (K, n) of one mask (K, K) for every ranking, as `at_position`."""
    out = np.empty_like(rho)
    for k, relevant in enumerate(np.ascontiguousarray(mask)):
        at_position(rho, k, relevant, order, out[k])
    return out


def excess_squares(logging: Floats, target: Floats) -> Floats:
    """Return v = E[rho^2 | x] - 1 = sum_b pi(b)^2 / pi0(b) - 1 of distributions (..., A), over the logger's support."""
    shown = logging > 0
    found: Floats = np.where(shown, target**2 / np.where(shown, logging, 1.0), 0.0).sum(axis=-1)
    return found - 1.0


def of_others(values: Floats) -> tuple[Floats, Floats]:
    """Return the elementary symmetric polynomials e_1 and e_2 of the other positions' values (n, K).

    They are made of the positions before and after: sums alone, so that no digit is lost by taking a
    large value out again.
    """
    above, below = _before(values), _before(values[:, ::-1])[:, ::-1]
    pairs = _before(values * above) + _before((values * below)[:, ::-1])[:, ::-1]
    return above + below, pairs + above * below


def _before(values: Floats) -> Floats:
    """Return the sums over the positions above each position (n, K)."""
    out = np.zeros_like(values)
    np.cumsum(values[:, :-1], axis=1, out=out[:, 1:])
    return out
