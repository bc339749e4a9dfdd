"""What Goldenshluger-Lepski, Lepski and SLOPE share: comparison with every model that contains the chosen one."""

import numpy as np

from counterrank.behavior.tree.objective import Objective, Position


def against_containing(position: Position, *, mode: int, kappa: float, variance_weight: float = 1.0) -> Objective:
    """Return the objective that holds each leaf's model against the models containing it.

    Where a model does not contain the leaf's own, the leaf adds nothing to that comparison.
    """
    M = position.models
    against = position.containing & ~np.eye(M, dtype=bool)
    compare = np.flatnonzero(against.any(axis=1))
    return Objective(
        models=M,
        n_grow=position.n_grow,
        n_apply=position.n_apply,
        tails=position.tails,
        compare=compare,
        against=against[compare],
        widths=np.sqrt(position.variance()[compare] / position.n_grow) if mode == 2 else np.empty(0),
        contrast=(position.densest, position.sparsest),
        mode=mode,
        kappa=kappa,
        variance_weight=variance_weight,
    )
