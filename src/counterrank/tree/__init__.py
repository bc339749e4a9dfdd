"""The behaviour tree: which behaviour model each context gets, chosen to minimise an estimate of
the MSE.

From the inside out: `settings` (every tuned number), `models` (what can be chosen), `binning` and
`training` (the rows trees grow on), `objective`, `mse` and `pasif` (what they minimise), `growing`
(one tree), `forest` (a tree a position), `streaming` and `cross_fitting` (large logs, honest
folds), `words`, `picture` and `storage` (what people see and keep).
"""

from counterrank.tree.behavior_tree import BehaviorTree
from counterrank.tree.cross_fitting import fit_cross_fitted
from counterrank.tree.mse import GoldenshlugerLepski, Oracle, Slope
from counterrank.tree.objective import MSEEstimate, Objective
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
