"""What cross-validation and PAS-IF share: mean squared distance between an estimate and a pseudo-truth over splits."""

import numpy as np

from counterrank.behavior.tree.objective import Floats, Objective, Position
from counterrank.errors import BehaviorError


def over_splits(position: Position, rows: Floats, truth: Floats) -> Objective:
    """Return the objective mean_b (sum_i rows[b, i] y_i - truth_b)^2; rows (B, n) sum to one over the split's rows."""
    return Objective(
        models=position.models,
        n_grow=position.n_grow,
        n_apply=position.n_apply,
        tails=position.tails,
        replicates=np.ascontiguousarray(rows),
        targets=truth,
        contrast=(position.densest, position.sparsest),
        average=True,
        kappa=0.0,
        variance_weight=0.0,
    )


def rows_in_memory(position: Position, name: str) -> tuple[Floats, Floats, Floats, Floats]:
    """Return contributions, growing rows, whole-ranking weights and rewards, or say that a stream has none."""
    y, use, weight, reward = position.y, position.use, position.weight, position.reward
    if y is None or use is None or weight is None or reward is None:
        raise BehaviorError(
            f"mse='{name}' draws splits of rows in memory; grow on a sample (grow_on='sample') or use mse='gl'"
        )
    return y, use, weight, reward
