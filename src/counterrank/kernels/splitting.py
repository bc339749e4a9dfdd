"""The best split of each node, by exact scoring of every (feature, threshold, left model, right model).

The objective of a whole assignment is a function of C sums over its leaves ("channels"):
t = [mean, second moment, D_1..D_J, second moment of D_1..D_J], and its score is

    lam Var + max_j or mean_j penalty_j,  Var = (t_1 - t_0^2) / n_apply,  d = D_j - T_j,
    mode 0: penalty = max(0, d^2 - kappa Var(D_j))
    mode 1: infinite when |d| > kappa se(D_j), else 0                      (Lepski)
    mode 2: infinite when |d| > kappa (se(assignment) + width_j), else 0   (SLOPE)

A split changes the channels of one leaf only, so its score needs the histogram of that leaf and the totals.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: A score must be lower by this share to count as lower: ties are then broken by order, not by rounding.
TIE = 1e-10


@jit
def lower(value: float, best: float) -> bool:
    """Return whether a score beats the best so far by more than rounding."""
    return value < best if np.isinf(best) else value < best - TIE * abs(best)


@jit
def expand(stats: Floats, terms: Ints, coef: Floats, out: Floats) -> None:
    """Fill out (M, C): the channels a leaf with these stats (L,) adds under each model.

    terms (3, T) = model, channel and statistic of each term, coef (T,): most channels are sums of few statistics.
    """
    out[:] = 0.0
    for t in range(coef.shape[0]):
        out[terms[0, t], terms[1, t]] += coef[t] * stats[terms[2, t]]


@jit
def expand_all(stats: Floats, terms: Ints, coef: Floats, shape: tuple[int, int]) -> Floats:
    """Return the channels (nodes, M, C) of each node's stats (nodes, L)."""
    out = np.empty((stats.shape[0], shape[0], shape[1]))
    for node in range(stats.shape[0]):
        expand(stats[node], terms, coef, out[node])
    return out


@jit
def score(base: Floats, add: Floats, rule: Floats, targets: Floats, stop: float) -> float:
    """Return the score of channels base + add; any value >= stop when it is not below `stop`.

    rule = [mode, mean instead of max, kappa, lam, 1/n_apply, 1/n_grown]; targets (2, J) = T and width.
    """
    mode, mean, kappa = rule[0], rule[1], rule[2]
    first = base[0] + add[0]
    spread = max(base[1] + add[1] - first * first, 0.0)
    low: float = rule[3] * spread * rule[4]
    if low >= stop:
        return low
    count = targets.shape[1]
    worst = 0.0
    for j in range(count):
        raw = base[2 + j] + add[2 + j]
        gap = raw - targets[0, j]
        noise = max(base[2 + count + j] + add[2 + count + j] - raw * raw, 0.0) * rule[5]
        if mode == 0.0:
            penalty = max(gap * gap - kappa * (noise + targets[1, j] ** 2), 0.0)
        elif mode == 1.0:
            penalty = np.inf if gap * gap > kappa * kappa * noise else 0.0
        else:
            reach = kappa * (np.sqrt(spread * rule[5]) + targets[1, j])
            penalty = np.inf if abs(gap) > reach and gap != 0.0 else 0.0
        worst = worst + penalty / count if mean > 0.0 else max(worst, penalty)
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
def best_split(
    hist: Floats,
    whole: Floats,
    base: Floats,
    bins: Ints,
    categorical: Bools,
    terms: Ints,
    coef: Floats,
    shape: tuple[int, int],
    rule: Floats,
    targets: Floats,
    contrast: Ints,
    min_leaf: float,
    limit: float,
    goes_left: Bools,
) -> tuple[float, int, int, int]:
    """Return (score, feature, left model, right model) of the best split of a node, feature -1 when none < limit.

    hist (d, bins, L), whole (L,) the node's stats, base (C,) the totals without the node, bins (d,) in use;
    goes_left (bins,) is filled. Bin 0 holds missing values, which are tried on either side.
    """
    features = hist.shape[0]
    models, channels = shape
    best, best_feature, best_left, best_right = limit, -1, -1, -1
    # Channels are linear in the sums: each bin is expanded once, the right side is what the left has not.
    here, step, on_left, on_right = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    expand(whole, terms, coef, here)
    for a in range(models):
        for c in range(channels):
            here[a, c] += base[c]
    for f in range(features):
        order = np.empty(bins[f] - 1, np.int64)
        bin_order(hist[f], categorical[f], contrast, order)
        missing = hist[f, 0, 0]
        for side in range(2 if missing > 0 else 1):  # 0: missing goes right, 1: left
            rows = 0.0
            for a in range(models):
                on_left[a] = 0.0
            if side == 1:
                rows = missing
                expand(hist[f, 0], terms, coef, on_left)
            for at in range(-1 if side == 1 else 0, order.shape[0] - (1 if missing == 0 or side == 1 else 0)):
                if at >= 0:
                    cell = hist[f, order[at]]
                    expand(cell, terms, coef, step)
                    rows += cell[0]
                    for a in range(models):
                        for c in range(channels):
                            on_left[a, c] += step[a, c]
                    if cell[0] == 0:
                        continue
                if rows < min_leaf:
                    continue
                if whole[0] - rows < min_leaf:
                    break
                for a in range(models):
                    for c in range(channels):
                        on_right[a, c] = here[a, c] - on_left[a, c]
                for a in range(models):
                    for b in range(models):
                        if a == b:
                            continue
                        value = score(on_left[a], on_right[b], rule, targets, best)
                        if lower(value, best):
                            best, best_feature, best_left, best_right = value, f, a, b
                            goes_left[:] = False
                            for done in range(at + 1):
                                goes_left[order[done]] = True
                            goes_left[0] = side == 1 if missing > 0 else 2 * rows > whole[0]
    return best, best_feature, best_left, best_right


@jit
def split_level(
    frontier: Ints,
    hist: Floats,
    stats: Floats,
    totals: Floats,
    bins: Ints,
    categorical: Bools,
    terms: Ints,
    coef: Floats,
    shape: tuple[int, int],
    rule: Floats,
    targets: Floats,
    contrast: Ints,
    limits: Floats,
    count: int,
    tree: Ints,
    goes_left: Bools,
    scores: Floats,
    gains: Floats,
) -> int:
    """Split the nodes of one level in order, each given all leaves so far; return the new number of nodes.

    limits = [min_leaf, least gain, most leaves]; tree (4, nodes) = feature, left, right, model; scores (nodes,) the
    objective after the node was decided, gains (nodes,) what
    its split took off. totals (C,) is kept up to date.
    """
    models, channels = shape
    here = np.empty((models, channels))
    leaves = (count + 1) // 2
    for slot in range(frontier.shape[0]):
        node = frontier[slot]
        expand(stats[node], terms, coef, here)
        base = totals - here[tree[3, node]]
        now = score(base, here[tree[3, node]], rule, targets, np.inf)
        value, model = best_model(base, here, rule, targets)
        if lower(value, now):
            tree[3, node] = model
            now = value
        totals[:] = base + here[tree[3, node]]
        scores[node] = now
        if leaves >= limits[2] or stats[node, 0] < 2 * limits[0]:
            continue
        found, f, a, b = best_split(
            hist[slot], stats[node], base, bins, categorical, terms, coef, shape, rule, targets, contrast, limits[0],
            now - limits[1], goes_left[node],
        )  # fmt: skip
        if f < 0:
            continue
        left, right = count, count + 1
        count += 2
        leaves += 1
        tree[0, node], tree[1, node], tree[2, node] = f, left, right
        tree[3, left], tree[3, right] = a, b
        stats[left] = 0.0
        for bin_ in range(bins[f]):
            if goes_left[node, bin_]:
                stats[left] += hist[slot, f, bin_]
        stats[right] = stats[node] - stats[left]
        expand(stats[left], terms, coef, here)
        totals[:] = base + here[a]
        expand(stats[right], terms, coef, here)
        totals += here[b]
        scores[node], gains[node] = found, now - found
    return count
