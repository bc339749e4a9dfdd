"""Ranking policies: they draw rankings and give the probability of items at positions."""

from counterrank.policies.arrays import ArrayPolicy, ClosedFormPolicy, repeated, superset_mask
from counterrank.policies.autoregressive import Autoregressive
from counterrank.policies.base import (
    CAPABILITIES,
    Policy,
    SubsetResult,
    attraction,
    position_matrix,
    subset_log_ratio,
)
from counterrank.policies.best_of import BestOf, cut, drawn_weight, draws_below, without_rounding
from counterrank.policies.candidates import Candidates, ItemFeatures, Labels
from counterrank.policies.factored import (
    EpsilonGreedy,
    Factored,
    Softmax,
    Uniform,
)
from counterrank.policies.mixture import Mixture, epsilon_mixture, pooled
from counterrank.policies.ranked import (
    Deterministic,
    Enumerated,
    RandomSwap,
    RandTopN,
    TeamDraft,
    UniformPermutation,
)
from counterrank.policies.row_random import RowRandom
from counterrank.policies.scored import Scored, candidate_fit
from counterrank.policies.specs import (
    PolicySpec,
    mixture_of,
    parse_named_policy,
    parse_policy,
    policy_from_table,
)
from counterrank.policies.storage import (
    exploration_file,
    kinds,
    load_policy,
    save_policy,
    spec_in_file,
)
from counterrank.policies.without_replacement import BelowFold, PlackettLuce, SlotEpsilonGreedy

__all__ = [
    "CAPABILITIES",
    "ArrayPolicy",
    "Autoregressive",
    "BelowFold",
    "BestOf",
    "attraction",
    "cut",
    "drawn_weight",
    "draws_below",
    "Candidates",
    "ClosedFormPolicy",
    "Deterministic",
    "Enumerated",
    "EpsilonGreedy",
    "Factored",
    "ItemFeatures",
    "Labels",
    "Mixture",
    "PlackettLuce",
    "Policy",
    "PolicySpec",
    "RandTopN",
    "RandomSwap",
    "RowRandom",
    "Scored",
    "SlotEpsilonGreedy",
    "Softmax",
    "SubsetResult",
    "TeamDraft",
    "Uniform",
    "UniformPermutation",
    "candidate_fit",
    "epsilon_mixture",
    "exploration_file",
    "kinds",
    "load_policy",
    "mixture_of",
    "parse_named_policy",
    "parse_policy",
    "policy_from_table",
    "pooled",
    "position_matrix",
    "repeated",
    "save_policy",
    "without_rounding",
    "spec_in_file",
    "subset_log_ratio",
    "superset_mask",
]
