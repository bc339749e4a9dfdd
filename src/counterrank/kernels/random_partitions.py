"""What growth by random partitions does at a node: cut points, sums on both sides, the best pair of models."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.int32]
Codes = NDArray[np.uint16]

#: Cuts that are located together: a row then belongs to one of at most 2^10 cells, whose sums stay in the first cache.
_TOGETHER = 10
#: Bins a feature is cut into to find cells by table; a table of every feature fits into the first cache.
BINS = 1024
_UNSURE = 1 << 20


@jit
def cuts(order: Rows, start: int, stop: int, context: Floats, features: Ints, shares: Floats) -> Floats:
    """Return the midpoints (S,) between the values around rank share * count, of rows listed in rising order (d, n)."""
    out = np.empty(features.shape[0])
    count = stop - start
    for s in range(features.shape[0]):
        f = features[s]
        rank = min(max(int(shares[s] * count), 1), count - 1)
        out[s] = (context[order[f, start + rank - 1], f] + context[order[f, start + rank], f]) / 2.0
    return out


@jit
def bin_codes(context: Floats, low: Floats, scale: Floats) -> Codes:
    """Return bins (n, d) of equal width that never fall as the value rises; values outside go to the outermost."""
    n, d = context.shape
    out = np.empty((n, d), np.uint16)
    for i in range(n):
        for f in range(d):
            out[i, f] = _bin(context[i, f], low[f], scale[f])
    return out


@jit
def _bin(value: float, low: float, scale: float) -> int:
    place = (value - low) * scale
    if place < 0.0:
        return 0
    return int(place) if place < BINS else BINS - 1


@jit
def left_sums(
    values: Floats, place: tuple[Floats, Codes, Floats, Floats], rows: Rows, features: Ints, threshold: Floats
) -> Floats:
    """Return the sums (S + 1, L) of values (n, L) over rows left of each cut, then over all rows.

    `place` = context (n, d), its bins (n, d), and their low ends and scales (d,); `features` (S,) are in rising order.
    A row is put into one cell of the grid of cuts, and the cells are added up. Which cell follows from its bins, but
    for rows in the very bin of a cut.
    """
    S, L = features.shape[0], values.shape[1]
    out = np.zeros((S + 1, L))
    for first in range(0, S, _TOGETHER):
        last = min(first + _TOGETHER, S)
        step, cells = _steps(features[first:last])
        sums = np.zeros((cells, L))
        _add_to_cells(values, place, rows, (features[first:last], threshold[first:last], step), sums)
        _gather(sums, step, features[first:last], threshold[first:last], out[first:last])
        if first == 0:
            for cell in range(cells):
                out[S] += sums[cell]
    return out


@jit
def _steps(features: Ints) -> tuple[Ints, int]:
    """Return what passing each cut adds to the number of the cell (S,), and the number of cells."""
    S = features.shape[0]
    step = np.empty(S, np.int64)
    cells, at = 1, 0
    while at < S:
        end = at
        while end < S and features[end] == features[at]:
            step[end] = cells
            end += 1
        cells *= end - at + 1
        at = end
    return step, cells


@jit
def _add_to_cells(
    values: Floats,
    place: tuple[Floats, Codes, Floats, Floats],
    rows: Rows,
    grid: tuple[Ints, Floats, Ints],
    sums: Floats,
) -> None:
    context, codes, low, scale = place
    features, threshold, step = grid
    d, S = codes.shape[1], features.shape[0]
    passed = np.zeros((d, BINS), np.int32)
    for s in range(S):
        f = features[s]
        own = _bin(threshold[s], low[f], scale[f])
        passed[f, own] |= _UNSURE
        for c in range(own + 1, BINS):
            passed[f, c] += step[s]
    for j in range(rows.shape[0]):
        i = rows[j]
        cell = 0
        for f in range(d):
            cell += passed[f, codes[i, f]]
        if cell >= _UNSURE:
            cell = 0
            for s in range(S):
                cell += step[s] * (context[i, features[s]] >= threshold[s])
        for c in range(sums.shape[1]):
            sums[cell, c] += values[i, c]


@jit
def _gather(sums: Floats, step: Ints, features: Ints, threshold: Floats, out: Floats) -> None:
    """Add up the cells (cells, L) left of each cut into out (S, L)."""
    S, L = out.shape
    at = 0
    while at < S:
        end = at
        while end < S and features[end] == features[at]:
            end += 1
        between = np.zeros((end - at + 1, L))  # sums between neighbouring cuts of this feature
        for cell in range(sums.shape[0]):
            place = (cell // step[at]) % (end - at + 1)
            for c in range(L):
                between[place, c] += sums[cell, c]
        for s in range(at, end):
            below = 0
            for other in range(at, end):
                below += threshold[other] < threshold[s]
            for place in range(below + 1):
                for c in range(L):
                    out[s, c] += between[place, c]
        at = end


@jit
def best_pair(
    logged: Floats, fresh: Floats, base: Floats, sizes: Floats, goal: Floats, normal: Floats, best: float
) -> tuple[float, int, int, int]:
    """Return the least score not above `best`, its cut, left and right model; cut -1 when every score is above.

    `logged` (S + 1, 2 M): left sums of y and of its squares, the last row those of the node; `fresh` (S + 1, M) the
    sums of y over simulated rows; base (3,) the same three of all other nodes; sizes (2,) rows of both kinds;
    goal (4,) = value, least variance, noise, 1 when an equal score counts as better; normal (S, M, M).
    """
    S, M = fresh.shape[0] - 1, fresh.shape[1]
    chosen, left, right = -1, -1, -1
    for s in range(S):
        here, a0, b0 = np.inf, 0, 0
        for a in range(M):
            for b in range(M):
                total = base[0] + logged[s, a] + logged[S, b] - logged[s, b]
                square = base[1] + logged[s, M + a] + logged[S, M + b] - logged[s, M + b]
                mean = (base[2] + fresh[s, a] + fresh[S, b] - fresh[s, b]) / sizes[1]
                value = score(total, square, mean, sizes[0], goal, normal[s, a, b])
                if value < here:
                    here, a0, b0 = value, a, b
        if here < best or (here == best and goal[3] > 0.0):
            best, chosen, left, right = here, s, a0, b0
    return best, chosen, left, right


@jit
def score(total: float, square: float, mean: float, n: float, goal: Floats, normal: float) -> float:
    """Return variance + squared bias: of the sum and sum of squares over n rows, and of a simulated mean with noise."""
    variance = (square - total * total / n) / (n - 1.0) / n
    bias = mean - goal[0]
    bias += abs(bias) * goal[2] * normal
    return max(variance, goal[1]) + bias * bias


@jit
def divide(rows: Rows, context: Floats, feature: int, threshold: float, spare: Rows) -> int:
    """Put the rows below the threshold first, both sides in their old order; return how many they are."""
    left, right = 0, 0
    for j in range(rows.shape[0]):
        i = rows[j]
        goes = context[i, feature] < threshold
        rows[left] = i  # never ahead of what has been read
        spare[right] = i
        left += goes
        right += not goes
    rows[left : left + right] = spare[:right]
    return left
