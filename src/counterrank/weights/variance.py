"""Variances of means from moments: over rows, or over units whose rows belong together."""

import numpy as np

from counterrank.arrays import Floats
from counterrank.weights.moments import Moments, spread


def variance(moments: Moments, gradient: Floats) -> float:
    """Return Var(g' column means): clustered when sums by unit are there, else from rows.

    Rows: g' Cov g / n. Clustered: see `clustered_variances`. NaN for a single row or unit, which
    shows no spread.
    """
    return float(variances(moments, gradient[None])[0])


def variances(moments: Moments, gradients: Floats) -> Floats:
    """Return the variances (m,) for the rows of gradients (m, 2K+1)."""
    if moments.n < 2:
        return np.full(len(gradients), np.nan)
    # Sums by unit come first: rows of one user are not independent, and an error that forgets it
    # is too small.
    if moments.buckets is not None:
        return clustered_variances(moments.buckets[:, :-1] @ gradients.T, moments.buckets[:, -1])
    if moments.gram is not None:
        quadratic: Floats = ((gradients @ moments.covariance) * gradients).sum(axis=1)
        return np.maximum(quadratic, 0.0) / moments.n
    return np.array([_from_rows(moments, gradient) for gradient in gradients])


def degrees_of_freedom(moments: Moments) -> float:
    """Return units - 1 when clustered, rows - 1 otherwise."""
    if moments.buckets is None:
        return max(moments.n - 1, 1)
    return max(int((moments.buckets[:, -1] > 0).sum()) - 1, 1)


def clustered_variances(sums: Floats, counts: Floats) -> Floats:
    """Return the variances (m,) of means over rows, from their sums by unit (units, m) and the units' rows (units,).

    With psi_u = sum - rows x mean of unit u: U/(U-1) sum_u psi_u^2 / n^2 (Liang & Zeger 1986); NaN
    from one unit.

    >>> clustered_variances(np.array([[0.0], [4.0]]), np.array([2.0, 2.0])).tolist()
    [1.0]
    """
    sums, counts = sums[counts > 0], counts[counts > 0]
    units, n = len(counts), counts.sum()
    if units < 2:
        return np.full(sums.shape[1], np.nan)
    scores = sums - np.outer(counts, sums.sum(axis=0) / n)
    variances: Floats = units / (units - 1) * (scores**2).sum(axis=0) / n**2
    return variances


def _from_rows(moments: Moments, gradient: Floats) -> float:
    """The same from the lean sums, which know totals and single positions but no other combination."""
    length, n = moments.K, moments.n
    on_y, on_w, on_b = gradient[:length], gradient[length : 2 * length], gradient[-1]
    # A gradient along alpha is a multiple of the row total, whose square was summed.
    scale = float(on_y @ moments.alpha) / float(moments.alpha @ moments.alpha)
    if (on_w == 0).all() and np.allclose(on_y, scale * moments.alpha, rtol=1e-12, atol=0.0):
        parts = (
            ("total2", "total", "total", scale**2),
            ("total_base", "total", "base", 2 * scale * on_b),
            ("base2", "base", "base", on_b**2),
        )
        return max(sum(c * _row_spread(moments, ab, a, b) for ab, a, b, c in parts), 0.0) / n
    touched = np.flatnonzero((on_y != 0) | (on_w != 0))
    if len(touched) != 1 or on_b != 0:
        raise ValueError("the variance of this combination needs the Gram matrix")
    k = int(touched[0])
    y, w = moments.mean("y")[k], moments.mean("w")[k]
    yy, yw, ww = (
        float(spread(moments.mean(ab)[k], a * b, n))
        for ab, a, b in (("yy", y, y), ("yw", y, w), ("ww", w, w))
    )
    total = float(on_y[k] ** 2 * yy + 2 * on_y[k] * on_w[k] * yw + on_w[k] ** 2 * ww)
    return max(total, 0.0) / n


def _row_spread(moments: Moments, product: str, left: str, right: str) -> float:
    expected = np.array(moments.row_mean(left) * moments.row_mean(right))
    return float(spread(np.array(moments.row_mean(product)), expected, moments.n))
