"""The growth of a tree: the score of an assignment of models to leaves, and the split that lowers
it most.

The objective of a whole assignment is a function of C sums over its leaves ("channels"):
t = [mean, second moment, D_1..D_J, second moment of D_1..D_J], and its score is

    lam Var + max_j or mean_j penalty_j,  Var = (t_1 - t_0^2) / n_apply,  d = D_j - T_j,
    squares: penalty = max(0, d^2 - kappa Var(D_j))
    overlap: infinite when |d| > kappa (se(assignment) + width_j), else 0   (SLOPE)

Every (feature, threshold, left model, right model) is scored exactly. A split changes the channels
of one leaf only, so its score needs the histogram of that leaf and the totals. Channels are linear
in the sums: bin after bin moves from the right side to the left. Loops are written out: array
expressions take a second each to compile.
"""

import numpy as np

from counterrank.kernels.jit import jit
from counterrank.tree.kernels.statistics import Bools, Features, Floats, Goal, Ints, Nodes

#: A score must be lower by this share to count as lower: ties are then broken by order, not by
#: rounding.
TIE = 1e-10


@jit
def lower(value: float, best: float) -> bool:
    """Return whether a score beats the best so far by more than rounding."""
    return value < best if np.isinf(best) else value < best - TIE * abs(best)


@jit
def expand(stats: Floats, terms: Ints, coef: Floats, out: Floats) -> None:
    """Fill out (M, C): the channels a leaf with these stats (L,) adds under each model.

    terms (3, T) = model, channel and statistic of each term, coef (T,): most channels are sums of
    few statistics.
    """
    out[:] = 0.0
    for t in range(coef.shape[0]):
        out[terms[0, t], terms[1, t]] += coef[t] * stats[terms[2, t]]


@jit
def expand_all(stats: Floats, terms: Ints, coef: Floats, out: Floats) -> None:
    """Fill out (nodes, M, C): the channels of each node's stats (nodes, L)."""
    for node in range(stats.shape[0]):
        expand(stats[node], terms, coef, out[node])


@jit
def score(base: Floats, add: Floats, rule: Floats, targets: Floats, stop: float) -> float:
    """Return the score of channels base + add; any value >= stop when it is not below `stop`.

    rule = [overlap, mean instead of max, kappa, lam, 1/n_apply, 1/n_grown]; targets (2, J) = T and
    width.
    """
    overlap, mean, kappa = rule[0] > 0.0, rule[1] > 0.0, rule[2]
    first = base[0] + add[0]
    # Channels are means: 0 of y, 1 of y^2, then differences to each compared model and their
    # squares.
    spread = max(base[1] + add[1] - first * first, 0.0)
    low: float = rule[3] * spread * rule[4]
    # Bias penalties only add: a variance that is too large already ends the comparison.
    if low >= stop:
        return low
    count = targets.shape[1]
    worst = 0.0
    for j in range(count):
        raw = base[2 + j] + add[2 + j]
        gap = raw - targets[0, j]
        if overlap:
            reach = kappa * (np.sqrt(spread * rule[5]) + targets[1, j])
            penalty = np.inf if abs(gap) > reach and gap != 0.0 else 0.0
        else:
            # E (V_c - V_j)^2 = bias^2 + Var(V_c - V_j): what chance alone explains is taken off,
            # kappa times.
            noise = max(base[2 + count + j] + add[2 + count + j] - raw * raw, 0.0) * rule[5]
            penalty = max(gap * gap - kappa * noise, 0.0)
        worst = worst + penalty / count if mean else max(worst, penalty)
        if low + worst >= stop:
            break
    total: float = low + worst
    return total


@jit
def best_model(base: Floats, channels: Floats, rule: Floats, targets: Floats) -> tuple[float, int]:
    """Return the least score of base + channels[m] and its model m; the first model wins a tie."""
    best, chosen = np.inf, -1
    for m in range(channels.shape[0]):
        value = score(base, channels[m], rule, targets, best)
        if chosen < 0 or lower(value, best):
            best, chosen = value, m
    return best, chosen


@jit
def bin_order(cells: Floats, categorical: bool, contrast: Ints, order: Ints) -> None:
    """Fill order (bins - 1,) with the bins 1.. in scanning order: as they are, or categories by
    mean contrast.

    The contrast is the mean difference between the densest and the sparsest model, the sign of the
    bias at stake.
    """
    count = order.shape[0]
    for b in range(count):
        order[b] = b + 1
    if not categorical:
        return
    # Ordered by a mean, the best of all 2^(c-1) subsets is a prefix for one squared error (Fisher
    # 1958); for this objective it is a good guess in linear time.
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
        m, c, amount = terms[0, t], terms[1, t], coef[t] * cell[terms[2, t]]
        on_left[m, c] += amount
        on_right[m, c] -= amount


@jit
def best_pair(
    on_left: Floats, on_right: Floats, rule: Floats, targets: Floats, best: float
) -> tuple[float, int, int]:
    """Return the least score of two different models for the two sides, and the models; -1 when
    none is below `best`.

    on_left, on_right (M, C): the sides' channels under each model, the other leaves' totals added
    to one of them.
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
    """Return (score, bins on the left, left model, right model) over the cuts of one feature,
    models -1 when none.

    cells (bins, L), order as from `bin_order`; here (M, C) the node's channels on top of the other
    leaves' totals; bounds = [rows of the node, least rows of a leaf, score to beat].
    """
    terms, coef, _, rule, targets, _ = goal  # once: taking arrays out of a tuple counts references
    rows = cells[0, 0] if missing_left else 0.0
    on_left, on_right = np.zeros(here.shape), here.copy()
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
            # An empty bin moves nothing: the cut before it is the same.
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
    """Return (score, feature, left model, right model) of the best split of a node, feature -1 when
    none is below.

    hist (d, bins, L), here and bounds as in `best_cut`; goes_left (bins,) is filled. Bin 0 holds
    missing values, which are tried on either side; where there are none, they would follow the
    larger one.
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
            for place in range(cut):
                goes_left[order[place]] = True
                rows += hist[f, order[place], 0]
            goes_left[0] = side == 1 if missing > 0 else 2 * rows > bounds[0]
    return limits[2], feature, left, right


@jit
def choose_root(goal: Goal, nodes: Nodes) -> None:
    """Choose the root's model from its sums; the totals become its channels."""
    here = np.empty(goal.shape)
    expand(nodes.stats[0], goal.terms, goal.coef, here)
    totals = nodes.totals
    totals[:] = 0.0
    nodes.scores[0], nodes.tree[3, 0] = best_model(totals, here, goal.rule, goal.targets)
    for c in range(totals.shape[0]):
        totals[c] = here[nodes.tree[3, 0], c]


@jit
def settle(node: int, here: Floats, goal: Goal, nodes: Nodes) -> None:
    """Give a leaf with channels here (M, C) the best model, given all other leaves; its own wins a
    tie.

    Afterwards `here` stands on top of the other leaves' totals.
    """
    own, totals = nodes.tree[3, node], nodes.totals
    base = np.empty(totals.shape[0])
    for c in range(base.shape[0]):
        # Squared bias is of the whole assignment: which model suits a leaf depends on what the
        # others have become since its parent was split.
        base[c] = totals[c] - here[own, c]
    now = score(base, here[own], goal.rule, goal.targets, np.inf)
    value, model = best_model(base, here, goal.rule, goal.targets)
    if lower(value, now):
        own, now = model, value
    nodes.tree[3, node], nodes.scores[node] = own, now
    for m in range(here.shape[0]):
        for c in range(base.shape[0]):
            here[m, c] += base[c]
    for c in range(base.shape[0]):
        totals[c] = here[own, c]


@jit
def divide(
    node: int, cells: Floats, models: tuple[int, int], goal: Goal, nodes: Nodes, count: int
) -> None:
    """Make nodes count and count + 1 the children of a split node, with two models; cells (bins, L)
    of its feature.
    """
    tree, stats, totals = nodes.tree, nodes.stats, nodes.totals
    left, right = count, count + 1
    tree[1, node], tree[2, node], tree[3, left], tree[3, right] = left, right, models[0], models[1]
    for c in range(stats.shape[1]):
        total = 0.0
        for b in range(cells.shape[0]):
            if nodes.goes_left[node, b]:
                total += cells[b, c]
        stats[left, c] = total
        stats[right, c] = stats[node, c] - total
    here = np.empty(goal.shape)
    for at in (node, left, right):
        sign = -1.0 if at == node else 1.0
        expand(stats[at], goal.terms, goal.coef, here)
        for c in range(totals.shape[0]):
            totals[c] += sign * here[tree[3, at], c]


@jit
def split_level(
    frontier: Ints,
    hist: Floats,
    features: Features,
    goal: Goal,
    limits: Floats,
    nodes: Nodes,
    count: int,
) -> int:
    """Split the nodes of one level in order, each given all leaves so far; return the new number of
    nodes.

    hist (nodes of the frontier, d, bins, L); limits = [least rows of a leaf, least gain, most
    leaves].
    """
    here, bounds = np.empty(goal.shape), np.empty(3)
    for at in range(frontier.shape[0]):
        node = frontier[at]
        expand(nodes.stats[node], goal.terms, goal.coef, here)
        settle(node, here, goal, nodes)
        rows, now = nodes.stats[node, 0], nodes.scores[node]
        # A binary tree of c nodes has (c + 1) / 2 leaves.
        if (count + 1) // 2 >= limits[2] or rows < 2 * limits[0]:
            continue
        bounds[0], bounds[1], bounds[2] = rows, limits[0], now - limits[1]
        found, f, a, b = best_split(hist[at], features, here, goal, bounds, nodes.goes_left[node])
        if f < 0:
            continue
        nodes.tree[0, node] = f
        divide(node, hist[at, f], (a, b), goal, nodes, count)
        nodes.scores[node], nodes.gains[node] = found, now - found
        count += 2
    return count
