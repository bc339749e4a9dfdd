"""Goldenshluger-Lepski: the largest corrected difference to any model that contains the chosen one."""

from dataclasses import dataclass

from counterrank.tree.mse.nested import against_containing
from counterrank.tree.objective import Objective, Position


@dataclass(frozen=True, slots=True)
class GoldenshlugerLepski:
    """MSE = Var(V_c) + max over models j containing c of max(0, (V_c - V_j)^2 - kappa Var(V_c - V_j)).

    Intermediate models have far less variance than the densest one, so they reveal bias that it cannot.
    Goldenshluger and Lepski (2011), Bandwidth selection in kernel density estimation, Annals of Statistics 39(3).
    Fails when no intermediate model contains the chosen one (then it is `reference`), and when a bias shared by all
    but the densest hides in the latter's noise.
    """

    kappa: float = 1.0
    name: str = "gl"
    streams: bool = True

    def objective(self, position: Position) -> Objective:
        """Compare with all containing models, softly."""
        return against_containing(position, mode=0, kappa=self.kappa)
