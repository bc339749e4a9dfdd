"""Lepski's rule: the least variance among assignments that no denser model contradicts."""

from dataclasses import dataclass

from counterrank.tree.mse.nested import against_containing
from counterrank.tree.objective import Objective, Position


@dataclass(frozen=True, slots=True)
class Lepski:
    """MSE = Var(V_c), or infinite when |V_c - V_j| > z se(V_c - V_j) for a model j containing c.

    Lepski (1991), On a problem of adaptive estimation in Gaussian white noise. A test at every split: the more splits
    are tried, the more often a wrong model passes; use a larger z for deeper trees.
    """

    z: float = 2.0
    name: str = "lepski"
    streams: bool = True

    def objective(self, position: Position) -> Objective:
        """Compare with all containing models, by tests on the difference."""
        return against_containing(position, mode=1, kappa=self.z)
