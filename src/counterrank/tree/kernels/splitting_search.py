"""The best split of a node, by exact scoring of every (feature, threshold, left model, right model).

A split changes the channels of one leaf only, so its score needs the histogram of that leaf and the totals. Channels
are linear in the sums: bin after bin moves from the right side to the left.
"""

import numpy as np

from counterrank.kernels.jit import jit
from counterrank.tree.kernels.splitting import lower, score
from counterrank.tree.kernels.splitting_data import Bools, Features, Floats, Goal, Ints


@jit
def bin_order(cells: Floats, categorical: bool, contrast: Ints, order: Ints) -> None:
    """Fill order (bins - 1,) with the bins 1.. in scanning order: as they are, or categories by mean contrast.

    The contrast is the mean difference between the densest and the sparsest model, the sign of the bias at stake.
    """
    count = order.shape[0]
    for b in range(count):
        order[b] = b + 1
    if not categorical:
        return
    key = np.empty(count + 1)
    for b in range(1, count + 1):
        rows = cells[b, 0]
        key[b] = (cells[b, contrast[0]] - cells[b, contrast[1]]) / rows if rows > 0 else np.inf
    for b in range(1, count):  # insertion sort: stable, a few dozen categories
        current = order[b]
        at = b
        while at > 0 and key[order[at - 1]] > key[current]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = current


@jit
def move(cell: Floats, terms: Ints, coef: Floats, on_left: Floats, on_right: Floats) -> None:
    """Take the channels (M, C) of a bin's sums (L,) from the right to the left."""
    for t in range(coef.shape[0]):
        m, c, value = terms[0, t], terms[1, t], coef[t] * cell[terms[2, t]]
        on_left[m, c] += value
        on_right[m, c] -= value


@jit
def best_pair(on_left: Floats, on_right: Floats, rule: Floats, targets: Floats, best: float) -> tuple[float, int, int]:
    """Return (score, left model, right model) of one cut, models -1 when none scores below `best`.

    on_left, on_right (M, C): the sides' channels under each model, the other leaves' totals added to one of them.
    """
    left, right = -1, -1
    for a in range(on_left.shape[0]):
        for b in range(on_left.shape[0]):
            if a == b:
                continue
            value = score(on_left[a], on_right[b], rule, targets, best)
            if lower(value, best):
                best, left, right = value, a, b
    return best, left, right


@jit
def best_cut(
    cells: Floats, order: Ints, missing_left: bool, here: Floats, goal: Goal, bounds: Floats
) -> tuple[float, int, int, int]:
    """Return (score, bins on the left, left model, right model) over the cuts of one feature, models -1 when none.

    cells (bins, L), order as from `bin_order`; here (M, C) the node's channels on top of the other leaves' totals;
    bounds = [rows of the node, least rows of a leaf, score to beat].
    """
    terms, coef, _, rule, targets, _ = goal  # once: taking arrays out of a tuple counts references
    rows = cells[0, 0] if missing_left else 0.0
    on_left, on_right = np.zeros(goal.shape), here.copy()
    if missing_left:
        move(cells[0], terms, coef, on_left, on_right)
    best, cut, left, right = bounds[2], -1, -1, -1
    # Only missing values on one side is a cut too; everything on one side is none.
    last = order.shape[0] - (1 if missing_left or cells[0, 0] == 0 else 0)
    for taken in range(0 if missing_left else 1, last + 1):
        if taken > 0:
            cell = cells[order[taken - 1]]
            move(cell, terms, coef, on_left, on_right)
            rows += cell[0]
            if cell[0] == 0:
                continue
        if rows < bounds[1]:
            continue
        if bounds[0] - rows < bounds[1]:
            break
        value, a, b = best_pair(on_left, on_right, rule, targets, best)
        if a >= 0:
            best, cut, left, right = value, taken, a, b
    return best, cut, left, right


@jit
def best_split(
    hist: Floats, features: Features, here: Floats, goal: Goal, bounds: Floats, goes_left: Bools
) -> tuple[float, int, int, int]:
    """Return (score, feature, left model, right model) of the best split of a node, feature -1 when none is below.

    hist (d, bins, L), here and bounds as in `best_cut`; goes_left (bins,) is filled. Bin 0 holds missing values, which
    are tried on either side; where there are none, they would follow the larger one.
    """
    limits = bounds.copy()
    feature, left, right = -1, -1, -1
    for f in range(hist.shape[0]):
        order = np.empty(features.bins[f] - 1, np.int64)
        bin_order(hist[f], features.categorical[f], goal.contrast, order)
        missing = hist[f, 0, 0]
        for side in range(2 if missing > 0 else 1):
            value, cut, a, b = best_cut(hist[f], order, side == 1, here, goal, limits)
            if a < 0:
                continue
            limits[2], feature, left, right = value, f, a, b
            goes_left[:] = False
            rows = 0.0
            for b_ in order[:cut]:
                goes_left[b_] = True
                rows += hist[f, b_, 0]
            goes_left[0] = side == 1 if missing > 0 else 2 * rows > bounds[0]
    return limits[2], feature, left, right
