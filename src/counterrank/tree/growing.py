"""One tree: grown level by level from histograms, its splits confirmed on other rows, its models
chosen once more.

The search tries thousands of splits and keeps the one whose estimated bias is smallest by luck; on
other rows the same split has one score, without that luck. A split stays if it still lowers the
objective there.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.tree.binning import Codes
from counterrank.tree.kernels import pruning, search
from counterrank.tree.kernels.statistics import Features, Nodes, Rows, add_histogram, route
from counterrank.tree.objective import Objective
from counterrank.tree.settings import SWEEPS, Limits

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Grower:
    """A growing tree: nodes in flat arrays, a frontier whose histograms it asks for, totals of the
    objective.

    `tree` (4, nodes) holds feature (-1: leaf), left, right, model; `stats` (nodes, L) the sums of
    each node; `scores` (nodes,) the objective of the whole assignment once the node was decided.
    Histograms may be summed by somebody else (`start` and `split`, for logs that are streamed) or
    here, on rows in memory (`grow`).
    """

    def __init__(
        self, objective: Objective, limits: Limits, bins: Ints, categorical: Bools
    ) -> None:
        # A full tree of that depth, or of so many leaves.
        most = min(2 ** (limits.max_depth + 1) - 1, 2 * limits.max_leaves - 1)
        self.objective = objective
        self.limits = limits
        self.features, self.goal = Features(bins, categorical), objective.goal
        self.tree = np.full((4, most), -1, dtype=np.int64)
        self.stats = np.zeros((most, objective.width))
        self.scores = np.full(most, np.nan)
        self.gains = np.zeros(most)
        self.goes_left = np.zeros((most, int(bins.max(initial=1))), dtype=bool)
        self.totals = np.zeros(self.goal.shape[1])
        self.least_gain = 0.0
        self.count = 1
        self.level = 0
        self.frontier = np.zeros(1, dtype=np.int64)

    def start(self, stats: Floats) -> None:
        """Choose the root's model from the sums of all rows (L,)."""
        self.stats[0] = stats
        search.choose_root(self.goal, self.nodes)
        # The least gain is a share of the root's score: MSEs have the rewards' unit squared.
        root = abs(float(self.scores[0]))
        self.least_gain = self.limits.min_gain * root if np.isfinite(root) else 0.0

    @property
    def wants(self) -> Ints:
        """The nodes whose histograms are wanted next; none when the tree is finished."""
        done = self.level >= self.limits.max_depth or len(self.features.bins) == 0
        return np.empty(0, dtype=np.int64) if done else self.frontier

    def split(self, hist: Floats) -> None:
        """Split the frontier, given its histograms (nodes, d, bins, L)."""
        before, least = self.count, self.limits.leaf_rows(self.objective.n_grow)
        bounds = np.array([least, self.least_gain, self.limits.max_leaves], dtype=np.float64)
        self.count = search.split_level(
            self.frontier, hist, self.features, self.goal, bounds, self.nodes, self.count
        )
        self.level += 1
        self.frontier = np.arange(before, self.count, dtype=np.int64)

    def grow(self, rows: Rows, codes: Codes) -> None:
        """Grow to the end on rows in memory, with bins `codes` (n, d)."""
        node = np.zeros(len(codes), dtype=np.int32)
        if not len(self.features.bins):
            self.start(rows.totals(node, 1)[0])
            return
        hist = self.histograms(rows, codes, node, self.frontier)
        self.start(hist[0, 0].sum(axis=0))
        while len(self.wants):
            parents = self.frontier
            self.split(hist)
            if len(self.wants):
                route(codes, node, self.tree, self.goes_left)
                hist = self._child_histograms(rows, codes, node, parents, hist)

    def histograms(self, rows: Rows, codes: Codes, node: NDArray[np.int32], wanted: Ints) -> Floats:
        """Return the histograms (nodes, d, bins, L) of some nodes, from the node of each row (-1:
        none).
        """
        out = np.zeros((len(wanted), codes.shape[1], self.goes_left.shape[1], rows.width))
        place = np.full(self.tree.shape[1], -1, dtype=np.int64)
        place[wanted] = np.arange(len(wanted))
        add_histogram(rows, codes, node, place, out)
        return out

    def _child_histograms(
        self, rows: Rows, codes: Codes, node: NDArray[np.int32], parents: Ints, hist: Floats
    ) -> Floats:
        """Return the histograms of the frontier: the smaller of each split is summed, the larger is
        what remains.
        """
        of_parents = np.flatnonzero(self.tree[0, parents] >= 0)
        # Parent = left + right for sums: only the smaller child is read (as LightGBM and
        # scikit-learn do).
        children = self.tree[1:3, parents[of_parents]]  # (2, splits)
        small = np.where(
            self.stats[children[0], 0] <= self.stats[children[1], 0], children[0], children[1]
        )
        summed = self.histograms(rows, codes, node, small)
        out = np.empty((len(self.frontier), *hist.shape[1:]))
        first = self.frontier[0]
        out[small - first] = summed
        out[children.sum(axis=0) - small - first] = hist[of_parents] - summed
        return out

    @property
    def nodes(self) -> Nodes:
        """The arrays as the kernels take them."""
        return Nodes(self.tree, self.goes_left, self.stats, self.scores, self.gains, self.totals)

    @property
    def score(self) -> float:
        """The objective of the whole assignment."""
        rest = np.zeros_like(self.totals)
        return float(search.score(self.totals, rest, self.goal.rule, self.goal.targets, np.inf))


def node_sums(grower: Grower, rows: Rows, codes: Codes) -> Floats:
    """Return the sums of the rows' statistics in every node (nodes, L)."""
    node = np.zeros(len(codes), dtype=np.int32)
    if grower.count > 1:
        pruning.leaf_of(codes, grower.tree, grower.goes_left, node)
    sums = rows.totals(node, grower.count)
    pruning.add_children(grower.tree, sums)
    return sums


class Scorer:
    """The objective of assignments on given node sums (nodes, L)."""

    def __init__(self, objective: Objective, sums: Floats) -> None:
        self.rule, self.marks = objective.rule, objective.marks
        terms, coef, shape = objective.terms()
        self.channels = np.empty((len(sums), *shape))  # (nodes, M, C)
        search.expand_all(sums, terms, coef, self.channels)


def prune(grower: Grower, scorer: Scorer) -> None:
    """Undo the splits, from the bottom up, that do not lower the objective of `scorer` by the least
    gain.

    What one split gains depends on the others, so this is repeated until every last split that is
    left does.
    """
    share = grower.limits.min_gain
    pruning.prune(grower.tree, grower.gains, scorer.channels, scorer.rule, scorer.marks, share)


def choose_again(grower: Grower, scorer: Scorer) -> None:
    """Choose each leaf's model again, in turn, until no change lowers the objective of `scorer`."""
    pruning.choose_again(grower.tree, scorer.channels, scorer.rule, scorer.marks, SWEEPS.value)


def finish(grower: Grower) -> None:
    """Undo splits that make no difference, and drop the nodes that can no longer be reached."""
    merge_equal(grower.tree, grower.gains)
    kept, grower.tree = compacted(grower.tree)
    grower.stats, grower.scores, grower.gains = (
        grower.stats[kept],
        grower.scores[kept],
        grower.gains[kept],
    )
    grower.goes_left, grower.count = grower.goes_left[kept], len(kept)


def merge_equal(tree: Ints, gains: Floats) -> None:
    """Undo splits between leaves of one model: the assignment stays the same."""
    for at in np.flatnonzero(tree[0] >= 0)[::-1]:
        a, b = tree[1, at], tree[2, at]
        if tree[0, a] < 0 and tree[0, b] < 0 and tree[3, a] == tree[3, b]:
            tree[:, at], gains[at] = (-1, -1, -1, tree[3, a]), 0.0


def compacted(tree: Ints) -> tuple[list[int], Ints]:
    """Return the nodes that are still reachable, parents before children, and the tree of these
    alone.
    """
    kept, numbered = [0], []
    for at in kept:  # grows on the way
        feature, left, right, model = (int(v) for v in tree[:, at])
        if feature >= 0:
            numbered.append((feature, len(kept), len(kept) + 1, model))
            kept += [left, right]
        else:
            numbered.append((-1, -1, -1, model))
    return kept, np.array(numbered, dtype=np.int64).T.copy()
