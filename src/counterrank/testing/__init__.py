"""Contract checks that every estimator, policy, MSE estimate, interval and engine passes.

In the spirit of scikit-learn's estimator checks: hand an object to `check_estimator`,
`check_policy`, `check_interval`, `check_mse_estimate` or `check_source` in your own tests; an
AssertionError says which law it breaks.
"""

from typing import TYPE_CHECKING

from counterrank._lazy import attach

if TYPE_CHECKING:
    from counterrank.testing.estimators import check_estimator
    from counterrank.testing.intervals import check_interval
    from counterrank.testing.mse import check_mse_estimate
    from counterrank.testing.policies import check_policy
    from counterrank.testing.sources import check_source
    from counterrank.testing.spaces import Space, exact_log, random_log

__all__ = [
    "Space",
    "check_estimator",
    "check_interval",
    "check_mse_estimate",
    "check_policy",
    "check_source",
    "exact_log",
    "random_log",
]

# Hidden from type checkers, for which a module with `__getattr__` has every name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "estimators": ["check_estimator"],
            "intervals": ["check_interval"],
            "mse": ["check_mse_estimate"],
            "policies": ["check_policy"],
            "sources": ["check_source"],
            "spaces": ["Space", "exact_log", "random_log"],
        },
    )
