"""Linear and logistic reward models on the logged rankings, and their means under a target policy."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.fill import fill
from counterrank.kernels.hashing import mix
from counterrank.kernels.jit import jit, vector_helper
from counterrank.models.kernels.regress_features import ROWS, expected, grouped, logged, room
from counterrank.models.kernels.sigmoid import sigmoid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@vector_helper
def combine(columns: Floats, coef: Floats, out: Floats) -> None:
    """Fill out (R,) with columns' coef for columns (D, R)."""
    fill(out, 0.0)
    for p in range(columns.shape[0]):
        column, scale = columns[p], coef[p]
        for at in range(ROWS):
            out[at] += scale * column[at]


@jit
def at_logged(
    action: Ints, lengths: Ints, fold: Ints, x: Floats, centre: Floats, logging: Floats,
    slots: Ints, cross: bool, squares: int, coef: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (S, n, K) with z' coef[s, fold, k, a_k] for S sets of coefficients (S, F, K, A, D)."""
    n, A, width = action.shape[0], centre.shape[1], coef.shape[4]
    scratch, columns, total = room(A), np.zeros((width, ROWS)), np.zeros(ROWS)
    key, order = np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(action.shape[1]):
        for i in range(n):
            key[i] = fold[i] * A + action[i, k] if k < lengths[i] else -1
        starts = grouped(key, coef.shape[1] * A, order, 0)
        for g in range(coef.shape[1] * A):
            for first in range(starts[g], starts[g + 1], ROWS):
                rows = order[first : min(first + ROWS, starts[g + 1])]
                logged(
                    rows,
                    action,
                    lengths,
                    x,
                    centre,
                    logging,
                    k,
                    slots,
                    cross,
                    squares,
                    columns,
                    scratch,
                )
                for s in range(coef.shape[0]):
                    combine(columns, coef[s, g // A, k, g % A], total)
                    for at in range(rows.shape[0]):
                        out[s, rows[at], k] = total[at]


@jit
def mean_under(
    lengths: Ints, fold: Ints, x: Floats, centre: Floats, logging: Floats, target: Floats,
    slots: Ints, cross: bool, squares: int, coef: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) with sum_u pi(u at k|x) E_pi[z|x]' coef[fold, k, u]: exact for independent
    positions.

    With one distribution for all positions, one block and no padding all positions see the same
    columns.
    """
    n, A, width = lengths.shape[0], centre.shape[1], coef.shape[3]
    scratch, columns, total = room(A), np.zeros((width, ROWS)), np.zeros(ROWS)
    order = np.empty(n, np.int64)
    alike = (
        target.shape[1] == 1
        and logging.shape[1] == 1
        and slots.max() == 0
        and lengths.min() == out.shape[1]
    )
    starts = grouped(fold, coef.shape[0], order, 0)
    for f in range(coef.shape[0]):
        for first in range(starts[f], starts[f + 1], ROWS):
            rows = order[first : min(first + ROWS, starts[f + 1])]
            for k in range(out.shape[1]):
                if k == 0 or not alike:
                    expected(
                        rows,
                        target,
                        lengths,
                        x,
                        centre,
                        logging,
                        k,
                        slots,
                        cross,
                        squares,
                        columns,
                        scratch,
                    )
                for u in range(A):
                    combine(columns, coef[f, k, u], total)
                    for at in range(rows.shape[0]):
                        i = rows[at]
                        if k < lengths[i]:
                            out[i, k] += target[i, 0 if target.shape[1] == 1 else k, u] * total[at]


@jit
def draw_rankings(dist: Floats, lengths: Ints, row_id: Ints, seed: int, out: Ints) -> None:
    """Fill out (n, S, K) with draws from dist (n, 1 or K, A); the randomness is a hash of seed,
    row, draw, position.

    Chunks and threads therefore do not change the draws.
    """
    n, draws, length = out.shape
    A = dist.shape[2]
    shared = dist.shape[1] == 1
    scale = 1.0 / 9007199254740992.0
    for i in range(n):
        # A counter-based stream a row: rows can be drawn in any order, by any thread.
        state = mix(np.uint64(row_id[i]) ^ mix(np.uint64(seed)))
        for s in range(draws):
            for k in range(length):
                if k >= lengths[i]:
                    out[i, s, k] = -1
                    continue
                state = mix(state)
                left = float(state >> np.uint64(11)) * scale
                row = dist[i, 0 if shared else k]
                choice = A - 1
                for a in range(A):
                    left -= row[a]
                    if left < 0.0:
                        choice = a
                        break
                # Rounding can leave a sliver above the sum: it belongs to the last possible action.
                while row[choice] <= 0.0 and choice > 0:
                    choice -= 1
                out[i, s, k] = choice


@jit
def mean_of_draws(
    draws: Ints, lengths: Ints, fold: Ints, x: Floats, centre: Floats, logging: Floats,
    slots: Ints, cross: bool, squares: int, own: Floats, coef: Floats, logistic: Ints, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) with the mean over drawn rankings (n, S, K) of the model, sigmoid of it where
    logistic[k].

    own (n, 1 or K, A): the own action is summed out with these probabilities instead of being
    drawn; an array with no columns (n, 1, 0) uses the drawn own action.
    """
    n, size, length = draws.shape
    A, width = centre.shape[1], coef.shape[3]
    scratch, columns, total = room(A), np.zeros((width, ROWS)), np.zeros(ROWS)
    order = np.empty(n, np.int64)
    exact, shared = own.shape[2] > 0, own.shape[1] == 1
    starts = grouped(fold, coef.shape[0], order, 0)
    for s in range(size):
        action = draws[:, s]
        for f in range(coef.shape[0]):
            for first in range(starts[f], starts[f + 1], ROWS):
                rows = order[first : min(first + ROWS, starts[f + 1])]
                for k in range(length):
                    logged(
                        rows,
                        action,
                        lengths,
                        x,
                        centre,
                        logging,
                        k,
                        slots,
                        cross,
                        squares,
                        columns,
                        scratch,
                    )
                    for u in range(A):
                        combine(columns, coef[f, k, u], total)
                        if logistic[k]:
                            sigmoid(total, ROWS)
                        for at in range(rows.shape[0]):
                            i = rows[at]
                            if k < lengths[i] and (exact or action[i, k] == u):
                                p = own[i, 0 if shared else k, u] if exact else 1.0
                                out[i, k] += p * total[at] / size


@jit
def cascade_means(
    action: Ints, lengths: Ints, fold: Ints, x: Floats, centre: Floats, target: Floats,
    slots: Ints, coef: Floats, mean: Floats, known: Floats,
) -> None:  # fmt: skip
    """Fill mean (n, K) with E_pi q_k and known (n, K) with E_pi[q_k | a_1..a_k], items below k
    averaged.

    Indicator blocks only: no cross and no square columns.
    """
    n = action.shape[0]
    A, width = centre.shape[1], x.shape[1]
    dense = width + A
    shared = target.shape[1] == 1
    for i in range(n):
        used = lengths[i]
        for k in range(used):
            own = target[i, 0 if shared else k]
            mean[i, k] = 0.0
            for u in range(A):
                shown = u == action[i, k]
                if own[u] <= 0.0 and not shown:
                    continue
                row = coef[fold[i], k, u]
                base = 0.0
                for j in range(width):
                    base += x[i, j] * row[j]
                for j in range(A):
                    base += centre[i, j] * row[width + j]
                given = base
                for other in range(used):
                    if other == k:
                        continue
                    p = target[i, 0 if shared else other]
                    first = dense + slots[k, other] * A
                    average = 0.0
                    for b in range(A):
                        average += p[b] * row[first + b]
                    base += average
                    # Items below k are averaged, those above are known.
                    given += row[first + action[i, other]] if other < k else average
                mean[i, k] += own[u] * base
                if shown:
                    known[i, k] = given
