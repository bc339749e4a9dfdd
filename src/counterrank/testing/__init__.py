"""Contract checks that every estimator, policy, MSE estimate, interval and engine passes, ours and
yours.

In the spirit of scikit-learn's estimator checks: hand an object to `check_estimator`,
`check_policy`, `check_interval`, `check_mse_estimate` or `check_source` in your own tests; an
AssertionError says which law it breaks.
"""

from counterrank._lazy import attach

__getattr__, __dir__, __all__ = attach(
    {
        "estimators": ["check_estimator"],
        "policies": ["check_policy"],
        "intervals": ["check_interval"],
        "mse": ["check_mse_estimate"],
        "sources": ["check_source"],
        "spaces": ["Space", "exact_log", "random_log"],
    },
    package="counterrank.testing",
)
