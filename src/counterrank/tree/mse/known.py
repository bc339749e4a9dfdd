"""Objectives that hold the estimate against a known value: the truth, or somebody's better estimate of it."""

import numpy as np

from counterrank.errors import BehaviorError
from counterrank.tree.objective import Floats, Objective, Position


def value_at(values: Floats, position: Position, name: str) -> float:
    """Return the value for this position; one model for all positions (index -1) is held against the sum."""
    given = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if position.index < 0:
        return float(given.sum())
    if position.index >= len(given):
        raise BehaviorError(
            f"'{name}' was given {len(given)} values, but position {position.index + 1} needs one; give one a position"
        )
    return float(given[position.index])


def against_value(
    position: Position, value: float, *, stderr: float = 0.0, kappa: float = 1.0, variance_weight: float = 1.0
) -> Objective:
    """Return the objective Var + max(0, (V_c - value)^2 - kappa (Var(V_c) + stderr^2))."""
    return Objective(
        models=position.models,
        n_grow=position.n_grow,
        n_apply=position.n_apply,
        tails=position.tails,
        value=np.array([value]),
        targets=np.array([value]),
        widths=np.array([stderr]),
        contrast=(position.densest, position.sparsest),
        kappa=kappa,
        variance_weight=variance_weight,
    )
