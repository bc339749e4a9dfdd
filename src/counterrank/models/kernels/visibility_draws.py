"""The curved visibility model's mean under a target: all positions and own actions of drawn rankings at once.

Rows of one fold share their parameters; blocks of them are held column by column, so that loops run over consecutive
rows and vectorise however few positions and actions there are.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit
from counterrank.kernels.regress_features import grouped
from counterrank.kernels.sigmoid import exponential, sigmoid
from counterrank.models.kernels.visibility_rows import LARGEST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rows of one block.
_ROWS = 64


@vector_jit
def _gather(
    rows: Ints, x: Floats, scale: Floats, wanted: Floats, own: Floats, plain: Floats, seen: Floats, chance: Floats
) -> None:  # fmt: skip
    """Fill plain (A, R) with x' own of each action, seen (2, R) with the scale, and chance (., A, R) as wanted."""
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


@vector_jit
def _effects(rows: Ints, s: int, draws: Ints, seen: Floats, pair: Floats, drawn: Ints, effect: Floats) -> None:
    """Fill effect (2, K.., A, R): pair effect of each position's drawn action on each own action, seen above, below.

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


@vector_jit
def _linear(count: int, k: int, sight: Floats, effect: Floats, values: Floats) -> None:
    """Fill values (A, R) with the pair part of each own action at position k: four others at a time."""
    row = sight[k]
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


@vector_jit
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


@vector_jit
def _add_means(count: int, share: float, chance: Floats, values: Floats, out: Floats) -> None:
    """Add to out (R,) the share of the values (A, R) summed over own actions by their chance."""
    for u in range(values.shape[0]):
        for r in range(count):
            out[r] += share * chance[u, r] * values[u, r]


@jit
def curved_means(
    product: bool, draws: Ints, lengths: Ints, fold: Ints, x: Floats, scale: Floats, wanted: Floats, own: Floats,
    shift: Floats, sight: Floats, pair: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) with averages over drawn rankings (n, S, K), the own action summed out over wanted (n, ., A)."""
    n, size, K = draws.shape
    places, A = wanted.shape[1], wanted.shape[2]
    plain, seen, chance = np.empty((A, _ROWS)), np.empty((2, _ROWS)), np.empty((places, A, _ROWS))
    effect, values, means = np.zeros((2, (K + 3) // 4 * 4, A, _ROWS)), np.empty((A, _ROWS)), np.empty((K, _ROWS))
    drawn, order = np.empty(_ROWS, np.int64), np.empty(n, np.int64)
    others, padded = np.zeros((K, effect.shape[1])), np.zeros((A, A + 1))
    for k in range(K):
        others[k, :k], others[k, k + 1 : K] = sight[k, :k], sight[k, k + 1 :]
    starts = grouped(fold, own.shape[0], order)
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
