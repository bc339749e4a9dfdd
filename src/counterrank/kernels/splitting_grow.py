"""Growth of a whole tree on rows in memory: histograms, splits and rows' moves, level by level, without leaving."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.histogram import Codes, Floats, Ints, add_histogram, route
from counterrank.kernels.jit import jit
from counterrank.kernels.splitting import Bools, best_model, expand, split_level


@jit
def plant(
    stats: Floats, terms: Ints, coef: Floats, shape: tuple[int, int], rule: Floats, targets: Floats, totals: Floats
) -> tuple[float, int]:
    """Return score and model of the root from the sums of all rows (L,); totals (C,) become its channels."""
    here = np.empty(shape)
    expand(stats, terms, coef, here)
    totals[:] = 0.0
    value, model = best_model(totals, here, rule, targets)
    totals[:] = here[model]
    return value, model


@jit
def sibling_histograms(
    y: Floats,
    use: Floats,
    pairs: Ints,
    replicates: Floats,
    codes: Codes,
    node: NDArray[np.int32],
    parents: Ints,
    hist: Floats,
    stats: Floats,
    tree: Ints,
    first: int,
    count: int,
) -> Floats:
    """Return the histograms of nodes first..count-1: the smaller child of each split summed, the larger subtracted."""
    slot_of = np.full(tree.shape[1], -1, np.int64)
    for at in range(first, count):
        slot_of[at] = -1
    for slot in range(parents.shape[0]):
        parent = parents[slot]
        if tree[0, parent] >= 0:
            a, b = tree[1, parent], tree[2, parent]
            small = a if stats[a, 0] <= stats[b, 0] else b
            slot_of[small] = small - first
    out = np.zeros((count - first, hist.shape[1], hist.shape[2], hist.shape[3]))
    add_histogram(y, use, pairs, replicates, codes, node, slot_of, out)
    for slot in range(parents.shape[0]):
        parent = parents[slot]
        if tree[0, parent] >= 0:
            a, b = tree[1, parent], tree[2, parent]
            small, large = (a, b) if stats[a, 0] <= stats[b, 0] else (b, a)
            out[large - first] = hist[slot] - out[small - first]
    return out


@jit
def grow_tree(
    y: Floats,
    use: Floats,
    pairs: Ints,
    replicates: Floats,
    codes: Codes,
    node: NDArray[np.int32],
    bins: Ints,
    categorical: Bools,
    terms: Ints,
    coef: Floats,
    shape: tuple[int, int],
    rule: Floats,
    targets: Floats,
    contrast: Ints,
    limits: Floats,
    tree: Ints,
    goes_left: Bools,
    stats: Floats,
    scores: Floats,
    gains: Floats,
    totals: Floats,
) -> tuple[int, int]:
    """Return the number of nodes and of levels; limits = [min_leaf, share of the root's score, leaves, depth]."""
    hist = np.zeros((1, codes.shape[1], goes_left.shape[1], stats.shape[1]))
    slot_of = np.full(tree.shape[1], -1, np.int64)
    slot_of[0] = 0
    add_histogram(y, use, pairs, replicates, codes, node, slot_of, hist)
    for b in range(hist.shape[2]):
        stats[0] += hist[0, 0, b]
    scores[0], tree[3, 0] = plant(stats[0], terms, coef, shape, rule, targets, totals)
    bounds = limits.copy()
    bounds[1] = limits[1] * abs(scores[0]) if np.isfinite(scores[0]) else 0.0
    frontier = np.zeros(1, np.int64)
    count, level = 1, 0
    while level < limits[3] and frontier.shape[0] > 0:
        before = count
        count = split_level(
            frontier, hist, stats, totals, bins, categorical, terms, coef, shape, rule, targets, contrast, bounds,
            count, tree, goes_left, scores, gains,
        )  # fmt: skip
        level += 1
        parents = frontier
        frontier = np.arange(before, count)
        if frontier.shape[0] > 0 and level < limits[3]:
            route(codes, node, tree[0], goes_left, tree[1], tree[2])
            hist = sibling_histograms(y, use, pairs, replicates, codes, node, parents, hist, stats, tree, before, count)
    return count, level
