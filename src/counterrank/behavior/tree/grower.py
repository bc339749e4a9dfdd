"""Growth of one tree, a level at a time, from histograms that somebody else sums."""

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.tree.limits import Limits
from counterrank.behavior.tree.objective import Objective

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
        self.index, self.coef = objective.channels()
        self.rule, self.marks = objective.rule, objective.marks
        self.contrast = np.array([1 + m for m in objective.contrast], dtype=np.int64)
        self.tree = np.full((4, most), -1, dtype=np.int64)
        self.stats = np.zeros((most, objective.width))
        self.scores = np.full(most, np.nan)
        self.gains = np.zeros(most)
        self.goes_left = np.zeros((most, int(bins.max(initial=1))), dtype=bool)
        self.totals = np.zeros(self.index.shape[1])
        self.count = 1
        self.level = 0
        self.frontier = np.zeros(1, dtype=np.int64)

    def plant(self, stats: Floats) -> None:
        """Choose the root's model from the sums of all rows (L,)."""
        from counterrank.kernels import splitting

        self.stats[0] = stats
        channels = np.empty(self.index.shape[:2])
        splitting.expand(stats, self.index, self.coef, channels)
        self.scores[0], model = splitting.best_model(self.totals, channels, self.rule, self.marks)
        self.tree[3, 0] = model
        self.totals += channels[model]
        self.root_score = float(self.scores[0])

    @property
    def wants(self) -> Ints:
        """The nodes whose histograms are wanted next; none when the tree is finished."""
        done = self.level >= self.limits.max_depth or len(self.bins) == 0
        return np.empty(0, dtype=np.int64) if done else self.frontier

    def split(self, hist: Floats) -> None:
        """Split the frontier, given its histograms (nodes, d, bins, L)."""
        from counterrank.kernels import splitting

        before = self.count
        gain = self.limits.min_gain * abs(self.root_score) if np.isfinite(self.root_score) else 0.0
        bounds = [self.limits.leaf_rows(self.objective.n_grow), gain, self.limits.max_leaves]
        self.count = splitting.split_level(
            self.frontier, hist, self.stats, self.totals, self.bins, self.categorical, self.index, self.coef,
            self.rule, self.marks, self.contrast, np.array(bounds, dtype=np.float64), self.count, self.tree,
            self.goes_left, self.scores, self.gains,
        )  # fmt: skip
        self.level += 1
        self.frontier = np.arange(before, self.count, dtype=np.int64)

    @property
    def score(self) -> float:
        """The objective of the whole assignment."""
        from counterrank.kernels import splitting

        return float(splitting.score(self.totals, np.zeros_like(self.totals), self.rule, self.marks, np.inf))
