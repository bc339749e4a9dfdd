"""The old name of `counterrank.propensity_models`."""

import warnings
from typing import Any

from counterrank import propensity_models


def __getattr__(name: str) -> Any:
    if name not in propensity_models.__all__:
        raise AttributeError(f"module 'counterrank.propensities' has no attribute '{name}'")
    warnings.warn(
        f"counterrank.propensities is now counterrank.propensity_models; use counterrank.{name}",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(propensity_models, name)
