"""Behaviour models, and the paper's tree that says which of them each context gets.

`masks` has the models. The tree, from the inside out: `settings` (every tuned number), `training`
(the rows trees grow on), `pairs`, `objective`, `estimates` and `pasif` (what they minimise), `growing` (one
tree), `forest` (a tree per position, and its file), `words` (what people see), `behavior_tree` (the
public face; large logs).
"""

from counterrank.behavior.behavior_tree import BehaviorTree, fit_source, planned_tree
from counterrank.behavior.estimates import Oracle, Pairs, mse_estimate
from counterrank.behavior.masks import (
    Candidate,
    as_mask,
    candidates,
    draw,
    generated,
    mask,
    published_models,
    random,
)
from counterrank.behavior.objective import MSEEstimate, Objective
from counterrank.behavior.pasif import PasIf
from counterrank.behavior.settings import TreeLimits
from counterrank.behavior.training import Position
from counterrank.behavior.words import Condition, ForestDescription, Leaf, People, Tree

__all__ = [
    "BehaviorTree",
    "Candidate",
    "Condition",
    "ForestDescription",
    "Leaf",
    "TreeLimits",
    "MSEEstimate",
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
    "mask",
    "mse_estimate",
    "planned_tree",
    "published_models",
    "random",
]
