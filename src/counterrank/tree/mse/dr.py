"""Bias against a doubly robust value computed elsewhere."""

from dataclasses import dataclass

import numpy as np

from counterrank.errors import BehaviorError
from counterrank.tree.mse.known import against_value, value_at
from counterrank.tree.objective import Floats, Objective, Position


@dataclass(frozen=True, slots=True, eq=False)
class DoublyRobust:
    """MSE = Var(V_c) + max(0, (V_c - V_DR)^2 - kappa (Var(V_c) + se_DR^2)).

    `values` and `stderr` (K,) come from a doubly robust estimator, which has far less variance than the densest model
    and so shows more of the bias. Fails with it: where the regression is wrong and the weights truncated.
    """

    values: Floats | None = None
    stderr: Floats | None = None
    kappa: float = 1.0
    name: str = "dr"
    streams: bool = True

    def objective(self, position: Position) -> Objective:
        """Hold the estimate against the reference value."""
        if self.values is None:
            raise BehaviorError(
                "mse='dr' needs reference values: pass DoublyRobust(values=..., stderr=...), one a position"
            )
        value = value_at(self.values, position, self.name)
        error = 0.0
        if self.stderr is not None:
            every = np.asarray(self.stderr, dtype=np.float64)
            error = float(np.sqrt((every**2).sum())) if position.index < 0 else value_at(every, position, self.name)
        return against_value(position, value, stderr=error, kappa=self.kappa)
