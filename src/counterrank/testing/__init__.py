"""Contract checks that every estimator, policy, MSE estimate, interval and engine passes.

In the spirit of scikit-learn's estimator checks: hand an object to `check_estimator`,
`check_policy`, `check_interval`, `check_mse_estimate` or `check_source` in your own tests; an
AssertionError says which law it breaks.
"""

from counterrank._lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
__all__ = __dir__()
