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
def row_statistics(y: Floats, use: Floats, pairs: Ints, replicates: Floats, out: Floats) -> None:
    """Fill out (n, 1 + M + P + B M) from contributions y (M, n), use (n,), pairs (P, 2), replicates (B, n)."""
    models, n = y.shape
    for i in range(n):
        u = use[i]
        row = out[i]
        row[0] = u
        for m in range(models):
            row[1 + m] = u * y[m, i]
        at = 1 + models
        for p in range(pairs.shape[0]):
            row[at + p] = row[1 + pairs[p, 0]] * y[pairs[p, 1], i]
        at += pairs.shape[0]
        for b in range(replicates.shape[0]):
            for m in range(models):
                row[at + m] = replicates[b, i] * y[m, i]
            at += models


@jit
def add_histogram(stats: Floats, codes: Codes, node: NDArray[np.int32], slot_of: Ints, out: Floats) -> None:
    """Add stats (n, L) into out (slots, d, bins, L) by the slot of each row's node; slot -1 is passed over."""
    n, width = stats.shape
    features = codes.shape[1]
    for i in range(n):
        if node[i] < 0:
            continue
        slot = slot_of[node[i]]
        if slot < 0:
            continue
        row = stats[i]
        for f in range(features):
            cell = out[slot, f, codes[i, f]]
            for c in range(width):
                cell[c] += row[c]


@jit
def add_totals(stats: Floats, node: NDArray[np.int32], out: Floats) -> None:
    """Add stats (n, L) into out (nodes, L) by node; rows of node -1 are passed over."""
    for i in range(stats.shape[0]):
        if node[i] >= 0:
            cell = out[node[i]]
            for c in range(stats.shape[1]):
                cell[c] += stats[i, c]


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
