"""Growth on rows in memory: histograms of the smaller child of each split, the larger by subtraction."""

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.tree.binning import Codes
from counterrank.behavior.tree.grower import Grower

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def grow(grower: Grower, stats: Floats, codes: Codes, rows: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Grow on the chosen rows and return each row's node (n,), -1 for the others.

    stats (n, L) and codes (n, d) are those of all rows, so that several folds share them.
    """
    from counterrank.kernels import histogram

    node = np.where(rows, 0, -1).astype(np.int32)
    root = np.zeros((1, stats.shape[1]))
    histogram.add_totals(stats, node, root)
    grower.plant(root[0])
    shape = (codes.shape[1], int(grower.bins.max(initial=1)), stats.shape[1])
    hist = np.zeros((1, *shape))
    if len(grower.wants):
        histogram.add_histogram(stats, codes, node, np.zeros(1, dtype=np.int64), hist)
    while len(grower.wants):
        parents = grower.frontier
        grower.split(hist)
        feature, left, right, _ = grower.tree
        histogram.route(codes, node, feature, grower.goes_left, left, right)
        if len(grower.wants):
            hist = _children(grower, parents, hist, (stats, codes, node))
    return node


def _children(grower: Grower, parents: Ints, hist: Floats, rows: tuple[Floats, Codes, NDArray[np.int32]]) -> Floats:
    """Return the histograms of the new frontier (nodes, d, bins, L): one child summed, its sibling subtracted."""
    from counterrank.kernels import histogram

    feature, left, right, _ = grower.tree
    split = np.flatnonzero(feature[parents] >= 0)
    lefts, rights = left[parents[split]], right[parents[split]]
    left_is_small = grower.stats[lefts, 0] <= grower.stats[rights, 0]
    small = np.where(left_is_small, lefts, rights)
    slot_of = np.full(grower.tree.shape[1], -1, dtype=np.int64)
    slot_of[small] = np.arange(len(small))
    summed = np.zeros((len(small), *hist.shape[1:]))
    histogram.add_histogram(rows[0], rows[1], rows[2], slot_of, summed)
    out = np.empty((len(grower.frontier), *hist.shape[1:]))
    first = int(grower.frontier[0]) if len(grower.frontier) else 0
    large = np.where(left_is_small, rights, lefts)
    out[small - first] = summed
    out[large - first] = hist[split] - summed
    return out
