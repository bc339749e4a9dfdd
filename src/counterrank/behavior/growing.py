"""One tree: grown level by level from histograms, its splits confirmed on other rows, its models chosen once more.

Every (feature, threshold, left model, right model) is scored exactly: a split changes the channels
of one leaf only, so its score needs the histogram of that leaf and the totals. The search tries
thousands of splits and keeps the one whose estimated bias is smallest by luck; on other rows the
same split has one score, without that luck. A split stays if it still lowers the objective there.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.behavior.objective import TIE, Goal, Objective
from counterrank.behavior.settings import SWEEPS, TreeLimits
from counterrank.behavior.training import Codes
from counterrank.kernels.jit import helper, jit

#: Rows whose statistics are formed at a time: they, and the histogram of one feature, stay in the
#: nearest cache.
_BLOCK = 64


@helper
def _form(
    some: Ints, columns: Floats, replicates: Floats, averaged: Floats, near: Floats, formed: Floats
) -> None:
    """Fill formed (r, L) with the statistics of some rows (r,), column by column.

    Squares then run over consecutive rows; near (r,) is room.
    """
    used, end = some.shape[0], columns.shape[0]
    for c in range(end):
        for r in range(used):
            near[r] = columns[c, some[r]]
            formed[r, c] = near[r]
        if c > 0:
            for r in range(used):
                formed[r, end + c - 1] = near[r] * near[r]
    end += end - 1
    for b in range(replicates.shape[0]):
        for m in range(averaged.shape[0]):
            for r in range(used):
                formed[r, end + m] = replicates[b, some[r]] * averaged[m, some[r]]
        end += averaged.shape[0]


@jit
def add_to_bins(
    chosen: Ints,
    codes: Codes,
    columns: Floats,
    replicates: Floats,
    averaged: Floats,
    out: Floats,
) -> None:
    """Add the statistics of the chosen rows (`TreeRows`) into out (d, bins, L).

    Statistics are one vector a row, [u, u y_m (M), u y_m^2 (M), v_b z_m (B x M)], so that a bin is one
    contiguous addition; formed here, since reading it back would cost more than the products.
    """
    width = out.shape[2]
    formed, near = np.empty((_BLOCK, width)), np.empty(_BLOCK)
    for first in range(0, chosen.shape[0], _BLOCK):
        some = chosen[first : first + _BLOCK]
        # All of them before any is added: numbers just written one by one are slow to read as a
        # vector.
        _form(some, columns, replicates, averaged, near, formed)
        for f in range(out.shape[0]):
            for r in range(some.shape[0]):
                row, cell = formed[r], out[f, codes[f, some[r]]]
                for c in range(width):
                    cell[c] += row[c]


class TreeRows(NamedTuple):
    """Rows chosen (r,) of n, and what their statistics are formed from, column by column.

    codes (d, n) are bins; columns (1 + M, n) are u, 0 or 1, and u y, the contributions.
    Replicates (B, n) are weighted sums of averaged (M, n), which is y unless an
    estimate weighs its subsamples otherwise.
    """

    chosen: Ints
    codes: Codes
    columns: Floats
    replicates: Floats
    averaged: Floats

    @property
    def width(self) -> int:
        """Length of a row's statistics."""
        weighted = len(self.replicates) * len(self.averaged)
        return 2 * len(self.columns) - 1 + weighted

    def divided(self, feature: int, goes_left: Bools) -> "tuple[TreeRows, TreeRows]":
        """Return the rows whose bin of a feature goes left (bins,), and the others."""
        left = goes_left.take(self.codes[feature].take(self.chosen))
        # By number: a mask has a branch for each row.
        one, two = (self.chosen.take(np.flatnonzero(side)) for side in (left, ~left))
        return self._replace(chosen=one), self._replace(chosen=two)

    def histogram(self, bins: int) -> Floats:
        """Return the sums of the rows' statistics by feature and bin (d, bins, L)."""
        out = np.zeros((len(self.codes), bins, self.width))
        add_to_bins(*self, out)
        return out

    def totals(self) -> Floats:
        """Return the sums of the rows' statistics (L,)."""
        columns, replicates, averaged = (
            table.take(self.chosen, axis=1)
            for table in (self.columns, self.replicates, self.averaged)
        )
        # Squares beyond all numbers are cut off where they become channels.
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("cn,cn->c", columns[1:], columns[1:])
            weighted = replicates @ averaged.T
        return np.concatenate([columns.sum(axis=1), squares, weighted.ravel()])


def rows_of(
    objective: Objective, y: Floats, use: Floats, codes: Codes, index: Ints | None = None
) -> TreeRows:
    """Return the rows behind an objective's statistics, from contributions y (n, M), use (n,) and codes (n, d).

    Of all, or those of `index`, of which the codes are given alone.
    """
    some = np.arange(len(y)) if index is None else index
    # Every level of a tree reads them: side by side they come from memory once.
    columns = np.empty((1 + y.shape[1], len(some)))
    use.take(some, out=columns[0], mode="clip")
    y.T.take(some, axis=1, out=columns[1:], mode="clip")
    if not columns[0].all():
        columns[1:] *= columns[0]
    replicates, averaged = np.empty((0, len(some))), np.empty((0, len(some)))
    if len(objective.replicates):
        replicates = objective.replicates.take(some, axis=1)
        averaged = (y if objective.averaged is None else objective.averaged).T.take(some, axis=1)
    own = np.ascontiguousarray(codes.T)
    return TreeRows(np.arange(len(some)), own, columns, replicates, averaged)


class Features(NamedTuple):
    """Bins in use (d,), the one for missing values included, and which features are categorical (d,)."""

    bins: Ints
    categorical: Bools


@dataclass(frozen=True, slots=True)
class Cuts:
    """The ways to divide a node in two: N of them, features in order, missing values right, then left.

    sums (N, L) go left; `where` (3, N) = feature, missing left, bins taken of `order` (d, bins -
    1).
    """

    sums: Floats
    where: Ints
    order: Ints

    @classmethod
    def of(cls, hist: Floats, features: Features, contrast: tuple[int, int], least: int) -> "Cuts":
        """Return the cuts of a node's histogram (d, bins, L) with `least` rows on either side."""
        order, inner = bin_order(hist, features, contrast), hist[:, 1:]
        if features.categorical.any():
            inner = np.take_along_axis(inner, order[:, :, None] - 1, axis=1)
        # Cut 0 takes no known value: alone it leaves a side empty and is dropped below, with the
        # missing ones it asks whether a value is there at all.
        taken = np.zeros_like(hist)
        np.cumsum(inner, axis=1, out=taken[:, 1:])
        missing = hist[:, :1]
        sides = [taken, taken + missing] if missing[..., 0].any() else [taken]
        left = np.stack(sides, axis=1)  # (d, sides, bins, L)
        rows = left[..., 0]
        # An empty bin moves nothing: the cut before it is the same, and so is the other side of no
        # missing values.
        moves = np.ones(rows.shape, dtype=bool)
        moves[:, :, 1:] = inner[:, None, :, 0] > 0
        moves[:, 1:] &= missing[:, :, None, 0] > 0
        good = moves & (rows >= least) & (hist[0, :, 0].sum() - rows >= least)
        return cls(left[good], np.array(np.nonzero(good)), order)


def bin_order(hist: Floats, features: Features, contrast: tuple[int, int]) -> Ints:
    """Return the bins 1.. of each feature in scanning order (d, bins - 1).

    As they are, or categories by mean contrast.

    The contrast is the mean difference between the densest and the sparsest model, the sign of the
    bias at stake. Ordered by a mean, the best of all 2^(c-1) subsets is a prefix for one squared
    error (Fisher 1958); for this objective it is a good guess in linear time.
    """
    order = np.empty((len(hist), hist.shape[1] - 1), dtype=np.int64)
    order[:] = np.arange(1, hist.shape[1])
    for f in np.flatnonzero(features.categorical):
        cells = hist[f, 1:]
        dense, sparse = (cells[:, 1 + m] for m in contrast)
        key = np.full(len(cells), np.inf)
        np.divide(dense - sparse, cells[:, 0], out=key, where=cells[:, 0] > 0)
        order[f] = np.argsort(key, kind="stable") + 1
    return order


class Grower:
    """A growing tree: nodes in flat arrays, a frontier whose histograms it asks for, totals of the objective.

    `tree` (4, nodes) holds feature (-1: leaf), left, right, model; `goes_left` (nodes, bins);
    `stats` (nodes, L) the sums of each node; `scores` (nodes,) the objective of the whole
    assignment once the node was decided, `gains` (nodes,) what its split took off, `totals` (C,)
    the channels of the whole assignment.
    """

    def __init__(
        self, objective: Objective, limits: TreeLimits, bins: Ints, categorical: Bools
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
        self.totals = np.zeros(self.goal.table.shape[1] // objective.models)
        self.least_gain = 0.0
        self.count = 1
        self.level = 0
        self.frontier = np.zeros(1, dtype=np.int64)

    def start(self, stats: Floats) -> None:
        """Choose the root's model from the sums of all rows (L,)."""
        self.stats[0] = stats
        here = self.goal.channels(stats)
        self.scores[0], self.tree[3, 0] = self.goal.best_model(np.zeros_like(here[0]), here)
        self.totals = here[self.tree[3, 0]]
        # The least gain is a share of the root's score: MSEs have the rewards' unit squared.
        root = abs(float(self.scores[0]))
        self.least_gain = self.limits.min_gain * root if np.isfinite(root) else 0.0

    @property
    def wants(self) -> Ints:
        """The nodes whose histograms are wanted next; none when the tree is finished."""
        done = self.level >= self.limits.max_depth or len(self.features.bins) == 0
        return np.empty(0, dtype=np.int64) if done else self.frontier

    def split(self, hist: Floats) -> None:
        """Split the frontier in order, each node given all leaves so far, from its histograms (nodes, d, bins, L)."""
        before, least = self.count, self.limits.leaf_rows(self.objective.n_grow)
        for node, cells in zip(self.frontier.tolist(), hist, strict=True):
            around = self._settle(node)
            # A binary tree of c nodes has (c + 1) / 2 leaves.
            room = (self.count + 1) // 2 < self.limits.max_leaves
            if room and self.stats[node, 0] >= 2 * least:
                cuts = Cuts.of(cells, self.features, self.objective.contrast, least)
                self._divide(node, cuts, cells, around)
        self.level += 1
        self.frontier = np.arange(before, self.count, dtype=np.int64)

    def _settle(self, node: int) -> Floats:
        """Give a leaf the best model, given all other leaves; its own wins a tie.

        Return its channels under each model on top of the other leaves' totals (M, C).
        """
        here, own = self.goal.channels(self.stats[node]), self.tree[3, node]
        # Squared bias is of the whole assignment: which model suits a leaf depends on what the
        # others have become since its parent was split.
        others = self.totals - here[own]
        now = self.goal.score(others + here[own])
        value, model = self.goal.best_model(others, here)
        if value < (now if np.isinf(now) else now - TIE * abs(now)):
            own, now = model, value
        self.tree[3, node], self.scores[node] = own, now
        around: Floats = here + others
        self.totals = around[own]
        return around

    def _divide(self, node: int, cuts: Cuts, cells: Floats, around: Floats) -> None:
        """Split a node by the cut and the two models that lower the score most, if any does."""
        now, left = float(self.scores[node]), self.goal.channels(cuts.sums)
        right = around - left
        # Sides of one model are the node undivided: any other model for it was tried by `_settle`.
        found = self.goal.best(left, right, below=now - self.least_gain, different=True)
        if found.at < 0:
            return
        feature, missing_left, taken = (int(v) for v in cuts.where[:, found.at])
        sums, rows = cuts.sums[found.at], self.stats[node, 0]
        self.goes_left[node, cuts.order[feature, :taken]] = True
        # Where no value was missing, those to come follow the larger side.
        known = cells[feature, 0, 0] > 0
        self.goes_left[node, 0] = missing_left > 0 if known else 2 * sums[0] > rows
        a, b = self.count, self.count + 1
        self.tree[:3, node] = feature, a, b
        self.tree[3, a], self.tree[3, b] = found.left, found.right
        self.stats[a], self.stats[b] = sums, self.stats[node] - sums
        self.totals = left[found.at, found.left] + right[found.at, found.right]
        self.scores[node], self.gains[node] = found.score, now - found.score
        self.count += 2

    def grow(self, rows: TreeRows) -> None:
        """Grow to the end on rows in memory."""
        if not len(self.features.bins):
            self.start(rows.totals())
            return
        at, bins = [rows], self.goes_left.shape[1]
        hist = rows.histogram(bins)[None]
        # Every row is in one bin of the first feature: its bins add up to the node.
        self.start(hist[0, 0].sum(axis=0))
        while len(self.wants):
            parents = self.frontier
            self.split(hist)
            if not len(self.wants):
                return
            children: list[TreeRows] = []
            sums: list[Floats] = []
            for parent, some, whole in zip(parents.tolist(), at, hist, strict=True):
                if self.tree[0, parent] < 0:
                    continue
                pair = self.sides(parent, some)
                # Parent = left + right for sums: only the smaller child is read (as LightGBM and
                # scikit-learn do).
                small = int(len(pair[0].chosen) > len(pair[1].chosen))
                summed = pair[small].histogram(bins)
                children += pair
                sums += [whole - summed, summed] if small else [summed, whole - summed]
            at, hist = children, np.stack(sums)

    def sides(self, node: int, rows: TreeRows) -> tuple[TreeRows, TreeRows]:
        """Return the rows of a node that go left, and those that go right."""
        return rows.divided(int(self.tree[0, node]), self.goes_left[node])

    def leaf_rows(self, rows: TreeRows) -> dict[int, TreeRows]:
        """Return the rows of each leaf."""
        found, waiting = {}, [(0, rows)]
        while waiting:
            at, some = waiting.pop()
            if self.tree[0, at] < 0:
                found[at] = some
            else:
                waiting += zip(self.tree[1:3, at].tolist(), self.sides(at, some), strict=True)
        return found

    def node_sums(self, rows: TreeRows) -> Floats:
        """Return the sums of the rows' statistics in every node (nodes, L)."""
        sums = np.zeros((self.count, rows.width))
        for leaf, some in self.leaf_rows(rows).items():
            sums[leaf] = some.totals()
        add_children(self.tree, sums)
        return sums

    @property
    def score(self) -> float:
        """The objective of the whole assignment."""
        return self.goal.score(self.totals)


def add_children(tree: Ints, sums: Floats) -> None:
    """Complete sums (nodes, L) of leaves: a split node has those of its children, which come after it."""
    for at in np.flatnonzero(tree[0] >= 0)[::-1]:
        sums[at] = sums[tree[1, at]] + sums[tree[2, at]]


def leaves(tree: Ints) -> list[int]:
    """Return the leaves reachable from the root, left to right."""
    found, stack = [], [0]
    while stack:
        at = stack.pop()
        if tree[0, at] < 0:
            found.append(at)
        else:
            stack += [int(tree[2, at]), int(tree[1, at])]
    return found


def totals_of(tree: Ints, channels: Floats) -> Floats:
    """Return the channels (C,) of the whole assignment, from those of each node (nodes, M, C)."""
    at = leaves(tree)
    total: Floats = channels[at, tree[3, at]].sum(axis=0)
    return total


def prune(tree: Ints, gains: Floats, channels: Floats, goal: Goal, share: float) -> None:
    """Undo last splits, from the bottom up, that do not lower the score by a share of the root's.

    What one split gains depends on the others, so this is repeated until every last split that is
    left does. channels (nodes, M, C) are those of rows that took no part in the search.
    """
    feature, left, right, model = tree
    totals = totals_of(tree, channels)
    # Measured on the root of these rows: the growing rows' score was made small by the search.
    least = share * abs(goal.score(channels[0, model[0]]))
    least = least if np.isfinite(least) else 0.0
    changed = True
    while changed:
        changed = False
        for at in np.flatnonzero(feature >= 0)[::-1]:
            a, b = left[at], right[at]
            if feature[a] >= 0 or feature[b] >= 0:
                continue
            merged = totals - (channels[a, model[a]] + channels[b, model[b]])
            merged += channels[at, model[at]]
            # Undone unless it clearly helps.
            if not goal.score(totals) < goal.score(merged) - least:
                tree[:3, at], gains[at] = -1, 0.0
                totals, changed = merged, True


def choose_again(tree: Ints, channels: Floats, goal: Goal, sweeps: int = SWEEPS) -> None:
    """Choose each leaf's model again, in turn, until no change lowers the score of the channels (nodes, M, C)."""
    model, totals = tree[3], totals_of(tree, channels)
    # Leaves share one squared bias, so what one leaf takes on another may give back: one at a time,
    # and more than once.
    for _ in range(sweeps):
        before = model.copy()
        for at in leaves(tree):
            others = totals - channels[at, model[at]]
            value, chosen = goal.best_model(others, channels[at])
            if chosen != model[at] and value < goal.score(totals):
                model[at] = chosen
                totals = others + channels[at, chosen]
        if (model == before).all():
            return


def confirm(grower: Grower, objective: Objective, sums: Floats) -> None:
    """Undo the splits that do not help on other rows, from their sums in every node (nodes, L)."""
    goal = objective.goal
    prune(grower.tree, grower.gains, goal.channels(sums), goal, grower.limits.min_gain)


def choose(grower: Grower, objective: Objective, sums: Floats) -> None:
    """Choose the leaves' models on all rows, from their sums in every node (nodes, L)."""
    goal = objective.goal
    choose_again(grower.tree, goal.channels(sums), goal)
    grower.stats, grower.objective = sums, objective


def finish(grower: Grower) -> None:
    """Undo splits that make no difference, and drop the nodes that can no longer be reached."""
    # Only now: `choose` may have given both sides of a split the same model.
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
    """Return the nodes that are still reachable, parents before children, and the tree of these alone."""
    kept, numbered = [0], []
    for at in kept:  # grows on the way
        feature, left, right, model = (int(v) for v in tree[:, at])
        if feature >= 0:
            numbered.append((feature, len(kept), len(kept) + 1, model))
            kept += [left, right]
        else:
            numbered.append((-1, -1, -1, model))
    return kept, np.array(numbered, dtype=np.int64).T.copy()
