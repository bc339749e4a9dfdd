"""The behaviour tree: binning, objective, growth, prediction, words and pictures."""

from counterrank.tree.behavior_tree import BehaviorTree
from counterrank.tree.cross_fitted import fit_cross_fitted
from counterrank.tree.objective import MSEEstimate, Objective, Position
from counterrank.tree.random_growth import PartitionGrower, Random, RandomGrowth

__all__ = [
    "BehaviorTree",
    "MSEEstimate",
    "Objective",
    "PartitionGrower",
    "Position",
    "Random",
    "RandomGrowth",
    "fit_cross_fitted",
]
