"""counterrank: what a new ranking policy would earn, from the logs of the old one."""

from typing import TYPE_CHECKING

from counterrank._lazy import attach
from counterrank._version import __version__

# Type checkers and editors read these imports; at run time a name loads its module on first use.
if TYPE_CHECKING:
    from counterrank.audit import (
        audit_file,
        audit_log,
    )
    from counterrank.behavior import (
        BehaviorTree,
        Candidate,
        candidates,
    )
    from counterrank.data.log import (
        RankingLog,
    )
    from counterrank.data.propensity import (
        Propensity,
    )
    from counterrank.data.rank_by import (
        rank_by,
    )
    from counterrank.errors import (
        CounterrankError,
        CounterrankWarning,
    )
    from counterrank.estimators import (
        AIPS,
        DM,
        DR,
        IIPS,
        IPS,
        RIPS,
        Auto,
        CascadeDR,
        Clipped,
        Estimate,
        Marginalised,
        OrderIPS,
        PseudoInverse,
        Shrunk,
        Switch,
    )
    from counterrank.evaluation import (
        ABTest,
        Evaluation,
        Validation,
        abtest,
        evaluate,
        position_curve,
        validate,
    )
    from counterrank.exploration import (
        plan,
    )
    from counterrank.io import (
        Query,
        read_log,
        scan_log,
    )
    from counterrank.learning import (
        Learned,
        LearnedPolicy,
        learn,
    )
    from counterrank.policies import (
        Autoregressive,
        BelowFold,
        BestOf,
        Candidates,
        Deterministic,
        Enumerated,
        EpsilonGreedy,
        Factored,
        FairPairs,
        Greedy,
        ItemFeatures,
        Mixture,
        PlackettLuce,
        Policy,
        RandomSwap,
        RandTopN,
        SlotEpsilonGreedy,
        Softmax,
        TeamDraft,
        Uniform,
        UniformPermutation,
        epsilon_mixture,
        load_policy,
        parse_policy,
        pooled,
        save_policy,
    )
    from counterrank.propensity_models import (
        estimate_propensities,
    )
    from counterrank.report import (
        ExplorationPlan,
    )

__all__ = [
    "ABTest",
    "AIPS",
    "Auto",
    "Autoregressive",
    "BehaviorTree",
    "BelowFold",
    "BestOf",
    "Candidate",
    "Candidates",
    "CascadeDR",
    "Clipped",
    "CounterrankError",
    "CounterrankWarning",
    "DM",
    "DR",
    "Deterministic",
    "Enumerated",
    "EpsilonGreedy",
    "Estimate",
    "Evaluation",
    "ExplorationPlan",
    "Factored",
    "FairPairs",
    "Greedy",
    "IIPS",
    "IPS",
    "ItemFeatures",
    "Learned",
    "LearnedPolicy",
    "Marginalised",
    "Mixture",
    "OrderIPS",
    "PlackettLuce",
    "Policy",
    "Propensity",
    "PseudoInverse",
    "Query",
    "RIPS",
    "RandTopN",
    "RandomSwap",
    "RankingLog",
    "Shrunk",
    "SlotEpsilonGreedy",
    "Softmax",
    "Switch",
    "TeamDraft",
    "Uniform",
    "UniformPermutation",
    "Validation",
    "abtest",
    "audit_file",
    "audit_log",
    "candidates",
    "epsilon_mixture",
    "estimate_propensities",
    "evaluate",
    "learn",
    "load_policy",
    "parse_policy",
    "plan",
    "pooled",
    "position_curve",
    "rank_by",
    "read_log",
    "save_policy",
    "scan_log",
    "validate",
    "__version__",
]

# Hidden from type checkers, for which a module with `__getattr__` has every name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "audit": ["audit_file", "audit_log"],
            "behavior": ["BehaviorTree", "Candidate", "candidates"],
            "data.log": ["RankingLog"],
            "data.propensity": ["Propensity"],
            "data.rank_by": ["rank_by"],
            "errors": ["CounterrankError", "CounterrankWarning"],
            "estimators": [
                "AIPS",
                "Auto",
                "CascadeDR",
                "Clipped",
                "DM",
                "DR",
                "Estimate",
                "IIPS",
                "IPS",
                "Marginalised",
                "OrderIPS",
                "PseudoInverse",
                "RIPS",
                "Shrunk",
                "Switch",
            ],
            "evaluation": [
                "ABTest",
                "Evaluation",
                "Validation",
                "abtest",
                "evaluate",
                "position_curve",
                "validate",
            ],
            "exploration": ["plan"],
            "io": ["Query", "read_log", "scan_log"],
            "learning": ["Learned", "LearnedPolicy", "learn"],
            "policies": [
                "Autoregressive",
                "BelowFold",
                "BestOf",
                "Candidates",
                "Deterministic",
                "Enumerated",
                "EpsilonGreedy",
                "Factored",
                "FairPairs",
                "Greedy",
                "ItemFeatures",
                "Mixture",
                "PlackettLuce",
                "Policy",
                "RandTopN",
                "RandomSwap",
                "SlotEpsilonGreedy",
                "Softmax",
                "TeamDraft",
                "Uniform",
                "UniformPermutation",
                "epsilon_mixture",
                "load_policy",
                "parse_policy",
                "pooled",
                "save_policy",
            ],
            "propensity_models": ["estimate_propensities"],
            "report": ["ExplorationPlan"],
        },
    )
