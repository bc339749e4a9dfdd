"""What cross-validation and PAS-IF share: mean squared distance between an estimate and a pseudo-truth over splits."""

import numpy as np

from counterrank.errors import BehaviorError
from counterrank.tree.objective import Floats, Memory, Objective, Position


def over_splits(position: Position, rows: Floats, truth: Floats, *, averaged: Floats | None = None) -> Objective:
    """Return the objective mean_b (sum_i rows[b, i] y_i - truth_b)^2; rows (B, n) sum to one over the split's rows.

    `averaged` (n, M) takes the place of the contributions y where a split needs weights of its own.
    """
    return Objective(
        models=position.models,
        n_grow=position.n_grow,
        n_apply=position.n_apply,
        tails=position.tails,
        replicates=np.ascontiguousarray(rows),
        averaged=averaged,
        targets=truth,
        contrast=(position.densest, position.sparsest),
        average=True,
        kappa=0.0,
        variance_weight=0.0,
    )


def rows_in_memory(position: Position, name: str) -> Memory:
    """Return the rows, or say that a stream has none."""
    if position.memory is None:
        raise BehaviorError(
            f"mse='{name}' draws splits of rows in memory; grow on a sample (grow_on='sample') or use mse='gl'"
        )
    return position.memory
