"""Growth of one tree, a level at a time, from histograms that somebody else sums."""

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.tree.binning import Codes
from counterrank.behavior.tree.limits import Limits
from counterrank.behavior.tree.objective import Objective, Rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Grower:
    """A growing tree: nodes in flat arrays, a frontier whose histograms it asks for, totals of the objective.

    `tree` (4, nodes) holds feature (-1: leaf), left, right, model; `stats` (nodes, L) the sums of each node;
    `scores` (nodes,) the objective of the whole assignment once the node was decided.
    """

    def __init__(self, objective: Objective, limits: Limits, bins: Ints, categorical: Bools) -> None:
        most = min(2 ** (limits.max_depth + 1) - 1, 2 * limits.max_leaves - 1)
        self.objective = objective
        self.limits = limits
        self.bins, self.categorical = bins, categorical
        self.terms, self.coef, self.shape = objective.terms()
        self.rule, self.marks = objective.rule, objective.marks
        self.contrast = np.array([1 + m for m in objective.contrast], dtype=np.int64)
        self.tree = np.full((4, most), -1, dtype=np.int64)
        self.stats = np.zeros((most, objective.width))
        self.scores = np.full(most, np.nan)
        self.gains = np.zeros(most)
        self.goes_left = np.zeros((most, int(bins.max(initial=1))), dtype=bool)
        self.totals = np.zeros(self.shape[1])
        self.count = 1
        self.level = 0
        self.frontier = np.zeros(1, dtype=np.int64)

    def plant(self, stats: Floats) -> None:
        """Choose the root's model from the sums of all rows (L,)."""
        from counterrank.kernels import splitting_grow

        self.stats[0] = stats
        self.root_score, self.tree[3, 0] = splitting_grow.plant(
            stats, self.terms, self.coef, self.shape, self.rule, self.marks, self.totals
        )
        self.scores[0] = self.root_score

    @property
    def wants(self) -> Ints:
        """The nodes whose histograms are wanted next; none when the tree is finished."""
        done = self.level >= self.limits.max_depth or len(self.bins) == 0
        return np.empty(0, dtype=np.int64) if done else self.frontier

    def split(self, hist: Floats) -> None:
        """Split the frontier, given its histograms (nodes, d, bins, L)."""
        from counterrank.kernels import splitting

        before, bounds = self.count, self.bounds
        bounds[1] *= self.root_score if np.isfinite(self.root_score) else 0.0
        self.count = splitting.split_level(
            self.frontier, hist, self.stats, self.totals, self.bins, self.categorical, self.terms, self.coef,
            self.shape, self.rule, self.marks, self.contrast, bounds, self.count, self.tree, self.goes_left,
            self.scores, self.gains,
        )  # fmt: skip
        self.level += 1
        self.frontier = np.arange(before, self.count, dtype=np.int64)

    def grow(self, rows: Rows, codes: Codes) -> None:
        """Grow to the end on rows in memory, with bins `codes` (n, d)."""
        from counterrank.kernels import splitting_grow

        node = np.zeros(len(codes), dtype=np.int32)
        if not len(self.bins):
            self.plant(rows.totals(node, 1)[0])
            return
        self.count, self.level = splitting_grow.grow_tree(
            rows.y, rows.use, rows.pairs, rows.replicates, codes, node, self.bins, self.categorical, self.terms,
            self.coef, self.shape, self.rule, self.marks, self.contrast, self.bounds, self.tree, self.goes_left,
            self.stats, self.scores, self.gains, self.totals,
        )  # fmt: skip

    @property
    def bounds(self) -> Floats:
        """Least rows of a leaf, least gain as a share of the root's score, most leaves, most levels."""
        limits = self.limits
        least = limits.leaf_rows(self.objective.n_grow)
        return np.array([least, limits.min_gain, limits.max_leaves, limits.max_depth], dtype=np.float64)

    @property
    def score(self) -> float:
        """The objective of the whole assignment."""
        from counterrank.kernels import splitting

        return float(splitting.score(self.totals, np.zeros_like(self.totals), self.rule, self.marks, np.inf))
