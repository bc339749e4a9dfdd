"""Row statistics of a tree's objective, summed by node, feature and bin.

Row statistics are one vector a row, so that a bin is one contiguous addition: [u, u y_m (M), u y_a y_b (P),
v_b y_m (B x M)], with u the row's weight (0 or 1) and v the replicates' row weights.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.uint8]


@jit
def fill_row(y: Floats, i: int, use: float, pairs: Ints, replicates: Floats, models: int, row: Floats) -> None:
    """Fill row (L,) with the statistics of ranking i, from y (n, M), pairs (P, 2) and replicates (n, B)."""
    row[0] = use
    for m in range(models):
        row[1 + m] = use * y[i, m]
    at = 1 + models
    for p in range(pairs.shape[0]):
        row[at + p] = row[1 + pairs[p, 0]] * y[i, pairs[p, 1]]
    at += pairs.shape[0]
    for b in range(replicates.shape[1]):
        for m in range(models):
            row[at + m] = replicates[i, b] * y[i, m]
        at += models


@jit
def row_statistics(y: Floats, use: Floats, pairs: Ints, replicates: Floats, out: Floats) -> None:
    """Fill out (n, L) with every ranking's statistics."""
    for i in range(y.shape[0]):
        fill_row(y, i, use[i], pairs, replicates, y.shape[1], out[i])


@jit
def add_histogram(
    y: Floats,
    use: Floats,
    pairs: Ints,
    replicates: Floats,
    codes: Codes,
    node: NDArray[np.int32],
    slot_of: Ints,
    out: Floats,
) -> None:
    """Add the rows' statistics into out (slots, d, bins, L) by the slot of each row's node; -1 is passed over.

    The statistics are formed here, row by row: reading them back from memory would cost more than the products.
    """
    features, width = codes.shape[1], out.shape[3]
    row = np.empty(width)
    for i in range(y.shape[0]):
        if node[i] < 0 or slot_of[node[i]] < 0:
            continue
        fill_row(y, i, use[i], pairs, replicates, y.shape[1], row)
        table = out[slot_of[node[i]]]
        for f in range(features):
            cell = table[f, codes[i, f]]
            for c in range(width):
                cell[c] += row[c]


@jit
def add_totals(y: Floats, use: Floats, pairs: Ints, replicates: Floats, node: NDArray[np.int32], out: Floats) -> None:
    """Add the rows' statistics into out (nodes, L) by node; rows of node -1 are passed over."""
    width = out.shape[1]
    row = np.empty(width)
    for i in range(y.shape[0]):
        if node[i] < 0:
            continue
        fill_row(y, i, use[i], pairs, replicates, y.shape[1], row)
        cell = out[node[i]]
        for c in range(width):
            cell[c] += row[c]


@jit
def route(
    codes: Codes, node: NDArray[np.int32], feature: Ints, goes_left: NDArray[np.bool_], left: Ints, right: Ints
) -> None:
    """Move each row of a node that was split (feature >= 0) to the child its bin belongs to."""
    for i in range(codes.shape[0]):
        at = node[i]
        if at >= 0 and feature[at] >= 0:
            node[i] = left[at] if goes_left[at, codes[i, feature[at]]] else right[at]


@jit
def bin_numbers(values: Floats, edges: Floats, out: Codes) -> None:
    """Fill out (n,) with 0 for NaN, else 1 + the number of edges below the value."""
    for i in range(values.shape[0]):
        value = values[i]
        if np.isnan(value):
            out[i] = 0
            continue
        low, high = 0, edges.shape[0]
        while low < high:
            middle = (low + high) // 2
            if value <= edges[middle]:
                high = middle
            else:
                low = middle + 1
        out[i] = low + 1
