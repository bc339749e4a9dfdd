"""Splits confirmed on rows that did not choose them, then models chosen once more on all rows.

The search tries thousands of splits and keeps the one whose estimated bias is smallest by luck; on other rows the same
split has one score, without that luck. A split stays if it still lowers the objective there.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.tree.binning import Codes
from counterrank.behavior.tree.grower import Grower
from counterrank.behavior.tree.objective import Objective
from counterrank.kernels.splitting_data import Rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def node_sums(grower: Grower, rows: Rows, codes: Codes) -> Floats:
    """Return the sums of the rows' statistics in every node (nodes, L)."""
    from counterrank.kernels import histogram

    feature, left, right, _ = grower.tree
    node = np.zeros(len(codes), dtype=np.int32)
    for _ in range(grower.level if grower.count > 1 else 0):
        histogram.route(codes, node, grower.tree, grower.goes_left)
    sums = rows.totals(node, grower.count)
    for at in range(grower.count - 1, -1, -1):  # children come after their parents
        if feature[at] >= 0:
            sums[at] = sums[left[at]] + sums[right[at]]
    return sums


class Scorer:
    """The objective of assignments on given node sums (nodes, L)."""

    def __init__(self, objective: Objective, sums: Floats) -> None:
        from counterrank.kernels import splitting

        self.rule, self.marks = objective.rule, objective.marks
        self.channels = splitting.expand_all(sums, *objective.terms())  # (nodes, M, C)

    def score(self, totals: Floats) -> float:
        """Return the score of channel totals (C,)."""
        from counterrank.kernels import splitting

        return float(splitting.score(totals, np.zeros_like(totals), self.rule, self.marks, np.inf))

    def best(self, node: int, base: Floats) -> tuple[float, int]:
        """Return the least score and the model of a node, given the totals without it."""
        from counterrank.kernels import splitting

        value, model = splitting.best_model(base, self.channels[node], self.rule, self.marks)
        return float(value), int(model)


def prune(grower: Grower, scorer: Scorer) -> None:
    """Undo the splits, from the bottom up, that do not lower the objective of `scorer` by the least gain.

    What one split gains depends on the others, so this is repeated until every last split that is left does.
    """
    feature, left, right, model = grower.tree
    totals = np.sum([scorer.channels[at, model[at]] for at in leaves_of(grower)], axis=0)
    least = grower.limits.min_gain * abs(scorer.score(scorer.channels[0, model[0]]))
    least = least if np.isfinite(least) else 0.0
    changed = True
    while changed:
        changed = False
        for at in range(grower.count - 1, -1, -1):
            if feature[at] < 0 or feature[left[at]] >= 0 or feature[right[at]] >= 0:
                continue
            children = sum(scorer.channels[c, model[c]] for c in (left[at], right[at]))
            merged = totals - children + scorer.channels[at, model[at]]
            if not scorer.score(totals) < scorer.score(merged) - least:
                feature[at] = left[at] = right[at] = -1
                grower.gains[at] = 0.0
                totals, changed = merged, True


def remodel(grower: Grower, scorer: Scorer, sweeps: int = 3) -> None:
    """Choose each leaf's model again, in turn, until no change lowers the objective of `scorer`."""
    model = grower.tree[3]
    leaves = leaves_of(grower)
    totals = np.sum([scorer.channels[at, model[at]] for at in leaves], axis=0)
    for _ in range(sweeps):
        changed = False
        for at in leaves:
            base = totals - scorer.channels[at, model[at]]
            value, chosen = scorer.best(at, base)
            if chosen != model[at] and value < scorer.score(totals):
                model[at], totals, changed = chosen, base + scorer.channels[at, chosen], True
        if not changed:
            return


def merge_equal(grower: Grower) -> None:
    """Undo splits between leaves of one model: the assignment stays the same."""
    feature, left, right, model = grower.tree
    for at in range(grower.count - 1, -1, -1):
        if feature[at] >= 0:
            a, b = int(left[at]), int(right[at])
            if feature[a] < 0 and feature[b] < 0 and model[a] == model[b]:
                model[at] = model[a]
                feature[at] = left[at] = right[at] = -1
                grower.gains[at] = 0.0


def leaves_of(grower: Grower) -> list[int]:
    """Return the leaves reachable from the root, left to right."""
    feature, left, right, _ = grower.tree
    found, stack = [], [0]
    while stack:
        at = stack.pop()
        if feature[at] < 0:
            found.append(at)
        else:
            stack += [int(right[at]), int(left[at])]
    return found


def compact(grower: Grower) -> None:
    """Renumber the nodes that are still reachable, parents before children."""
    feature, left, right, _ = grower.tree
    kept, queue = [], [0]
    while queue:
        at = queue.pop(0)
        kept.append(at)
        if feature[at] >= 0:
            queue += [int(left[at]), int(right[at])]
    new = {old: i for i, old in enumerate(kept)}
    tree = grower.tree[:, kept]
    for side in (1, 2):
        tree[side] = [new.get(int(old), -1) for old in tree[side]]
    grower.tree = tree
    grower.stats, grower.scores, grower.gains = grower.stats[kept], grower.scores[kept], grower.gains[kept]
    grower.goes_left = grower.goes_left[kept]
    grower.count = len(kept)
