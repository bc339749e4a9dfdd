"""Growth of one tree, a level at a time, from histograms that somebody else sums."""

import numpy as np
from numpy.typing import NDArray

from counterrank.tree.binning import Codes
from counterrank.tree.kernels.splitting_data import Features, Nodes, Rows
from counterrank.tree.limits import Limits
from counterrank.tree.objective import Objective

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
        self.features, self.goal = Features(bins, categorical), objective.goal
        self.tree = np.full((4, most), -1, dtype=np.int64)
        self.stats = np.zeros((most, objective.width))
        self.scores = np.full(most, np.nan)
        self.gains = np.zeros(most)
        self.goes_left = np.zeros((most, int(bins.max(initial=1))), dtype=bool)
        self.totals = np.zeros(self.goal.shape[1])
        self.count = 1
        self.level = 0
        self.frontier = np.zeros(1, dtype=np.int64)

    def plant(self, stats: Floats) -> None:
        """Choose the root's model from the sums of all rows (L,)."""
        from counterrank.tree.kernels import splitting_grow

        self.stats[0] = stats
        splitting_grow.plant(self.goal, self.nodes)
        self.root_score = float(self.scores[0])

    @property
    def wants(self) -> Ints:
        """The nodes whose histograms are wanted next; none when the tree is finished."""
        done = self.level >= self.limits.max_depth or len(self.features.bins) == 0
        return np.empty(0, dtype=np.int64) if done else self.frontier

    def split(self, hist: Floats) -> None:
        """Split the frontier, given its histograms (nodes, d, bins, L)."""
        from counterrank.tree.kernels import splitting_grow

        before, bounds = self.count, self.bounds
        bounds[1] *= abs(self.root_score) if np.isfinite(self.root_score) else 0.0
        self.count = splitting_grow.split_level(
            self.frontier, hist, self.features, self.goal, bounds, self.nodes, self.count
        )
        self.level += 1
        self.frontier = np.arange(before, self.count, dtype=np.int64)

    def grow(self, rows: Rows, codes: Codes) -> None:
        """Grow to the end on rows in memory, with bins `codes` (n, d)."""
        from counterrank.tree.kernels import splitting_grow

        node = np.zeros(len(codes), dtype=np.int32)
        if not len(self.features.bins):
            self.plant(rows.totals(node, 1)[0])
            return
        self.count, self.level = splitting_grow.grow_tree(
            rows, codes, node, self.features, self.goal, self.bounds, self.nodes
        )

    @property
    def nodes(self) -> Nodes:
        """The arrays as the kernels take them."""
        return Nodes(self.tree, self.goes_left, self.stats, self.scores, self.gains, self.totals)

    @property
    def bounds(self) -> Floats:
        """Least rows of a leaf, least gain as a share of the root's score, most leaves, most levels."""
        limits = self.limits
        least = limits.leaf_rows(self.objective.n_grow)
        return np.array([least, limits.min_gain, limits.max_leaves, limits.max_depth], dtype=np.float64)

    @property
    def score(self) -> float:
        """The objective of the whole assignment."""
        from counterrank.tree.kernels import splitting

        rest = np.zeros_like(self.totals)
        return float(splitting.score(self.totals, rest, self.goal.rule, self.goal.targets, np.inf))
