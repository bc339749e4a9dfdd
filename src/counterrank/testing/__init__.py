"""Contract checks for estimators, policies, MSE estimates, intervals and sources.

Like scikit-learn's estimator checks, they are meant for tests of plug-ins: pass an object to
`check_estimator`, `check_policy`, `check_interval`, `check_mse_estimate` or `check_source`. The
AssertionError says which law the object violates.
"""

from counterrank.common.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
__all__ = __dir__()
