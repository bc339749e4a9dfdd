"""What Algorithm 1 does at a node: cut points, sums on both sides, the best pair of models."""

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats, Ints
from counterrank.kernels.jit import jit

Rows = NDArray[np.int32]
Codes = NDArray[np.uint16]
#: One array of rows seen as single-precision numbers, as half words and as whole words.
Records = tuple[NDArray[np.float32], Codes, Rows]
#: Cuts that are located together: a row then belongs to one of at most 2^10 cells, whose sums stay
#: in the first cache.
_TOGETHER = 10
#: Bins a feature is cut into to find cells by table; a table of every feature fits into the first
#: cache.
BINS = 1024
#: Above the number of any cell: one comparison finds the rows whose cell the table cannot tell.
_UNSURE = 1 << 20


@jit
def cuts(
    order: Rows, start: int, stop: int, context: Floats, features: Ints, shares: Floats
) -> Floats:
    """Return the midpoints (S,) between the values around rank share * count.

    Rows are listed in rising order (d, n).
    """
    out = np.empty(features.shape[0])
    count = stop - start
    for s in range(features.shape[0]):
        f = features[s]
        # A row on either side: there is no midpoint before the first or after the last.
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
    values: Floats,
    place: tuple[Floats, Codes, Floats, Floats],
    rows: Rows,
    features: Ints,
    threshold: Floats,
) -> Floats:
    """Return the sums (S + 1, L) of values (n, L) over rows left of each cut, then over all rows.

    `place` = context (n, d), its bins (n, d), and their low ends and scales (d,); `features` (S,)
    are in rising order. A row is put into one cell of the grid of cuts, and the cells are added up.
    Which cell follows from its bins, but for rows in the very bin of a cut.
    """
    S, L = features.shape[0], values.shape[1]
    context, codes, low, scale = place
    out = np.zeros((S + 1, L))
    for first in range(0, S, _TOGETHER):
        some, cut = features[first : first + _TOGETHER], threshold[first : first + _TOGETHER]
        step, cells = _steps(some)
        passed = _table(some, cut, step, low, scale)
        sums = np.zeros((cells, L))
        for j in range(rows.shape[0]):
            i = rows[j]
            cell = 0
            for f in range(codes.shape[1]):
                cell += passed[f, codes[i, f]]
            if cell >= _UNSURE:
                # Bins are monotone, so all but the bin of a cut tell the side; values are compared
                # there alone.
                cell = _exact_cell(context, i, some, cut, step)
            for c in range(L):
                sums[cell, c] += values[i, c]
        _gather(sums, step, some, cut, out[first : first + len(some)])
        if first == 0:
            _add_up(sums, out[S])
    return out


@jit
def left_sums_of_records(
    records: Records,
    M: int,
    place: tuple[Floats, Codes, Floats, Floats],
    features: Ints,
    threshold: Floats,
) -> Floats:
    """Return `left_sums` (S + 1, M) of neighbouring records instead of listed rows."""
    S = features.shape[0]
    values, halves, words = records
    context, codes, low, scale = place
    width = words.shape[1]
    out = np.zeros((S + 1, M))
    for first in range(0, S, _TOGETHER):
        some, cut = features[first : first + _TOGETHER], threshold[first : first + _TOGETHER]
        step, cells = _steps(some)
        passed = _table(some, cut, step, low, scale)
        sums = np.zeros((cells, M))
        for j in range(values.shape[0]):
            # Written out as in `left_sums`: a call for each row takes about twice as long.
            cell = 0
            for f in range(codes.shape[1]):
                cell += passed[f, halves[j, 2 * M + f]]
            if cell >= _UNSURE:
                cell = _exact_cell(context, words[j, width - 1], some, cut, step)
            for c in range(M):
                sums[cell, c] += values[j, c]
        _gather(sums, step, some, cut, out[first : first + len(some)])
        if first == 0:
            _add_up(sums, out[S])
    return out


@jit
def fill_records(fresh: NDArray[np.float32], codes: Codes, records: Records) -> Floats:
    """Write contributions (M, N), bins (N, d) and the number of the row into records of M + ceil(d / 2) + 1 words.

    Returns the sums of the contributions (M,).
    """
    values, halves, words = records
    (M, n), d = fresh.shape, codes.shape[1]
    total = np.zeros(M)
    for i in range(n):
        for m in range(M):
            values[i, m] = fresh[m, i]
            total[m] += fresh[m, i]
        for f in range(d):
            halves[i, 2 * M + f] = codes[i, f]
        words[i, words.shape[1] - 1] = i
    return total


@jit
def divide_records(
    source: Records,
    target: Rows,
    M: int,
    place: tuple[Floats, Codes, Floats, Floats],
    feature: int,
    threshold: float,
) -> int:
    """Write records below the threshold to the front of `target`, the others to its back.

    Return how many go first.
    """
    _, halves, words = source
    context, _, low, scale = place
    # As in `_table`: only rows in the very bin of the threshold need their exact value.
    own = _bin(threshold, low[feature], scale[feature])
    n, width = words.shape
    left, right = 0, n - 1
    for j in range(n):
        code = halves[j, 2 * M + feature]
        goes = code < own
        if code == own:
            goes = context[words[j, width - 1], feature] < threshold
        to = left if goes else right
        for c in range(width):
            target[to, c] = words[j, c]
        left += goes
        right -= not goes
    return left


@jit
def _exact_cell(context: Floats, i: int, features: Ints, threshold: Floats, step: Ints) -> int:
    cell = 0
    for s in range(features.shape[0]):
        cell += step[s] * (context[i, features[s]] >= threshold[s])
    return cell


@jit
def _table(features: Ints, threshold: Floats, step: Ints, low: Floats, scale: Floats) -> Rows:
    """Return what each bin (d, BINS) adds to the number of the cell, `_UNSURE` where a cut lies in it."""
    passed = np.zeros((low.shape[0], BINS), np.int32)
    for s in range(features.shape[0]):
        f = features[s]
        own = _bin(threshold[s], low[f], scale[f])
        passed[f, own] |= _UNSURE
        for c in range(own + 1, BINS):
            passed[f, c] += step[s]
    return passed


@jit
def _steps(features: Ints) -> tuple[Ints, int]:
    """Return what passing each cut adds to the number of the cell (S,), and the number of cells."""
    S = features.shape[0]
    step = np.empty(S, np.int64)
    cells, at = 1, 0
    while at < S:
        end = at
        while end < S and features[end] == features[at]:
            # Mixed radix: a feature of c cuts is a digit with c + 1 values, and passing a cut adds
            # one to it.
            step[end] = cells
            end += 1
        cells *= end - at + 1
        at = end
    return step, cells


@jit
def _add_up(sums: Floats, out: Floats) -> None:
    for cell in range(sums.shape[0]):
        for c in range(out.shape[0]):
            out[c] += sums[cell, c]


@jit
def _between(sums: Floats, step: int, places: int) -> Floats:
    """Return the sums (places, L) between neighbouring cuts of one feature, from cells in order."""
    out = np.zeros((places, sums.shape[1]))
    cell = 0
    while cell < sums.shape[0]:
        for place in range(places):
            for _ in range(step):
                for c in range(out.shape[1]):
                    out[place, c] += sums[cell, c]
                cell += 1
    return out


@jit
def _gather(sums: Floats, step: Ints, features: Ints, threshold: Floats, out: Floats) -> None:
    """Add up the cells (cells, L) left of each cut into out (S, L)."""
    S, L = out.shape
    at = 0
    while at < S:
        end = at
        while end < S and features[end] == features[at]:
            end += 1
        between = _between(sums, step[at], end - at + 1)
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
    logged: Floats,
    fresh: Floats,
    base: Floats,
    sizes: Floats,
    goal: Floats,
    normal: Floats,
    best: float,
) -> tuple[float, int, int, int]:
    """Return the least score not above `best`, its cut, left and right model; cut -1 when every score is above.

    `logged` (S + 1, 2 M): left sums of y and of its squares, the last row those of the node;
    `fresh` (S + 1, M) the sums of y over simulated rows; base (3,) the same three of all other
    nodes; sizes (2,) rows of both kinds; goal (4,) = value, least variance, noise, 1 when an equal
    score counts as better; normal (S, M, M).
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
        # The best pair of a partition first, then the partitions: where an equal score counts, the
        # last partition wins, as in the public code.
        if here < best or (here == best and goal[3] > 0.0):
            best, chosen, left, right = here, s, a0, b0
    return best, chosen, left, right


@jit
def score(total: float, square: float, mean: float, n: float, goal: Floats, normal: float) -> float:
    """Return variance + squared bias.

    Of the sum and sum of squares over n rows, and of a simulated mean with noise.
    """
    variance = (square - total * total / n) / (n - 1.0) / n
    bias = mean - goal[0]
    # Noise in proportion to the bias: sigma = .3 |bias| in section 4.1.
    bias += abs(bias) * goal[2] * normal
    mse: float = max(variance, goal[1]) + bias * bias
    return mse


@jit
def divide(lists: Rows, context: Floats, feature: int, threshold: float, spare: Rows) -> int:
    """Put the rows below the threshold first in every list (L, n), in their old order; return how many they are."""
    left = 0
    for which in range(lists.shape[0]):
        left, right = 0, 0
        for j in range(lists.shape[1]):
            i = lists[which, j]
            goes = context[i, feature] < threshold
            # Written to both sides, and one of them counts: which side a row takes is a coin toss
            # that no branch predictor wins.
            lists[which, left] = i  # never ahead of what has been read
            spare[right] = i
            left += goes
            right += not goes
        for j in range(right):
            lists[which, left + j] = spare[j]
    return left
