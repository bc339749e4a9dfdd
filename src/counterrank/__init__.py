"""counterrank: what a new ranking policy would earn, from the logs of the old one."""

from counterrank._lazy import attach
from counterrank._version import __version__

__getattr__, __dir__, __all__ = attach(
    {
        "errors": ["CounterrankError", "CounterrankWarning"],
        "data.log": ["RankingLog"],
        "data.propensity": ["Propensity"],
        "io": ["read_log", "scan_log"],
        "policies": [
            "Policy",
            "Factored",
            "Softmax",
            "EpsilonGreedy",
            "Greedy",
            "Uniform",
            "PlackettLuce",
            "UniformPermutation",
            "Mixture",
            "SlotEpsilonGreedy",
            "Deterministic",
            "RandTopN",
            "RandomSwap",
            "FairPairs",
            "TeamDraft",
            "Enumerated",
            "Autoregressive",
            "BestOf",
            "Candidates",
            "ItemFeatures",
            "parse_policy",
            "epsilon_mixture",
            "pooled",
            "load_policy",
            "save_policy",
        ],
        "behavior": ["BehaviorTree", "Candidate", "candidates"],
        "estimators": [
            "IPS",
            "IIPS",
            "RIPS",
            "AIPS",
            "OrderIPS",
            "Auto",
            "DM",
            "DR",
            "CascadeDR",
            "Clipped",
            "Shrunk",
            "Switch",
            "PseudoInverse",
            "Marginalised",
            "Estimate",
        ],
        "learning": ["learn", "Learned", "LearnedPolicy"],
        "evaluation": ["evaluate", "Evaluation", "validate", "Validation"],
        "audit": ["audit_file", "audit_log"],
        "propensity_models": ["estimate_propensities"],
    }
)
__all__ += ["__version__"]
