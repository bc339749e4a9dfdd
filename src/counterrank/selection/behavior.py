"""The cross-fitted tree: grown on some units, applied to the others."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.tree.forest import Forest
from counterrank.log import RankingLog
from counterrank.ratios import Ratios
from counterrank.selection.tree import BehaviorTree, forest_weights
from counterrank.source import Source

Floats = NDArray[np.float64]

#: Rows of a large log on which trees are grown; the assignment is then applied to all rows.
SAMPLE_ROWS = 200_000
FOLDS = 2


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """F forests; a row of fold f = bucket mod F gets the forest grown without that fold."""

    trees: tuple[Forest, ...]

    def weights(self, batch: RankingLog, ratios: Ratios) -> Floats:
        """Return importance weights (n, K), each row's by the forest that has not seen its unit."""
        fold = batch.bucket % len(self.trees)
        out = np.empty(ratios.rho.shape, order="F")
        for f, forest in enumerate(self.trees):
            rows = fold == f
            out[rows] = forest_weights(forest, batch, ratios)[rows]
        return out


def fit_cross_fitted(
    source: Source, target: str, *, seed: int, tree: BehaviorTree | None = None, folds: int = FOLDS,
    rows: int = SAMPLE_ROWS,
) -> CrossFitted:  # fmt: skip
    """Return forests grown on a sample of the source, one for each fold left out."""
    plan = BehaviorTree() if tree is None else tree
    log = source.sample(rows, np.random.default_rng([seed, 29]))
    n_apply = source.n or log.n
    ground, notes = plan.ground(log, target, seed=seed)
    fold = log.bucket % folds
    logged = ground.is_logged() > 0
    trees = []
    for f in range(folds):
        kept = logged.copy()
        kept[: log.n] &= fold != f
        trees.append(plan.grow(ground, kept, n_apply=n_apply, seed=seed, notes=notes))
    return CrossFitted(tuple(trees))
