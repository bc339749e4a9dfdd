"""Ranking policies: what they draw, and how likely they put given items at given positions."""

from counterrank.policies.autoregressive import Autoregressive
from counterrank.policies.base import CAPABILITIES, Bools, Floats, Ints, Policy, SubsetResult
from counterrank.policies.enumerated import Enumerated
from counterrank.policies.factored import (
    EpsilonGreedy,
    Factored,
    Greedy,
    Softmax,
    Uniform,
    from_callable,
    from_classifier,
)
from counterrank.policies.fair_pairs import FairPairs
from counterrank.policies.mixture import Mixture, epsilon_mixture, pooled
from counterrank.policies.plackett_luce import PlackettLuce
from counterrank.policies.rand_top_n import RandTopN
from counterrank.policies.random_swap import RandomSwap
from counterrank.policies.ranked import Deterministic
from counterrank.policies.ratios import SubsetRatios, subset_log_ratio
from counterrank.policies.slot_epsilon_greedy import SlotEpsilonGreedy
from counterrank.policies.storage import kinds, load_policy, save_policy
from counterrank.policies.superset import superset_mask
from counterrank.policies.team_draft import TeamDraft
from counterrank.policies.uniform_permutation import UniformPermutation

__all__ = [
    "CAPABILITIES",
    "Autoregressive",
    "Bools",
    "Deterministic",
    "Enumerated",
    "EpsilonGreedy",
    "Factored",
    "FairPairs",
    "Floats",
    "Greedy",
    "Ints",
    "Mixture",
    "PlackettLuce",
    "Policy",
    "RandTopN",
    "RandomSwap",
    "SlotEpsilonGreedy",
    "Softmax",
    "SubsetRatios",
    "SubsetResult",
    "TeamDraft",
    "Uniform",
    "UniformPermutation",
    "epsilon_mixture",
    "from_callable",
    "from_classifier",
    "kinds",
    "load_policy",
    "pooled",
    "save_policy",
    "subset_log_ratio",
    "superset_mask",
]
