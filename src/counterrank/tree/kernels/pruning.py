"""What is done to a grown tree: the sums of other rows in its nodes, splits undone, models chosen
again.

tree (4, nodes) = feature (-1 in a leaf), left, right, model; channels (nodes, M, C) of each node
under each model; rule and targets as in `kernels.search.score`.
"""

import numpy as np

from counterrank.kernels.jit import jit
from counterrank.tree.kernels.search import best_model, score
from counterrank.tree.kernels.statistics import Bools, Codes, Floats, Ints, Places


@jit
def leaf_of(codes: Codes, tree: Ints, goes_left: Bools, out: Places) -> None:
    """Fill out (n,) with the leaf of each row, from its bins codes (n, d)."""
    feature, left, right = tree[0], tree[1], tree[2]
    for i in range(codes.shape[0]):
        at = 0
        while feature[at] >= 0:
            at = left[at] if goes_left[at, codes[i, feature[at]]] else right[at]
        out[i] = at


@jit
def add_children(tree: Ints, sums: Floats) -> None:
    """Complete sums (nodes, L) of leaves: a split node has those of its children, which come after
    it.
    """
    for at in range(sums.shape[0] - 1, -1, -1):
        if tree[0, at] >= 0:
            for c in range(sums.shape[1]):
                sums[at, c] = sums[tree[1, at], c] + sums[tree[2, at], c]


@jit
def leaves(tree: Ints) -> Ints:
    """Return the leaves reachable from the root, left to right."""
    found, stack = np.empty(tree.shape[1], np.int64), np.zeros(tree.shape[1] + 1, np.int64)
    count, depth = 0, 1
    while depth > 0:
        depth -= 1
        at = stack[depth]
        if tree[0, at] < 0:
            found[count] = at
            count += 1
        else:
            stack[depth], stack[depth + 1] = tree[2, at], tree[1, at]
            depth += 2
    return found[:count]


@jit
def totals_of(tree: Ints, channels: Floats) -> Floats:
    """Return the channels (C,) of the whole assignment."""
    totals = np.zeros(channels.shape[2])
    for at in leaves(tree):
        for c in range(totals.shape[0]):
            totals[c] += channels[at, tree[3, at], c]
    return totals


@jit
def undo(tree: Ints, gains: Floats, at: int) -> None:
    """Make a split node a leaf."""
    tree[0, at], tree[1, at], tree[2, at] = -1, -1, -1
    gains[at] = 0.0


@jit
def prune(
    tree: Ints, gains: Floats, channels: Floats, rule: Floats, targets: Floats, share: float
) -> None:
    """Undo last splits, from the bottom up and until none is left that lowers the score by less
    than a share of it.
    """
    feature, left, right, model = tree[0], tree[1], tree[2], tree[3]
    nothing, totals = np.zeros(channels.shape[2]), totals_of(tree, channels)
    merged = np.empty(totals.shape[0])
    # Measured on the root of these rows: the growing rows' score was made small by the search.
    least = share * abs(score(channels[0, model[0]], nothing, rule, targets, np.inf))
    least = least if np.isfinite(least) else 0.0
    changed = True
    while changed:
        changed = False
        for at in range(channels.shape[0] - 1, -1, -1):
            if feature[at] < 0 or feature[left[at]] >= 0 or feature[right[at]] >= 0:
                continue
            a, b = left[at], right[at]
            for c in range(merged.shape[0]):
                children = channels[a, model[a], c] + channels[b, model[b], c]
                merged[c] = totals[c] - children + channels[at, model[at], c]
            now = score(totals, nothing, rule, targets, np.inf)
            # Undone unless it clearly helps on rows that took no part in choosing it.
            if not now < score(merged, nothing, rule, targets, np.inf) - least:
                undo(tree, gains, at)
                for c in range(merged.shape[0]):
                    totals[c] = merged[c]
                changed = True


@jit
def choose_again(tree: Ints, channels: Floats, rule: Floats, targets: Floats, sweeps: int) -> None:
    """Choose each leaf's model again, in turn, until no change lowers the score."""
    model = tree[3]
    nothing, totals = np.zeros(channels.shape[2]), totals_of(tree, channels)
    base = np.empty(totals.shape[0])
    for _ in range(sweeps):
        changed = False
        for at in leaves(tree):
            for c in range(base.shape[0]):
                base[c] = totals[c] - channels[at, model[at], c]
            value, chosen = best_model(base, channels[at], rule, targets)
            if chosen != model[at] and value < score(totals, nothing, rule, targets, np.inf):
                model[at], changed = chosen, True
                for c in range(base.shape[0]):
                    totals[c] = base[c] + channels[at, chosen, c]
        if not changed:
            return
