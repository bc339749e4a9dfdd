"""One tree, grown from histograms.

Every (feature, threshold, left model, right model) is scored exactly: a split changes the channels
of one leaf only, so its score needs the histogram of that leaf and the totals.
"""

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.estimators.behavior.objective import TIE, Objective
from counterrank.estimators.behavior.settings import TreeLimits
from counterrank.estimators.behavior.training import Codes
from counterrank.kernels.jit import jit


@jit
def add_to_bins(
    chosen: Ints, codes: Codes, y: Floats, z: Floats, replicates: Floats, out: Floats
) -> None:
    """Add the statistics of the chosen rows into out (d, bins, L), by their bins codes (d, n); see `TreeRows`."""
    models, width = len(y), out.shape[2]
    # The statistics of one row at a time: those of all rows would be the largest array of a fit.
    row = np.ones(width)
    for i in chosen:
        for m in range(models):
            row[1 + m] = y[m, i]
            row[1 + models + m] = y[m, i] * y[m, i]
        at = 1 + 2 * models
        for b in range(len(replicates)):
            for m in range(models):
                row[at + m] = replicates[b, i] * z[m, i]
            at += models
        for f in range(out.shape[0]):
            cell = out[f, codes[f, i]]
            for c in range(width):
                cell[c] += row[c]


class TreeRows(NamedTuple):
    """Rows chosen (r,) of n: their bins codes (d, n), and what makes their statistics [1, y_m, y_m^2, v_b z_m] (L,).

    y (M, n) are contributions; replicates v (B, n) are weights of z (M, n), which is y unless an
    estimate averages something else.
    """

    chosen: Ints
    codes: Codes
    y: Floats
    z: Floats
    replicates: Floats

    @classmethod
    def of(cls, objective: Objective, y: Floats, codes: Codes) -> "TreeRows":
        """Return all rows, with contributions y (n, M)."""
        z = y if objective.averaged is None else objective.averaged
        if not len(codes):  # no context: a feature of one bin has the sums of all rows
            codes = np.zeros((1, len(y)), dtype=np.uint8)
        own, other = (np.ascontiguousarray(table.T) for table in (y, z))
        return cls(np.arange(len(y)), codes, own, other, objective.replicates)

    def divided(self, feature: int, goes_left: Bools) -> "tuple[TreeRows, TreeRows]":
        """Return the rows whose bin of a feature goes left (bins,), and the others."""
        left = goes_left[self.codes[feature, self.chosen]]
        one, two = (self._replace(chosen=self.chosen[side]) for side in (left, ~left))
        return one, two

    def histogram(self, bins: int) -> Floats:
        """Return the sums of the rows' statistics by feature and bin (d, bins, L)."""
        width = 1 + (2 + len(self.replicates)) * len(self.y)
        out = np.zeros((len(self.codes), bins, width))
        add_to_bins(*self, out)
        return out


#: The ways to divide a node in two: N of them, features in order, missing values right, then left. sums (N,
#: L) go left; (3, N) feature, missing left, bins taken of the order (d, bins - 1).
Cuts = tuple[Floats, Ints, Ints]


def cuts_of(hist: Floats, categorical: Bools, contrast: tuple[int, int], least: int) -> Cuts:
    """Return the cuts of a node's histogram (d, bins, L) with `least` rows on either side."""
    order = bin_order(hist, categorical, contrast)
    inner = np.take_along_axis(hist[:, 1:], order[:, :, None] - 1, axis=1)
    # Cut 0 takes no known value: alone it leaves a side empty and is dropped below, with the
    # missing ones it asks whether a value is there at all.
    taken = np.zeros_like(hist)
    np.cumsum(inner, axis=1, out=taken[:, 1:])
    missing = hist[:, :1]
    left = np.stack([taken, taken + missing], axis=1)  # (d, 2, bins, L)
    rows = left[..., 0]
    # An empty bin moves nothing: the cut before it is the same, and so is the other side of no
    # missing values.
    moves = np.ones(rows.shape, dtype=bool)
    moves[:, :, 1:] = inner[:, None, :, 0] > 0
    moves[:, 1:] &= missing[:, :, None, 0] > 0
    good = moves & (rows >= least) & (hist[0, :, 0].sum() - rows >= least)
    return left[good], np.array(np.nonzero(good)), order


def bin_order(hist: Floats, categorical: Bools, contrast: tuple[int, int]) -> Ints:
    """Return the bins 1.. of each feature in scanning order (d, bins - 1).

    As they are, or categories by mean contrast.

    The contrast is the mean difference between the densest and the sparsest model, the sign of the
    bias at stake. Ordered by a mean, the best of all 2^(c-1) subsets is a prefix for one squared
    error (Fisher 1958); for this objective it is a good guess in linear time.
    """
    order = np.empty((len(hist), hist.shape[1] - 1), dtype=np.int64)
    order[:] = np.arange(1, hist.shape[1])
    for f in np.flatnonzero(categorical):
        cells = hist[f, 1:]
        dense, sparse = (cells[:, 1 + m] for m in contrast)
        key = np.full(len(cells), np.inf)
        np.divide(dense - sparse, cells[:, 0], out=key, where=cells[:, 0] > 0)
        order[f] = np.argsort(key, kind="stable") + 1
    return order


class Grower:
    """A growing tree: nodes in flat arrays, and the channels of the whole assignment.

    `tree` (4, nodes) holds feature (-1: leaf), left, right, model; `goes_left` (nodes, bins);
    `stats` (nodes, L) the sums of each node; `scores` (nodes,) the objective of the whole
    assignment once the node was decided, `gains` (nodes,) what its split took off, `chances` (nodes,)
    how probable its split is by chance, `totals` (C,) the channels of the whole assignment.
    """

    def __init__(
        self, objective: Objective, limits: TreeLimits, bins: Ints, categorical: Bools
    ) -> None:
        # A full tree of that depth, or of so many leaves.
        most = min(2 ** (limits.max_depth + 1) - 1, 2 * limits.max_leaves - 1)
        self.objective, self.limits, self.categorical = objective, limits, categorical
        self.tree = np.full((4, most), -1, dtype=np.int64)
        self.stats = np.zeros((most, objective.width))
        self.scores, self.gains = np.full(most, np.nan), np.zeros(most)
        self.chances = np.full(most, np.nan)
        self.goes_left = np.zeros((most, int(bins.max(initial=1))), dtype=bool)
        self.totals = np.zeros(2 + len(objective.replicates))
        self.count = 1

    def grow(self, rows: TreeRows) -> None:
        """Choose the root's model, then split node by node, each given all leaves so far."""
        bins = self.goes_left.shape[1]
        hist = rows.histogram(bins)
        self.stats[0] = hist[0].sum(axis=0)
        here = self.objective.channels(self.stats[0])
        self.scores[0], self.tree[3, 0] = self.objective.best_model(np.zeros_like(here[0]), here)
        self.totals = here[self.tree[3, 0]]
        # A share of the root's score: MSEs have the rewards' unit squared.
        root = abs(float(self.scores[0]))
        least_gain = self.limits.min_gain * root if np.isfinite(root) else 0.0
        least = self.limits.leaf_rows(self.objective.n_grow)
        waiting: deque[tuple[int, int, TreeRows, Floats]] = deque()
        if len(self.categorical) and self.limits.max_depth:
            waiting.append((0, 1, rows, hist))
        while waiting:
            node, depth, some, hist = waiting.popleft()
            around = self._settle(node)
            # A binary tree of c nodes has (c + 1) / 2 leaves.
            room = (self.count + 1) // 2 < self.limits.max_leaves
            if not (room and self.stats[node, 0] >= 2 * least):
                continue
            cuts = cuts_of(hist, self.categorical, self.objective.contrast, least)
            if not self._divide(node, cuts, hist, around, least_gain):
                continue
            sides = some.divided(int(self.tree[0, node]), self.goes_left[node])
            self.chances[node] = self._chance(node, sides, len(cuts[0]))
            if depth < self.limits.max_depth:
                # Parent = left + right for sums: only the smaller child is read (as LightGBM and
                # scikit-learn do).
                small = int(len(sides[0].chosen) > len(sides[1].chosen))
                summed = sides[small].histogram(bins)
                sums = (hist - summed, summed) if small else (summed, hist - summed)
                for child, side, own in zip(
                    self.tree[1:3, node].tolist(), sides, sums, strict=True
                ):
                    waiting.append((child, depth + 1, side, own))
        self.merge_equal()

    def _settle(self, node: int) -> Floats:
        """Give a leaf the best model, given all other leaves; its own wins a tie.

        Return its channels under each model on top of the other leaves' totals (M, C).
        """
        here, own = self.objective.channels(self.stats[node]), self.tree[3, node]
        # Squared bias is of the whole assignment: which model suits a leaf depends on what the
        # others have become since its parent was split.
        others = self.totals - here[own]
        now = self.objective.score(others + here[own])
        value, model = self.objective.best_model(others, here)
        if value < (now if np.isinf(now) else now - TIE * abs(now)):
            own, now = model, value
        self.tree[3, node], self.scores[node] = own, now
        around: Floats = here + others
        self.totals = around[own]
        return around

    def _divide(
        self, node: int, cuts: Cuts, hist: Floats, around: Floats, least_gain: float
    ) -> bool:
        """Split a node by the cut and the two models that lower the score most, if any does."""
        (below, where, order), now = cuts, float(self.scores[node])
        left = self.objective.channels(below)
        right = around - left
        # Sides of one model are the node undivided: any other model for it was tried by `_settle`.
        score, at, first, second = self.objective.best(
            left, right, below=now - least_gain, different=True
        )
        if at < 0:
            return False
        feature, missing_left, taken = (int(v) for v in where[:, at])
        sums, rows = below[at], self.stats[node, 0]
        self.goes_left[node, order[feature, :taken]] = True
        # Where no value was missing, those to come follow the larger side.
        known = hist[feature, 0, 0] > 0
        self.goes_left[node, 0] = missing_left > 0 if known else 2 * sums[0] > rows
        a, b = self.count, self.count + 1
        self.tree[:3, node] = feature, a, b
        self.tree[3, a], self.tree[3, b] = first, second
        self.stats[a], self.stats[b] = sums, self.stats[node] - sums
        self.totals = left[at, first] + right[at, second]
        self.scores[node], self.gains[node] = score, now - score
        self.count += 2
        return True

    def _chance(self, node: int, sides: tuple[TreeRows, TreeRows], tried: int) -> float:
        """Return how probable it is that sides differ so much where the context tells nothing about behaviour.

        The difference of the two models' estimates is the bias of one against the other. Its mean is
        the same on both sides then; a test of two means, times the number of cuts tried (Bonferroni).
        """
        left, right = self.tree[3, self.tree[1:3, node]].tolist()
        with np.errstate(all="ignore"):
            one, two = (side.y[left, side.chosen] - side.y[right, side.chosen] for side in sides)
            noise = np.sqrt(one.var() / len(one) + two.var() / len(two))
            z = abs(float((two.mean() - one.mean()) / noise))
        # Numbers too large to compare show nothing.
        return 1.0 if math.isnan(z) else min(1.0, tried * math.erfc(z / math.sqrt(2)))

    def merge_equal(self) -> None:
        """Undo splits between leaves of one model: the assignment stays the same."""
        feature, left, right, model = self.tree
        for at in np.flatnonzero(feature >= 0)[::-1]:
            a, b = left[at], right[at]
            if feature[a] < 0 and feature[b] < 0 and model[a] == model[b]:
                self.tree[:, at], self.gains[at] = (-1, -1, -1, model[a]), 0.0
