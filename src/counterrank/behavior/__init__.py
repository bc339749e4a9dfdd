"""Behaviour models, and the paper's tree that says which of them each context gets.

`masks` has the models. The tree, from the inside out: `settings` (every tuned number), `training`
(the rows trees grow on), `pairs`, `objective`, `estimates` and `pasif` (what they minimise), `growing` (one
tree), `forest` (a tree per position, and its file), `words` (what people see), `behavior_tree` (the
public face; large logs).
"""

from counterrank.behavior.behavior_tree import BehaviorTree, fit_source, planned_tree
from counterrank.behavior.estimates import DirectBias, Oracle, Pairs, mse_estimate
from counterrank.behavior.masks import (
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
    published_models,
    random,
    standard,
    window_above,
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
    "DirectBias",
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
    "cascade",
    "draw",
    "first_items",
    "fit_source",
    "generated",
    "independent",
    "inverse_cascade",
    "mask",
    "mse_estimate",
    "neighbors",
    "planned_tree",
    "published_models",
    "random",
    "standard",
    "window_above",
]
