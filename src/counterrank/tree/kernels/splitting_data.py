"""What the tree's kernels pass to each other: named tuples of arrays, which compiled code takes apart for free."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.uint8]
Places = NDArray[np.int32]


class Rows(NamedTuple):
    """What statistics are formed from: y (n, M), use (n,), pairs (P, 2), replicates (n, B), averaged (n, M).

    Replicates are weighted sums of `averaged`, which is y unless an estimate weighs its subsamples otherwise.
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
        return Rows(y, self.use.take(index), self.pairs, self.replicates.take(index, axis=0), averaged)

    @property
    def width(self) -> int:
        """Length of a row's statistics."""
        models = self.y.shape[1]
        return int(1 + models + len(self.pairs) + self.replicates.shape[1] * models)

    def totals(self, node: Places, nodes: int) -> Floats:
        """Return the sums in each node (nodes, L); rows of node -1 are passed over."""
        from counterrank.tree.kernels import histogram

        out = np.zeros((nodes, self.width))
        histogram.add_totals(self, node, out)
        return out

    def statistics(self) -> Floats:
        """Return the statistics of every row (n, L)."""
        from counterrank.tree.kernels import histogram

        out = np.empty((len(self.y), self.width))
        histogram.row_statistics(self, out)
        return out


class Features(NamedTuple):
    """Bins in use (d,), the one for missing values included, and which features are categorical (d,)."""

    bins: Ints
    categorical: Bools


class Goal(NamedTuple):
    """An objective as numbers: the channels of a leaf and the rule that scores them (`kernels.splitting`).

    terms (3, T) = model, channel and statistic of each term, coef (T,), shape (M, C); rule = [mode, mean instead of
    max, kappa, lam, 1/n_apply, 1/n_grown]; targets (2, J) = T and width; contrast (2,) the statistics of the densest
    and the sparsest model.
    """

    terms: Ints
    coef: Floats
    shape: tuple[int, int]
    rule: Floats
    targets: Floats
    contrast: Ints


class Nodes(NamedTuple):
    """A growing tree: tree (4, nodes) = feature (-1 in a leaf), left, right, model; goes_left (nodes, bins).

    stats (nodes, L) are the sums of each node, scores (nodes,) the objective once the node was decided, gains (nodes,)
    what its split took off, totals (C,) the channels of the whole assignment.
    """

    tree: Ints
    goes_left: Bools
    stats: Floats
    scores: Floats
    gains: Floats
    totals: Floats
