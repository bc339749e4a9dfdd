"""Linear and logistic reward models on the logged rankings, and their means under a target policy."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.hashing import mix
from counterrank.kernels.jit import jit, vector_jit
from counterrank.kernels.regress_features import expected, logged

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@vector_jit
def _dot(left: Floats, right: Floats, count: int) -> float:
    total = 0.0
    for j in range(count):
        total += left[j] * right[j]
    return total


@jit
def _indicators_at_logged(
    action: Ints, lengths: Ints, fold: Ints, x: Floats, centre: Floats, slots: Ints, coef: Floats, out: Floats,
) -> None:  # fmt: skip
    """Like `at_logged` without cross and square columns: indicators are looked up instead of multiplied."""
    A, width = centre.shape[1], x.shape[1]
    for s in range(coef.shape[0]):
        for i in range(action.shape[0]):
            for k in range(lengths[i]):
                row = coef[s, fold[i], k, action[i, k]]
                total = 0.0
                for j in range(width):
                    total += x[i, j] * row[j]
                for b in range(A):
                    total += centre[i, b] * row[width + b]
                for other in range(lengths[i]):
                    if other != k:
                        total += row[width + A + slots[k, other] * A + action[i, other]]
                out[s, i, k] = total


@jit
def at_logged(
    action: Ints, lengths: Ints, fold: Ints, x: Floats, centre: Floats, logging: Floats,
    slots: Ints, cross: bool, squares: int, coef: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (S, n, K) with z' coef[s, fold, k, a_k] for S sets of coefficients (S, F, K, A, D)."""
    n = action.shape[0]
    A, sets, width = centre.shape[1], coef.shape[0], coef.shape[4]
    z, scratch = np.zeros(width), np.zeros((A + 2, A))
    if not cross and squares == 0:
        _indicators_at_logged(action, lengths, fold, x, centre, slots, coef, out)
        return
    for i in range(n):
        for k in range(lengths[i]):
            logged(action[i], x[i], centre[i], logging[i], k, lengths[i], slots, cross, squares, z, scratch)
            for s in range(sets):
                row = coef[s, fold[i], k, action[i, k]]
                out[s, i, k] = _dot(z, row, width)


@jit
def mean_under(
    lengths: Ints, fold: Ints, x: Floats, centre: Floats, logging: Floats, target: Floats,
    slots: Ints, cross: bool, squares: int, coef: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (n, K) with sum_u pi(u at k|x) E_pi[z|x]' coef[fold, k, u]: exact for independent positions."""
    n = lengths.shape[0]
    A, width = centre.shape[1], coef.shape[3]
    z, scratch = np.zeros(width), np.zeros((A + 2, A))
    shared = target.shape[1] == 1
    for i in range(n):
        for k in range(lengths[i]):
            expected(target[i], x[i], centre[i], logging[i], k, lengths[i], slots, cross, squares, z, scratch)
            p = target[i, 0 if shared else k]
            total = 0.0
            for u in range(A):
                if p[u] > 0.0:
                    total += p[u] * _dot(z, coef[fold[i], k, u], width)
            out[i, k] = total


@jit
def draw_rankings(dist: Floats, lengths: Ints, row_id: Ints, seed: int, out: Ints) -> None:
    """Fill out (n, S, K) with draws from dist (n, 1 or K, A); the randomness is a hash of seed, row, draw, position.

    Chunks and threads therefore do not change the draws.
    """
    n, draws, length = out.shape
    A = dist.shape[2]
    shared = dist.shape[1] == 1
    scale = 1.0 / 9007199254740992.0
    for i in range(n):
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
    """Fill out (n, K) with the mean over drawn rankings (n, S, K) of the model, sigmoid of it where logistic[k].

    own (n, 1 or K, A): the own action is summed out with these probabilities instead of being drawn; an array with
    no columns (n, 1, 0) uses the drawn own action.
    """
    n, size, _ = draws.shape
    A, width = centre.shape[1], coef.shape[3]
    z, scratch = np.zeros(width), np.zeros((A + 2, A))
    exact = own.shape[2] > 0
    shared = own.shape[1] == 1
    for i in range(n):
        for k in range(lengths[i]):
            total = 0.0
            for s in range(size):
                logged(draws[i, s], x[i], centre[i], logging[i], k, lengths[i], slots, cross, squares, z, scratch)
                first = 0 if exact else draws[i, s, k]
                last = A if exact else first + 1
                for u in range(first, last):
                    p = own[i, 0 if shared else k, u] if exact else 1.0
                    if p <= 0.0:
                        continue
                    inner = _dot(z, coef[fold[i], k, u], width)
                    total += p * (0.5 * (1.0 + np.tanh(0.5 * inner)) if logistic[k] else inner)
            out[i, k] = total / size


@jit
def cascade_terms(
    action: Ints, lengths: Ints, fold: Ints, x: Floats, centre: Floats, target: Floats,
    slots: Ints, coef: Floats, prefix: Floats, out: Floats, before: Floats,
) -> None:  # fmt: skip
    """Fill what Cascade-DR adds to the weighted residual at each position.

    out (n, K): E_pi q_k + sum_{j<k} w_{1:j} (q_k^(j) - q_k^(j-1)), where q_k^(j) = E_pi[q_k | a_1..a_j];
    before (n, K): q_k^(k-1), the model's mean given the items above k. prefix (n, K) holds w_{1:j}. Indicator
    blocks only: no cross and no square columns.
    """
    n = action.shape[0]
    A, width = centre.shape[1], x.shape[1]
    dense = width + A
    shared = target.shape[1] == 1
    steps = np.zeros(action.shape[1])
    for i in range(n):
        used = lengths[i]
        for k in range(used):
            own = target[i, 0 if shared else k]
            level = 0.0
            steps[:] = 0.0
            for u in range(A):
                if own[u] <= 0.0:
                    continue
                row = coef[fold[i], k, u]
                base = 0.0
                for j in range(width):
                    base += x[i, j] * row[j]
                for j in range(A):
                    base += centre[i, j] * row[width + j]
                for other in range(used):
                    if other == k:
                        continue
                    p = target[i, 0 if shared else other]
                    first = dense + slots[k, other] * A
                    mean = 0.0
                    for b in range(A):
                        mean += p[b] * row[first + b]
                    base += mean
                    if other < k:
                        steps[other] += own[u] * (row[first + action[i, other]] - mean)
                level += own[u] * base
            total, known = level, level
            for other in range(k):
                total += prefix[i, other] * steps[other]
                known += steps[other]
            out[i, k] = total
            before[i, k] = known
