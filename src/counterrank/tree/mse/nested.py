"""What Goldenshluger-Lepski, Lepski and SLOPE share: comparison with every model that contains the chosen one."""

from functools import lru_cache

import numpy as np

from counterrank.tree.objective import Bools, Ints, Objective, Position


def against_containing(position: Position, *, mode: int, kappa: float, variance_weight: float = 1.0) -> Objective:
    """Return the objective that holds each leaf's model against the models containing it.

    Where a model does not contain the leaf's own, the leaf adds nothing to that comparison.
    """
    M = position.models
    compare, against = _comparisons(position.containing.tobytes(), M)
    return Objective(
        models=M,
        n_grow=position.n_grow,
        n_apply=position.n_apply,
        tails=position.tails,
        compare=compare,
        against=against,
        widths=np.sqrt(position.variance()[compare] / position.n_grow) if mode == 2 else np.empty(0),
        contrast=(position.densest, position.sparsest),
        mode=mode,
        kappa=kappa,
        variance_weight=variance_weight,
    )


@lru_cache(maxsize=256)
def _comparisons(containing: bytes, models: int) -> tuple[Ints, Bools]:
    """Return the models (J,) that contain another, and which they contain (J, M)."""
    inside = np.frombuffer(containing, dtype=bool).reshape(models, models) & ~np.eye(models, dtype=bool)
    compare = np.flatnonzero(inside.any(axis=1))
    return compare, inside[compare]
