"""Row statistics of a tree's objective, summed by node, feature and bin.

Row statistics are one vector a row, so that a bin is one contiguous addition: [u, u y_m (M), u y_a y_b (P),
v_b z_m (B x M)], with u the row's weight (0 or 1), v the replicates' row weights and z what they average.
"""

import numpy as np

from counterrank.kernels.jit import jit
from counterrank.tree.kernels.splitting_data import Bools, Codes, Floats, Ints, Places, Rows


@jit
def fill_row(rows: Rows, i: int, out: Floats) -> None:
    """Fill out (L,) with the statistics of ranking i."""
    models, use = rows.y.shape[1], rows.use[i]
    out[0] = use
    for m in range(models):
        out[1 + m] = use * rows.y[i, m]
    at = 1 + models
    for p in range(rows.pairs.shape[0]):
        out[at + p] = out[1 + rows.pairs[p, 0]] * rows.y[i, rows.pairs[p, 1]]
    at += rows.pairs.shape[0]
    for b in range(rows.replicates.shape[1]):
        weight = rows.replicates[i, b]
        for m in range(models):
            out[at + m] = weight * rows.averaged[i, m]
        at += models


@jit
def row_statistics(rows: Rows, out: Floats) -> None:
    """Fill out (n, L) with every ranking's statistics."""
    for i in range(rows.y.shape[0]):
        fill_row(rows, i, out[i])


@jit
def add_histogram(rows: Rows, codes: Codes, node: Places, slot_of: Ints, out: Floats) -> None:
    """Add the rows' statistics into out (slots, d, bins, L) by the slot of each row's node; -1 is passed over.

    The statistics are formed here, row by row: reading them back from memory would cost more than the products.
    """
    features, width = codes.shape[1], out.shape[3]
    row = np.empty(width)
    for i in range(rows.y.shape[0]):
        if node[i] < 0 or slot_of[node[i]] < 0:
            continue
        fill_row(rows, i, row)
        table = out[slot_of[node[i]]]
        for f in range(features):
            cell = table[f, codes[i, f]]
            for c in range(width):
                cell[c] += row[c]


@jit
def add_totals(rows: Rows, node: Places, out: Floats) -> None:
    """Add the rows' statistics into out (nodes, L) by node; rows of node -1 are passed over."""
    width = out.shape[1]
    row = np.empty(width)
    for i in range(rows.y.shape[0]):
        if node[i] < 0:
            continue
        fill_row(rows, i, row)
        cell = out[node[i]]
        for c in range(width):
            cell[c] += row[c]


@jit
def route(codes: Codes, node: Places, tree: Ints, goes_left: Bools) -> None:
    """Move each row of a node that was split to the child its bin belongs to; tree (4, nodes) as in `Nodes`."""
    for i in range(codes.shape[0]):
        at = node[i]
        if at >= 0 and tree[0, at] >= 0:
            node[i] = tree[1, at] if goes_left[at, codes[i, tree[0, at]]] else tree[2, at]


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
