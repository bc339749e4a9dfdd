"""The behaviour tree: which behaviour model each context gets, chosen to minimise an estimate of
the MSE.

From the inside out: `settings` (every tuned number), `training` (the rows trees grow on),
`objective` and `pasif` (what they minimise), `growing` (one tree), `forest` (a tree a position),
`words` and `storage` (what people see and keep), `behavior_tree` and `cross_fitting` (the public
face; honest folds and large logs).
"""

from counterrank.tree.behavior_tree import BehaviorTree
from counterrank.tree.cross_fitting import fit_cross_fitted
from counterrank.tree.objective import (
    GoldenshlugerLepski,
    MSEEstimate,
    Objective,
    Oracle,
    Slope,
)
from counterrank.tree.pasif import PasIf
from counterrank.tree.settings import Limits
from counterrank.tree.training import Position

__all__ = [
    "BehaviorTree",
    "GoldenshlugerLepski",
    "Limits",
    "MSEEstimate",
    "Objective",
    "Oracle",
    "PasIf",
    "Position",
    "Slope",
    "fit_cross_fitted",
]
