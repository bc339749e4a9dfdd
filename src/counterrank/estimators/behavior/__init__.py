"""Behaviour models, and the paper's tree that says which of them each context gets.

`masks` has the models. The tree, from the inside out: `settings` (every tuned number), `training`
(the rows trees grow on), `pairs`, `modelled`, `objective` and `estimates` (what they minimise), `growing` (one
tree), `forest` (a tree per position, and its file), `words` (what people see), `behavior_tree` (the
public face; large logs).
"""

from counterrank.estimators.behavior.behavior_tree import BehaviorTree, fit_source, planned_tree
from counterrank.estimators.behavior.estimates import Models, Oracle, Pairs, PasIf, mse_estimate
from counterrank.estimators.behavior.forest import Doubt
from counterrank.estimators.behavior.masks import (
    Candidate,
    as_mask,
    candidates,
    draw,
    generated,
    mask,
    published_models,
    random,
)
from counterrank.estimators.behavior.modelled import has_closed_form
from counterrank.estimators.behavior.objective import MSEEstimate, Objective
from counterrank.estimators.behavior.settings import SAMPLE_ROWS, TreeLimits
from counterrank.estimators.behavior.training import Position
from counterrank.estimators.behavior.words import Condition, ForestDescription, Leaf, People, Tree

__all__ = [
    "SAMPLE_ROWS",
    "BehaviorTree",
    "Candidate",
    "Condition",
    "Doubt",
    "ForestDescription",
    "Leaf",
    "TreeLimits",
    "MSEEstimate",
    "Models",
    "Objective",
    "Oracle",
    "Pairs",
    "PasIf",
    "People",
    "Position",
    "Tree",
    "as_mask",
    "candidates",
    "draw",
    "fit_source",
    "generated",
    "has_closed_form",
    "mask",
    "mse_estimate",
    "planned_tree",
    "published_models",
    "random",
]
