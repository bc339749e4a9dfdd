"""What trees are grown from: contributions of rows, their statistics summed by node, feature and
bin.

Row statistics are one vector a row, so that a bin is one contiguous addition: [u, u y_m (M), u y_a
y_b (P), v_b z_m (B x M)], with u the row's weight (0 or 1), v the replicates' row weights and z
what they average. Kernels pass named tuples of arrays to each other, which compiled code takes
apart for free.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit, vector_jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.uint8]
Places = NDArray[np.int32]


class Rows(NamedTuple):
    """What statistics are formed from: y (n, M), use (n,), pairs (P, 2), replicates (n, B),
    averaged (n, M).

    Replicates are weighted sums of `averaged`, which is y unless an estimate weighs its subsamples
    otherwise.
    """

    y: Floats
    use: Floats
    pairs: Ints
    replicates: Floats
    averaged: Floats

    def subset(self, index: Ints) -> "Rows":
        """Return some of the rows, next to each other in memory."""
        y = self.y.take(index, axis=0)
        averaged = y if self.averaged is self.y else self.averaged.take(index, axis=0)
        return Rows(
            y, self.use.take(index), self.pairs, self.replicates.take(index, axis=0), averaged
        )

    @property
    def width(self) -> int:
        """Length of a row's statistics."""
        models = self.y.shape[1]
        return int(1 + models + len(self.pairs) + self.replicates.shape[1] * models)

    def totals(self, node: Places, nodes: int) -> Floats:
        """Return the sums in each node (nodes, L); rows of node -1 are passed over."""
        out = np.zeros((nodes, self.width))
        add_totals(self, node, out)
        return out


class Features(NamedTuple):
    """Bins in use (d,), the one for missing values included, and which features are categorical
    (d,).
    """

    bins: Ints
    categorical: Bools


class Goal(NamedTuple):
    """An objective as numbers: the channels of a leaf and the rule that scores them
    (`kernels.search`).

    terms (3, T) = model, channel and statistic of each term, coef (T,), shape (M, C); rule =
    [overlap instead of squares, mean instead of max, kappa, lam, 1/n_apply, 1/n_grown]; targets (2,
    J) = T and width; contrast (2,) the statistics of the densest and the sparsest model.
    """

    terms: Ints
    coef: Floats
    shape: tuple[int, int]
    rule: Floats
    targets: Floats
    contrast: Ints


class Nodes(NamedTuple):
    """A growing tree: tree (4, nodes) = feature (-1 in a leaf), left, right, model; goes_left
    (nodes, bins).

    stats (nodes, L) are the sums of each node, scores (nodes,) the objective once the node was
    decided, gains (nodes,) what its split took off, totals (C,) the channels of the whole
    assignment.
    """

    tree: Ints
    goes_left: Bools
    stats: Floats
    scores: Floats
    gains: Floats
    totals: Floats


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
def add_histogram(rows: Rows, codes: Codes, node: Places, place: Ints, out: Floats) -> None:
    """Add the rows' statistics into out (nodes, d, bins, L) at the place of each row's node; -1 is
    passed over.

    The statistics are formed here, row by row: reading them back from memory would cost more than
    the products.
    """
    features, width = codes.shape[1], out.shape[3]
    row = np.empty(width)
    for i in range(rows.y.shape[0]):
        if node[i] < 0 or place[node[i]] < 0:
            continue
        fill_row(rows, i, row)
        table = out[place[node[i]]]
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
    """Move each row of a node that was split to the child its bin belongs to; tree (4, nodes) as in
    `Nodes`.
    """
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


@vector_jit
def weigh(weight: Floats, reward: Floats, m: int, out: Floats, second: Floats) -> None:
    """Fill out[:, m] of (K, M, n) with w r, and second[:, m] of (K, M) with the mean of w^2; w and
    r (K, n).
    """
    for k in range(weight.shape[0]):
        w, r, row = weight[k], reward[k], out[k, m]
        total = 0.0
        for i in range(w.shape[0]):
            total += w[i] * w[i]
            row[i] = w[i] * r[i]
        second[k, m] = total / w.shape[0]


@jit
def second_moments(
    excess: Floats, masks: NDArray[np.bool_], orders: NDArray[np.int64], out: Floats
) -> None:
    """Fill out (K, M) with the mean over rows of E[w_k^2 | x], from v (n, K), masks (M, K, K),
    orders (M,).

    (1 + v_k) sum_{j < order} e_j(v_l, l relevant and not k); a full product (order 0) is prod (1 +
    v_l).
    """
    n, length = excess.shape
    poly = np.empty(length + 1)
    for m in range(masks.shape[0]):
        for k in range(length):
            total = 0.0
            for i in range(n):
                row = excess[i]
                own = 1.0 + row[k] if masks[m, k, k] else 1.0
                if orders[m] == 0:
                    for j in range(length):
                        if j != k and masks[m, k, j]:
                            own *= 1.0 + row[j]
                    total += own
                    continue
                top = min(orders[m], length)
                for degree in range(1, top):
                    poly[degree] = 0.0
                poly[0] = 1.0
                for j in range(length):
                    if j != k and masks[m, k, j]:
                        for degree in range(top - 1, 0, -1):
                            poly[degree] += row[j] * poly[degree - 1]
                ways = 0.0
                for degree in range(top):
                    ways += poly[degree]
                total += own * ways
            out[k, m] = total / n
