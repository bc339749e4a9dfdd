"""Gram matrices by fold, position and own action, and of a ranking's summed features, in one pass
each.

Products of columns are summed in tiles that stay in registers. Those of summed features
(`add_totals`) are what noise common to a ranking's positions needs.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.fill import fill
from counterrank.kernels.jit import helper, jit, vector_helper, vector_jit
from counterrank.models.kernels.regress_features import ROWS, grouped, logged, room, sorted_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Blocks with fewer rows are filled up with zeros to a multiple of this.
_STEP = 32


@vector_helper
def dot(left: Floats, right: Floats, count: int) -> float:
    """Return the sum of products of the first `count` entries."""
    total = 0.0
    for i in range(count):
        total += left[i] * right[i]
    return total


@vector_helper
def add_scaled(values: Floats, scale: float, count: int, out: Floats) -> None:
    """Add scale * values to the first `count` entries of out."""
    for j in range(count):
        out[j] += scale * values[j]


@vector_jit
def four_by_four(left: Floats, right: Floats, count: int, out: Floats) -> None:
    """Fill out (4, 4) with left (4, R) @ right (4, R)': eight loads serve sixteen sums."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    e, f, g, h = 0.0, 0.0, 0.0, 0.0
    j, k, m, n = 0.0, 0.0, 0.0, 0.0
    o, p, q, r = 0.0, 0.0, 0.0, 0.0
    for i in range(count):
        t, u, v, w = left[0, i], left[1, i], left[2, i], left[3, i]
        x, y, z, s = right[0, i], right[1, i], right[2, i], right[3, i]
        a += t * x
        b += t * y
        c += t * z
        d += t * s
        e += u * x
        f += u * y
        g += u * z
        h += u * s
        j += v * x
        k += v * y
        m += v * z
        n += v * s
        o += w * x
        p += w * y
        q += w * z
        r += w * s
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = a, b, c, d
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = e, f, g, h
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = j, k, m, n
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = o, p, q, r


@jit
def add_products(columns: Floats, count: int, matrix: Floats) -> None:
    """Add columns @ columns' over the first `count` rows (D, R) to the lower triangle of matrix (D,
    D).

    The number of columns must be a multiple of four.
    """
    tile = np.empty((4, 4))
    for p in range(0, columns.shape[0], 4):
        left = columns[p : p + 4]
        for q in range(0, p + 1, 4):
            four_by_four(left, columns[q : q + 4], count, tile)
            for s in range(4):
                for t in range(4):
                    matrix[p + s, q + t] += tile[s, t]


@helper
def _unpack(whole: Floats, gram: Floats, cover: Floats, square: Floats) -> None:
    """Add the lower triangle of whole, (z, r)(z, r)', to a full gram (D, D), cover (D,) and square
    (1,).
    """
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
    """Put r_k in the column after the features, scale all by sqrt(weight), and clear what no row
    fills.
    """
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
    OUT gram (F, K, A, D, D): sum v z z' over rows of the fold with a_k = u; cover (F, K, A, D): sum
        v z r_k; square (F, K, A): sum v r_k^2.
    """
    n, A, width = action.shape[0], centre.shape[1], gram.shape[3]
    # Rankings are sorted by (fold, own action) first: each group is then a plain matrix product, in
    # which nothing is looked up.
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
def add_totals(
    action: Ints, lengths: Ints, fold: Ints, reward: Floats, x: Floats, centre: Floats,
    gram: Floats, cover: Floats, square: Floats,
) -> None:  # fmt: skip
    """Add s s', s R and R^2 with R = sum_k r_k and s = sum_k z_k, to lower triangles by fold.

    z_k lives in a space with one block of p = d+1+2A columns for each own action, [x, counts above
    and below less their logging means], and one intercept for each (position, own action): gram (F,
    S, S) with S = A p + K A.
    """
    n, length = action.shape
    width, A = x.shape[1], centre.shape[1]
    p = width + 2 * A
    size = gram.shape[1]
    s = np.zeros(size)
    for i in range(n):
        fill(s, 0.0)
        total = 0.0
        for k in range(lengths[i]):
            u = action[i, k]
            total += reward[i, k]
            first = u * p
            for j in range(width):
                s[first + j] += x[i, j]
            for b in range(A):
                s[first + width + b] -= k * centre[i, b]
                s[first + width + A + b] -= (length - 1 - k) * centre[i, b]
            for other in range(lengths[i]):
                if other != k:
                    s[first + width + (A if other > k else 0) + action[i, other]] += 1.0
            s[A * p + k * A + u] += 1.0
        matrix = gram[fold[i]]
        for j in range(size):
            # Most own-action blocks are empty in a ranking: s is sparse.
            if s[j] != 0.0:
                add_scaled(s, s[j], j + 1, matrix[j])
        add_scaled(s, total, size, cover[fold[i]])
        square[fold[i]] += total * total
