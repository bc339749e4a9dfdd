"""Behaviour models, and the paper's tree that says which of them each context gets.

`masks` has the models. The tree, from the inside out: `settings` (every tuned number), `training`
(the rows trees grow on), `objective` and `pasif` (what they minimise), `growing` (one tree),
`forest` (a tree a position), `words` and `storage` (what people see and keep), `behavior_tree` and
`cross_fitting` (the public face; honest folds and large logs).
"""

from counterrank.behavior.behavior_tree import BehaviorTree
from counterrank.behavior.cross_fitting import fit_cross_fitted
from counterrank.behavior.masks import (
    Bools,
    Candidate,
    as_mask,
    candidates,
    cascade,
    draw,
    first_items,
    generated,
    independent,
    inverse_cascade,
    mask,
    neighbors,
    random,
    standard,
    window_above,
)
from counterrank.behavior.objective import (
    GoldenshlugerLepski,
    MSEEstimate,
    Objective,
    Oracle,
    Slope,
)
from counterrank.behavior.pasif import PasIf
from counterrank.behavior.settings import Limits
from counterrank.behavior.training import Position

__all__ = [
    "BehaviorTree",
    "Bools",
    "Candidate",
    "GoldenshlugerLepski",
    "Limits",
    "MSEEstimate",
    "Objective",
    "Oracle",
    "PasIf",
    "Position",
    "Slope",
    "as_mask",
    "candidates",
    "cascade",
    "draw",
    "first_items",
    "fit_cross_fitted",
    "generated",
    "independent",
    "inverse_cascade",
    "mask",
    "neighbors",
    "random",
    "standard",
    "window_above",
]
