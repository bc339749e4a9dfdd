"""Bias against the densest model, corrected for the variance of the difference."""

from dataclasses import dataclass

import numpy as np

from counterrank.tree.objective import Objective, Position


@dataclass(frozen=True, slots=True)
class Reference:
    """MSE = Var(V_c) + max(0, (V_c - V_ref)^2 - kappa Var(V_c - V_ref)), ref the densest model.

    The densest model (all items) is unbiased whatever the behaviour. Fails when its own variance hides every bias:
    then the sparsest model always wins.
    """

    kappa: float = 1.0
    name: str = "reference"
    streams: bool = True

    def objective(self, position: Position) -> Objective:
        """Compare with one model."""
        M = position.models
        return Objective(
            models=M,
            n_grow=position.n_grow,
            n_apply=position.n_apply,
            tails=position.tails,
            compare=np.array([position.densest], dtype=np.int64),
            against=np.ones((1, M), dtype=bool),
            contrast=(position.densest, position.sparsest),
            kappa=self.kappa,
        )
