"""Gram matrices by fold, position and own action: all that ridge and projected weights need, in one pass."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.gram_products import add_products, dot
from counterrank.kernels.jit import jit
from counterrank.kernels.regress_features import ROWS, expected, grouped, logged, room, sorted_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Blocks with fewer rows are filled up with zeros to a multiple of this.
_STEP = 32


@jit
def _unpack(whole: Floats, gram: Floats, cover: Floats, square: Floats) -> None:
    """Add the lower triangle of whole, (z, r)(z, r)', to a full gram (D, D), cover (D,) and square (1,)."""
    width = cover.shape[0]
    for p in range(width):
        for q in range(p):
            gram[p, q] += whole[p, q]
            gram[q, p] += whole[p, q]
        gram[p, p] += whole[p, p]
        cover[p] += whole[width, p]
    square[0] += whole[width, width]


@jit
def _weigh(rows: Ints, k: int, reward: Floats, weight: Floats, width: int, columns: Floats) -> None:
    """Put r_k in the column after the features, scale all by sqrt(weight), and clear what no row fills."""
    used = rows.shape[0]
    plain = True
    for at in range(used):
        columns[width, at] = reward[rows[at], k]
        plain = plain and weight[rows[at], k] == 1.0
    if not plain:
        root = np.empty(used)
        for at in range(used):
            root[at] = np.sqrt(weight[rows[at], k])
        for p in range(width + 1):
            for at in range(used):
                columns[p, at] *= root[at]
    columns[:, used:] = 0.0


@jit
def add_grams(
    action: Ints, lengths: Ints, fold: Ints, reward: Floats, weight: Floats,
    x: Floats, centre: Floats, logging: Floats, slots: Ints, cross: bool, squares: int,
    gram: Floats, cover: Floats, square: Floats,
) -> None:  # fmt: skip
    """Add weighted second moments of the features.

    IN  action, reward, weight (n, K), weights not negative; fold (n,); x (n, d+1); centre (n, A);
        logging (n, 1 or K, A).
    OUT gram (F, K, A, D, D): sum v z z' over rows of the fold with a_k = u; cover (F, K, A, D): sum v z r_k;
        square (F, K, A): sum v r_k^2.
    """
    n, A, width = action.shape[0], centre.shape[1], gram.shape[3]
    size = (width + 4) // 4 * 4  # features and the reward, in fours
    scratch, columns, whole = room(A), np.zeros((size, ROWS)), np.zeros((size, size))
    at_a_time = sorted_rows(gram.shape[0] * A)
    key, order = np.empty(at_a_time, np.int64), np.empty(at_a_time, np.int64)
    for step in range((n + at_a_time - 1) // at_a_time * action.shape[1]):
        begin, k = step // action.shape[1] * at_a_time, step % action.shape[1]
        stop = min(begin + at_a_time, n)
        for i in range(begin, stop):
            used = k < lengths[i] and weight[i, k] != 0.0
            key[i - begin] = fold[i] * A + action[i, k] if used else -1
        starts = grouped(key[: stop - begin], gram.shape[0] * A, order, begin)
        for g in range(gram.shape[0] * A):
            if starts[g] == starts[g + 1]:
                continue
            whole[:] = 0.0
            for first in range(starts[g], starts[g + 1], ROWS):
                rows = order[first : min(first + ROWS, starts[g + 1])]
                logged(
                    rows, action, lengths, x, centre, logging, k, slots, cross, squares, columns[:width], scratch
                )  # fmt: skip
                _weigh(rows, k, reward, weight, width, columns)
                add_products(columns, (rows.shape[0] + _STEP - 1) // _STEP * _STEP, whole)
            f, u = g // A, g % A
            _unpack(whole, gram[f, k, u], cover[f, k, u], square[f, k, u : u + 1])


@jit
def add_means(
    lengths: Ints, fold: Ints, x: Floats, centre: Floats, logging: Floats, target: Floats,
    slots: Ints, cross: bool, squares: int, out: Floats,
) -> None:  # fmt: skip
    """Add pi(u at k|x) E_pi[z | a_k = u] to out (F, K, A, D): what balancing weights must reproduce."""
    n, A, width = lengths.shape[0], centre.shape[1], out.shape[3]
    scratch, columns, chance = room(A), np.zeros((width, ROWS)), np.zeros(ROWS)
    key, order = np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(out.shape[1]):
        for i in range(n):
            key[i] = fold[i] if k < lengths[i] else -1
        starts = grouped(key, out.shape[0], order)
        for f in range(out.shape[0]):
            for first in range(starts[f], starts[f + 1], ROWS):
                rows = order[first : min(first + ROWS, starts[f + 1])]
                expected(rows, target, lengths, x, centre, logging, k, slots, cross, squares, columns, scratch)
                for u in range(A):
                    for at in range(rows.shape[0]):
                        chance[at] = target[rows[at], 0 if target.shape[1] == 1 else k, u]
                    for p in range(width):
                        out[f, k, u, p] += dot(chance, columns[p], rows.shape[0])
