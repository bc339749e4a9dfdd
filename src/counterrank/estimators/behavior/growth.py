"""One tree, grown from histograms.

Every (feature, threshold, left model, right model) is scored exactly: a split changes the channels
of one leaf only, so its score needs the histogram of that leaf and the totals.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.estimators.behavior.objective import Objective, lower
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
        place = 1 + 2 * models
        for b in range(len(replicates)):
            for m in range(models):
                row[place + m] = replicates[b, i] * z[m, i]
            place += models
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
    def from_objective(cls, objective: Objective, y: Floats, codes: Codes) -> "TreeRows":
        """Return all rows, with contributions y (n, M)."""
        z = y if objective.averaged is None else objective.averaged
        if not len(codes):  # no context: a feature of one bin has the sums of all rows
            codes = np.zeros((1, len(y)), dtype=np.uint8)
        rewards, averaged = (np.ascontiguousarray(table.T) for table in (y, z))
        return cls(np.arange(len(y)), codes, rewards, averaged, objective.replicates)

    def divided(self, feature: int, goes_left: Bools) -> "tuple[TreeRows, TreeRows]":
        """Return the rows whose bin of a feature goes left (bins,), and the others."""
        left = goes_left[self.codes[feature, self.chosen]]
        left_rows, right_rows = (self._replace(chosen=self.chosen[side]) for side in (left, ~left))
        return left_rows, right_rows

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
    cumulated = np.zeros_like(hist)
    np.cumsum(inner, axis=1, out=cumulated[:, 1:])
    missing = hist[:, :1]
    left = np.stack([cumulated, cumulated + missing], axis=1)  # (d, 2, bins, L)
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


@dataclass(slots=True, eq=False)
class Group:
    """The rows of a node: the sums (L,) of their statistics, their model, and its split where it has one.

    `score` is the objective of the whole assignment once the group was decided, `gain` what its split
    took off, and `chance` how probable the split is by chance. `goes_left` (bins,) are the bins of the
    feature on the first of the two `sides`.
    """

    sums: Floats
    model: int
    score: float = math.nan
    gain: float = 0.0
    chance: float = math.nan
    feature: int = -1
    goes_left: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    sides: tuple["Group", ...] = ()

    def merge_equal(self) -> None:
        """Undo splits between leaves of one model: the assignment stays the same."""
        for side in self.sides:
            side.merge_equal()
        if self.sides and not any(side.sides for side in self.sides):
            left, right = self.sides
            if left.model == right.model:
                self.model, self.gain, self.sides = left.model, 0.0, ()


#: A group with its depth, its rows and their histogram.
Waiting = tuple[Group, int, TreeRows, Floats]


class Grower:
    """A growing tree: `totals` (C,) are the channels of the whole assignment, which has so many `leaves`."""

    def __init__(
        self, objective: Objective, limits: TreeLimits, bins: int, categorical: Bools
    ) -> None:
        self.objective, self.limits, self.categorical = objective, limits, categorical
        self.bins, self.leaves = bins, 1
        self.totals = np.zeros(2 + len(objective.replicates))

    def grow(self, rows: TreeRows) -> Group:
        """Choose the root's model, then split group by group, each given all leaves so far."""
        hist = rows.histogram(self.bins)
        root = Group(hist[0].sum(axis=0), 0)
        root_channels = self.objective.channels(root.sums)
        root.score, root.model = self.objective.best_model(
            np.zeros_like(root_channels[0]), root_channels
        )
        self.totals = root_channels[root.model]
        # A share of the root's score: MSEs have the rewards' unit squared.
        least_gain = self.limits.min_gain * abs(root.score) if np.isfinite(root.score) else 0.0
        least = self.limits.leaf_rows(self.objective.position.n_grow)
        waiting: deque[Waiting] = deque()
        if len(self.categorical) and self.limits.max_depth:
            waiting.append((root, 1, rows, hist))
        while waiting:
            group, depth, group_rows, hist = self.next_group(waiting)
            channels = self.settle(group)
            if self.leaves >= self.limits.max_leaves or group.sums[0] < 2 * least:
                continue
            cuts = self.cuts(hist, least)
            if not self._divide(group, cuts, hist, channels, least_gain):
                continue
            sides = group_rows.divided(group.feature, group.goes_left)
            group.chance = _chance(group, sides, len(cuts[0]))
            if depth < self.limits.max_depth:
                # Parent = left + right for sums: only the smaller child is read (as LightGBM and
                # scikit-learn do).
                small = int(len(sides[0].chosen) > len(sides[1].chosen))
                summed = sides[small].histogram(self.bins)
                sums = (hist - summed, summed) if small else (summed, hist - summed)
                for child, side, side_hist in zip(group.sides, sides, sums, strict=True):
                    waiting.append((child, depth + 1, side, side_hist))
        root.merge_equal()
        return root

    def next_group(self, waiting: "deque[Waiting]") -> "Waiting":
        """Return the group to visit next: the one that was created first."""
        return waiting.popleft()

    def cuts(self, hist: Floats, least: int) -> Cuts:
        """Return the cuts of a node to choose from: all of them."""
        return cuts_of(hist, self.categorical, self.objective.position.contrast, least)

    def threshold(self, group: Group, least_gain: float) -> float:
        """Return the limit that the score of a split must be below."""
        return group.score - least_gain

    def settle(self, group: Group) -> Floats:
        """Give a leaf the best model, given all other leaves; its own wins a tie.

        Return its channels under each model on top of the other leaves' totals (M, C).
        """
        leaf_channels = self.objective.channels(group.sums)
        # Squared bias is of the whole assignment: which model suits a leaf depends on what the
        # others have become since its parent was split.
        rest_total = self.totals - leaf_channels[group.model]
        group.score = self.objective.score(rest_total + leaf_channels[group.model])
        value, model = self.objective.best_model(rest_total, leaf_channels)
        if lower(value, group.score):
            group.model, group.score = model, value
        channels: Floats = leaf_channels + rest_total
        self.totals = channels[group.model]
        return channels

    def _divide(
        self, group: Group, cuts: Cuts, hist: Floats, channels: Floats, least_gain: float
    ) -> bool:
        """Split a group by the cut and the two models that lower the score most, if any does."""
        below, where, order = cuts
        left = self.objective.channels(below)
        right = channels - left
        # Sides of one model are the group undivided: any other model for it was tried by `settle`.
        score, best, first, second = self.objective.best(
            left, right, below=self.threshold(group, least_gain), different=True
        )
        if best < 0:
            return False
        group.feature, missing_left, cut = (int(v) for v in where[:, best])
        sums = below[best]
        group.goes_left = np.zeros(self.bins, dtype=bool)
        group.goes_left[order[group.feature, :cut]] = True
        # Where no value was missing, those to come follow the larger side.
        has_missing = hist[group.feature, 0, 0] > 0
        group.goes_left[0] = missing_left > 0 if has_missing else 2 * sums[0] > group.sums[0]
        group.sides = Group(sums, first), Group(group.sums - sums, second)
        group.score, group.gain = score, group.score - score
        self.totals = left[best, first] + right[best, second]
        self.leaves += 1
        return True


def _chance(group: Group, sides: tuple[TreeRows, TreeRows], tried: int) -> float:
    """Return how probable it is that sides differ so much where the context tells nothing about behaviour.

    The difference of the two models' estimates is the bias of one against the other. Its mean is
    the same on both sides then; a test of two means, times the number of cuts tried (Bonferroni).
    """
    left, right = (side.model for side in group.sides)
    with np.errstate(all="ignore"):
        left_gaps, right_gaps = (
            side.y[left, side.chosen] - side.y[right, side.chosen] for side in sides
        )
        noise = np.sqrt(left_gaps.var() / len(left_gaps) + right_gaps.var() / len(right_gaps))
        z = abs(float((right_gaps.mean() - left_gaps.mean()) / noise))
    # Numbers too large to compare show nothing.
    return 1.0 if math.isnan(z) else min(1.0, tried * math.erfc(z / math.sqrt(2)))
