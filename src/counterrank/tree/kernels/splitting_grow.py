"""Growth of a tree: nodes decided level by level, and on rows in memory the histograms and rows' moves between."""

import numpy as np

from counterrank.kernels.jit import jit
from counterrank.tree.kernels.histogram import add_histogram, route
from counterrank.tree.kernels.splitting import best_model, expand, lower, score
from counterrank.tree.kernels.splitting_data import Codes, Features, Floats, Goal, Ints, Nodes, Places, Rows
from counterrank.tree.kernels.splitting_search import best_split


@jit
def plant(goal: Goal, nodes: Nodes) -> None:
    """Choose the root's model from its sums; the totals become its channels."""
    here = np.empty(goal.shape)
    expand(nodes.stats[0], goal.terms, goal.coef, here)
    nodes.totals[:] = 0.0
    nodes.scores[0], nodes.tree[3, 0] = best_model(nodes.totals, here, goal.rule, goal.targets)
    nodes.totals[:] = here[nodes.tree[3, 0]]


@jit
def settle(node: int, here: Floats, goal: Goal, nodes: Nodes) -> None:
    """Give a leaf with channels here (M, C) the best model, given all other leaves; its own wins a tie.

    Afterwards `here` stands on top of the other leaves' totals.
    """
    own = nodes.tree[3, node]
    base = nodes.totals - here[own]
    now = score(base, here[own], goal.rule, goal.targets, np.inf)
    value, model = best_model(base, here, goal.rule, goal.targets)
    if lower(value, now):
        nodes.tree[3, node], now = model, value
    nodes.scores[node] = now
    here += base
    nodes.totals[:] = here[nodes.tree[3, node]]


@jit
def divide(node: int, cells: Floats, models: tuple[int, int], goal: Goal, nodes: Nodes, count: int) -> None:
    """Make nodes count and count + 1 the children of a split node, with two models; cells (bins, L) of its feature."""
    tree, stats, totals = nodes.tree, nodes.stats, nodes.totals
    left, right = count, count + 1
    tree[1, node], tree[2, node], tree[3, left], tree[3, right] = left, right, models[0], models[1]
    stats[left] = 0.0
    for b in range(cells.shape[0]):
        if nodes.goes_left[node, b]:
            stats[left] += cells[b]
    stats[right] = stats[node] - stats[left]
    here = np.empty(goal.shape)
    expand(stats[node], goal.terms, goal.coef, here)
    totals -= here[tree[3, node]]
    for child in (left, right):
        expand(stats[child], goal.terms, goal.coef, here)
        totals += here[tree[3, child]]


@jit
def split_level(
    frontier: Ints, hist: Floats, features: Features, goal: Goal, limits: Floats, nodes: Nodes, count: int
) -> int:
    """Split the nodes of one level in order, each given all leaves so far; return the new number of nodes.

    hist (nodes of the frontier, d, bins, L); limits = [min_leaf, least gain, most leaves].
    """
    here = np.empty(goal.shape)
    for slot in range(frontier.shape[0]):
        node = frontier[slot]
        expand(nodes.stats[node], goal.terms, goal.coef, here)
        settle(node, here, goal, nodes)
        rows, now = nodes.stats[node, 0], nodes.scores[node]
        if (count + 1) // 2 >= limits[2] or rows < 2 * limits[0]:
            continue
        bounds = np.array([rows, limits[0], now - limits[1]])
        found, f, a, b = best_split(hist[slot], features, here, goal, bounds, nodes.goes_left[node])
        if f < 0:
            continue
        nodes.tree[0, node] = f
        divide(node, hist[slot, f], (a, b), goal, nodes, count)
        nodes.scores[node], nodes.gains[node] = found, now - found
        count += 2
    return count


@jit
def siblings(nodes: Nodes, parent: int) -> tuple[int, int]:
    """Return the smaller and the larger child of a split node."""
    a, b = nodes.tree[1, parent], nodes.tree[2, parent]
    return (a, b) if nodes.stats[a, 0] <= nodes.stats[b, 0] else (b, a)


@jit
def child_histograms(
    rows: Rows, codes: Codes, node: Places, parents: Ints, hist: Floats, nodes: Nodes, children: Ints
) -> Floats:
    """Return the histograms of the children: the smaller of each split is summed, the larger is what remains."""
    first = children[0]
    slot_of = np.full(nodes.tree.shape[1], -1, np.int64)
    out = np.zeros((children.shape[0], hist.shape[1], hist.shape[2], hist.shape[3]))
    for parent in parents:
        if nodes.tree[0, parent] >= 0:
            small, _ = siblings(nodes, parent)
            slot_of[small] = small - first
    add_histogram(rows, codes, node, slot_of, out)
    for slot in range(parents.shape[0]):
        if nodes.tree[0, parents[slot]] >= 0:
            small, large = siblings(nodes, parents[slot])
            out[large - first] = hist[slot] - out[small - first]
    return out


@jit
def grow_tree(
    rows: Rows, codes: Codes, node: Places, features: Features, goal: Goal, limits: Floats, nodes: Nodes
) -> tuple[int, int]:
    """Return the number of nodes and of levels; limits = [min_leaf, share of the root's score, leaves, depth]."""
    hist = np.zeros((1, codes.shape[1], nodes.goes_left.shape[1], nodes.stats.shape[1]))
    slot_of = np.full(nodes.tree.shape[1], -1, np.int64)
    slot_of[0] = 0
    add_histogram(rows, codes, node, slot_of, hist)
    for b in range(hist.shape[2]):
        nodes.stats[0] += hist[0, 0, b]
    plant(goal, nodes)
    bounds = limits.copy()
    bounds[1] = limits[1] * abs(nodes.scores[0]) if np.isfinite(nodes.scores[0]) else 0.0
    frontier = np.zeros(1, np.int64)
    count, level = 1, 0
    while level < limits[3] and frontier.shape[0] > 0:
        children = split_level(frontier, hist, features, goal, bounds, nodes, count)
        parents, frontier = frontier, np.arange(count, children)
        count = children
        level += 1
        if frontier.shape[0] > 0 and level < limits[3]:
            route(codes, node, nodes.tree, nodes.goes_left)
            hist = child_histograms(rows, codes, node, parents, hist, nodes, frontier)
    return count, level
