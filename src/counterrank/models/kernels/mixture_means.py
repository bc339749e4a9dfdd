"""Means of the examination models under a target policy with independent positions.

Exact for sums and for products without a tilt; a sigmoid, and a product with one, are averaged over
drawn rankings. `wanted` (n, 1 or K, A) is the target's distribution, one for all positions or one
each; `chance` (n, Z) that of the classes; `scale` (n, 2) how much of the items above and below a
row's user examines.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_helper, vector_jit
from counterrank.models.kernels.regress_features import grouped
from counterrank.models.kernels.sigmoid import exponential, sigmoid
from counterrank.models.settings import LARGEST_EXPONENT as LARGEST
from counterrank.models.settings import RARE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rows of one block of drawn means.
_ROWS = 64


@vector_jit
def _quadratic(matrix: Floats, vector: Floats) -> float:
    """Return vector' matrix vector."""
    total = 0.0
    for b in range(vector.shape[0]):
        inner = 0.0
        for c in range(vector.shape[0]):
            inner += matrix[b, c] * vector[c]
        total += vector[b] * inner
    return total


@vector_jit
def _side_sums(examined: Floats) -> tuple[Floats, Floats]:
    """Return sums of examination and of its squares, above and below, by position and class: (2, K,
    Z) each.
    """
    Z, K, _ = examined.shape
    first, second = np.zeros((2, K, Z)), np.zeros((2, K, Z))
    for z in range(Z):
        for k in range(K):
            for other in range(K):
                if other != k:
                    side = 0 if other < k else 1
                    first[side, k, z] += examined[z, k, other]
                    second[side, k, z] += examined[z, k, other] * examined[z, k, other]
    return first, second


@vector_jit
def alike_means(
    fold: Ints, x: Floats, chance: Floats, scale: Floats, wanted: Floats, own: Floats, shift: Floats, pair: Floats,
    triple: Floats, examined: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) for a sum where all positions have one distribution, wanted (n, A), and none
    is padded.

    E q_k = p'own x + shift_k + sum_z chance_z (s_zk p'W p + (s_zk^2 - sum_l s_zkl^2) / 2 sum_u p_u
    p'T_u p), with s_zkl = examined x scale of l's side and s_zk = sum_l s_zkl.
    """
    n, A = wanted.shape
    Z, K, _ = examined.shape
    # Sums over other positions do not depend on the row: only how far its user looks above and
    # below does.
    sums, squares = _side_sums(examined)
    for i in range(n):
        f, p = fold[i], wanted[i]
        plain, pairs, three = 0.0, 0.0, 0.0
        for u in range(A):
            if p[u] == 0.0:
                continue
            total = 0.0
            for j in range(x.shape[1]):
                total += x[i, j] * own[f, u, j]
            plain += p[u] * total
            total = 0.0
            for b in range(A):
                total += p[b] * pair[f, u, b]
            pairs += p[u] * total
            if triple.shape[1] > 0:
                three += p[u] * _quadratic(triple[f, u], p)
        above, below = scale[i, 0], scale[i, 1]
        for k in range(K):
            first, second = 0.0, 0.0
            for z in range(Z):
                seen = above * sums[0, k, z] + below * sums[1, k, z]
                square = above * above * squares[0, k, z] + below * below * squares[1, k, z]
                first += chance[i, z] * seen
                second += chance[i, z] * 0.5 * (seen * seen - square)
            out[i, k] = plain + shift[f, k] + first * pairs + second * three


@vector_helper
def _expected_others(
    wanted: Floats, length: int, k: int, scale: Floats, examined: Floats, out: Floats
) -> None:
    """Fill out (Z, A) with how often each action is expected among the others, as far as each class
    examines them.
    """
    places, A = wanted.shape
    out[:] = 0.0
    for z in range(examined.shape[0]):
        for other in range(length):
            if other != k:
                seen = examined[z, k, other] * (scale[0] if other < k else scale[1])
                for b in range(A):
                    out[z, b] += seen * wanted[min(other, places - 1), b]


@vector_helper
def _pairs_of_others(
    wanted: Floats,
    length: int,
    k: int,
    scale: Floats,
    examined: Floats,
    expected: Floats,
    effect: Floats,
) -> float:
    """Return the mean of sum over l < m of s_l s_m effect[a_l, a_m]."""
    # All ordered pairs of independent positions, less each position with itself, halved: l < m.
    total = 0.5 * _quadratic(effect, expected)
    for other in range(length):
        if other != k:
            seen = examined[other] * (scale[0] if other < k else scale[1])
            total -= 0.5 * seen**2 * _quadratic(effect, wanted[min(other, wanted.shape[0] - 1)])
    return total


@vector_jit
def sum_means(
    lengths: Ints, fold: Ints, x: Floats, chance: Floats, scale: Floats, wanted: Floats, own: Floats, shift: Floats,
    pair: Floats, triple: Floats, examined: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) for a sum, any independent positions and rankings of `lengths` (n,)."""
    n, places, A = wanted.shape
    Z, K, _ = examined.shape
    mixed, of_class = np.empty(A), np.empty((Z, A))
    for i in range(n):
        f = fold[i]
        for k in range(min(K, lengths[i])):
            _expected_others(wanted[i], lengths[i], k, scale[i], examined, of_class)
            mixed[:] = 0.0
            for z in range(Z):
                for b in range(A):
                    mixed[b] += chance[i, z] * of_class[z, b]
            total = shift[f, k]
            for u in range(A):
                chance_u = wanted[i, min(k, places - 1), u]
                if chance_u == 0.0:
                    continue
                inner = 0.0
                for j in range(x.shape[1]):
                    inner += x[i, j] * own[f, u, j]
                for b in range(A):
                    inner += mixed[b] * pair[f, u, b]
                if triple.shape[1] > 0:
                    for z in range(Z):
                        inner += chance[i, z] * _pairs_of_others(
                            wanted[i],
                            lengths[i],
                            k,
                            scale[i],
                            examined[z, k],
                            of_class[z],
                            triple[f, u],
                        )
                total += chance_u * inner
            out[i, k] = total


@vector_jit
def product_means(
    lengths: Ints, fold: Ints, x: Floats, chance: Floats, wanted: Floats, own: Floats, shift: Floats, factor: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) for a product: E q_k = sum_u p_k(u) own_u sum_z chance_z prod_l sum_b p_l(b)
    factor[.., u, b].

    factor (F, Z, K, K, A, A) is exp(examined_zkl W(u, b)): users of a class examine alike.
    """
    n, places, A = wanted.shape
    _, Z, K, _, _, _ = factor.shape
    for i in range(n):
        f = fold[i]
        for k in range(min(K, lengths[i])):
            total = 0.0
            for u in range(A):
                chance_u = wanted[i, min(k, places - 1), u]
                if chance_u == 0.0:
                    continue
                plain = shift[f, k]
                for j in range(x.shape[1]):
                    plain += x[i, j] * own[f, u, j]
                scaled = 0.0
                for z in range(Z):
                    # It hardly moves the mean, and costs as much as any other.
                    if chance[i, z] < RARE:
                        continue
                    product = chance[i, z]
                    for other in range(lengths[i]):
                        if other != k:
                            row, p = factor[f, z, k, other, u], wanted[i, min(other, places - 1)]
                            mean = 0.0
                            for b in range(A):
                                mean += p[b] * row[b]
                            product *= mean
                    scaled += product
                total += chance_u * plain * scaled
            out[i, k] = total


# Drawn means. Rows of one fold share their parameters; blocks of them are held column by column, so
# that loops run over consecutive rows and vectorise however few positions and actions there are.


@vector_helper
def _gather(
    rows: Ints, x: Floats, scale: Floats, wanted: Floats, own: Floats, plain: Floats, seen: Floats, chance: Floats
) -> None:  # fmt: skip
    """Fill plain (A, R) with x' own of each action, seen (2, R) with the scale, and chance (., A,
    R) as wanted.
    """
    for r in range(rows.shape[0]):
        i = rows[r]
        seen[0, r], seen[1, r] = scale[i, 0], scale[i, 1]
        for u in range(own.shape[0]):
            total = 0.0
            for j in range(x.shape[1]):
                total += x[i, j] * own[u, j]
            plain[u, r] = total
        for k in range(wanted.shape[1]):
            for u in range(own.shape[0]):
                chance[k, u, r] = wanted[i, k, u]


@vector_helper
def _effects(
    rows: Ints, s: int, draws: Ints, seen: Floats, pair: Floats, drawn: Ints, effect: Floats
) -> None:
    """Fill effect (2, K.., A, R): pair effect of each position's drawn action on each own action,
    seen above, below.

    The last column of pair (A, A + 1) is that of no action; drawn (R,) is room.
    """
    A = pair.shape[0]
    for k in range(draws.shape[2]):
        for r in range(rows.shape[0]):
            b = draws[rows[r], s, k]
            drawn[r] = b if b >= 0 else A
        for u in range(A):
            line, above, below = pair[u], effect[0, k, u], effect[1, k, u]
            for r in range(rows.shape[0]):
                value = line[drawn[r]]
                above[r] = value * seen[0, r]
                below[r] = value * seen[1, r]


@vector_helper
def _linear(count: int, k: int, examined: Floats, effect: Floats, values: Floats) -> None:
    """Fill values (A, R) with the pair part of each own action at position k: four others at a
    time.
    """
    row = examined[k]
    for u in range(values.shape[0]):
        out = values[u]
        for m in range(0, effect.shape[1], 4):
            a, b, c, d = row[m], row[m + 1], row[m + 2], row[m + 3]
            e, f = effect[0 if m < k else 1, m, u], effect[0 if m + 1 < k else 1, m + 1, u]
            g, h = effect[0 if m + 2 < k else 1, m + 2, u], effect[0 if m + 3 < k else 1, m + 3, u]
            if m == 0:
                for r in range(count):
                    out[r] = a * e[r] + b * f[r] + c * g[r] + d * h[r]
            else:
                for r in range(count):
                    out[r] += a * e[r] + b * f[r] + c * g[r] + d * h[r]


@vector_helper
def _curve(product: bool, count: int, plain: Floats, shift: float, values: Floats) -> None:
    """Replace pair parts (A, R) by values of the link."""
    for u in range(values.shape[0]):
        out, own = values[u], plain[u]
        if product:
            for r in range(count):
                out[r] = min(max(out[r], -LARGEST), LARGEST)
            exponential(out, count)
            for r in range(count):
                out[r] *= own[r] + shift
        else:
            for r in range(count):
                out[r] += own[r] + shift
            sigmoid(out, count)


@vector_helper
def _add_means(count: int, share: float, chance: Floats, values: Floats, out: Floats) -> None:
    """Add to out (R,) the share of the values (A, R) summed over own actions by their chance."""
    for u in range(values.shape[0]):
        for r in range(count):
            out[r] += share * chance[u, r] * values[u, r]


@jit
def curved_means(
    product: bool, draws: Ints, lengths: Ints, fold: Ints, x: Floats, scale: Floats, wanted: Floats, own: Floats,
    shift: Floats, examined: Floats, pair: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) with averages over drawn rankings (n, S, K), the own action summed out over
    wanted (n, ., A).
    """
    n, size, K = draws.shape
    places, A = wanted.shape[1], wanted.shape[2]
    plain, seen, chance = np.empty((A, _ROWS)), np.empty((2, _ROWS)), np.empty((places, A, _ROWS))
    effect, values, means = (
        np.zeros((2, (K + 3) // 4 * 4, A, _ROWS)),
        np.empty((A, _ROWS)),
        np.empty((K, _ROWS)),
    )
    drawn, order = np.empty(_ROWS, np.int64), np.empty(n, np.int64)
    others, padded = np.zeros((K, effect.shape[1])), np.zeros((A, A + 1))
    for k in range(K):
        # The own position has examination zero, so no loop over others needs a test.
        others[k, :k], others[k, k + 1 : K] = examined[k, :k], examined[k, k + 1 :]
    starts = grouped(fold, own.shape[0], order, 0)
    for f in range(own.shape[0]):
        padded[:, :A] = pair[f]
        for first in range(starts[f], starts[f + 1], _ROWS):
            rows = order[first : min(first + _ROWS, starts[f + 1])]
            count = rows.shape[0]
            _gather(rows, x, scale, wanted, own[f], plain, seen, chance)
            means[:] = 0.0
            for s in range(size):
                _effects(rows, s, draws, seen, padded, drawn, effect)
                for k in range(K):
                    _linear(count, k, others, effect, values)
                    _curve(product, count, plain, shift[f, k], values)
                    _add_means(count, 1.0 / size, chance[min(k, places - 1)], values, means[k])
            for r in range(count):
                for k in range(min(K, lengths[rows[r]])):
                    out[rows[r], k] += means[k, r]
