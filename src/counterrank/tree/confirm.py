"""Splits confirmed on rows that did not choose them, then models chosen once more on all rows.

The search tries thousands of splits and keeps the one whose estimated bias is smallest by luck; on other rows the same
split has one score, without that luck. A split stays if it still lowers the objective there.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.tree.binning import Codes
from counterrank.tree.grower import Grower
from counterrank.tree.kernels.splitting_data import Rows
from counterrank.tree.objective import Objective

Floats = NDArray[np.float64]


def node_sums(grower: Grower, rows: Rows, codes: Codes) -> Floats:
    """Return the sums of the rows' statistics in every node (nodes, L)."""
    from counterrank.tree.kernels import splitting_confirm

    node = np.zeros(len(codes), dtype=np.int32)
    if grower.count > 1:
        splitting_confirm.leaf_of(codes, grower.tree, grower.goes_left, node)
    sums = rows.totals(node, grower.count)
    splitting_confirm.add_children(grower.tree, sums)
    return sums


class Scorer:
    """The objective of assignments on given node sums (nodes, L)."""

    def __init__(self, objective: Objective, sums: Floats) -> None:
        from counterrank.tree.kernels import splitting

        self.rule, self.marks = objective.rule, objective.marks
        self.channels = splitting.expand_all(sums, *objective.terms())  # (nodes, M, C)


def prune(grower: Grower, scorer: Scorer) -> None:
    """Undo the splits, from the bottom up, that do not lower the objective of `scorer` by the least gain.

    What one split gains depends on the others, so this is repeated until every last split that is left does.
    """
    from counterrank.tree.kernels import splitting_confirm

    share = grower.limits.min_gain
    splitting_confirm.prune(grower.tree, grower.gains, scorer.channels, scorer.rule, scorer.marks, share)


def remodel(grower: Grower, scorer: Scorer, sweeps: int = 3) -> None:
    """Choose each leaf's model again, in turn, until no change lowers the objective of `scorer`."""
    from counterrank.tree.kernels import splitting_confirm

    splitting_confirm.remodel(grower.tree, scorer.channels, scorer.rule, scorer.marks, sweeps)


def merge_equal(grower: Grower) -> None:
    """Undo splits between leaves of one model: the assignment stays the same."""
    from counterrank.tree.kernels import splitting_confirm

    splitting_confirm.merge_equal(grower.tree, grower.gains)


def compact(grower: Grower) -> None:
    """Renumber the nodes that are still reachable, parents before children."""
    from counterrank.tree.kernels import splitting_confirm

    kept, grower.tree = splitting_confirm.compacted(grower.tree)
    grower.stats, grower.scores, grower.gains = grower.stats[kept], grower.scores[kept], grower.gains[kept]
    grower.goes_left = grower.goes_left[kept]
    grower.count = len(kept)
