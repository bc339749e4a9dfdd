"""Ranking policies: what they draw, and how likely they put given items at given positions.

Names are loaded on first use, so that importing this package costs nothing.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Policy": "base",
    "SubsetResult": "base",
    "Factored": "factored",
    "Softmax": "factored",
    "EpsilonGreedy": "factored",
    "Greedy": "factored",
    "Uniform": "factored",
    "from_callable": "factored",
    "from_classifier": "factored",
    "PlackettLuce": "plackett_luce",
    "UniformPermutation": "uniform_permutation",
    "Mixture": "mixture",
    "epsilon_mixture": "mixture",
    "pooled": "mixture",
    "SlotEpsilonGreedy": "slot_epsilon_greedy",
    "Deterministic": "ranked",
    "RandTopN": "rand_top_n",
    "RandomSwap": "random_swap",
    "FairPairs": "fair_pairs",
    "TeamDraft": "team_draft",
    "Enumerated": "enumerated",
    "Autoregressive": "autoregressive",
    "SubsetRatios": "ratios",
    "subset_log_ratio": "ratios",
    "superset_mask": "superset",
    "save_policy": "storage",
    "load_policy": "storage",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"counterrank.policies.{_HOME[name]}"), name)
    raise AttributeError(f"module 'counterrank.policies' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
