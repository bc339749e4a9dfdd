"""SLOPE: the least variance among assignments whose interval meets the interval of every denser model."""

from dataclasses import dataclass

from counterrank.tree.mse.nested import against_containing
from counterrank.tree.objective import Objective, Position


@dataclass(frozen=True, slots=True)
class Slope:
    """MSE = Var(V_c), or infinite when |V_c - V_j| > z (se(V_c) + se(V_j)) for a model j containing c.

    Su, Srinath, Krishnamurthy (2020), Adaptive estimator selection for off-policy evaluation, ICML. Tucker and Lee
    (2021), SLOPE++, order models by their estimated widths, as here. The intervals of two estimates on the same rows
    overlap far more often than their difference is zero, so SLOPE keeps more bias than Lepski's rule.
    """

    z: float = 2.0
    name: str = "slope"
    streams: bool = True

    def objective(self, position: Position) -> Objective:
        """Compare with all containing models, by overlap of intervals."""
        return against_containing(position, mode=2, kappa=self.z)
