"""The plain estimators that the simulator is judged by."""

from collections.abc import Callable

import numpy as np
import pytest

from counterrank.common.arrays import Floats
from counterrank.research.simulate import SimulatedLog


def _naive_estimates(log: SimulatedLog) -> dict[str, Floats]:
    """Return each row's contribution to IPS, IIPS, RIPS and AIPS with the true behaviour: (n,)
    each.
    """
    rho = log.target / log.propensity  # (n, K)
    prefix = np.cumprod(rho, axis=1)
    true = np.where(log.masks[log.behavior], rho[:, None, :], 1.0).prod(axis=2)
    weights = {"IPS": prefix[:, -1:], "IIPS": rho, "RIPS": prefix, "TRUE": true}
    return {name: (weight * log.reward).sum(axis=1) for name, weight in weights.items()}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20230806)


@pytest.fixture
def naive_estimates() -> Callable[[SimulatedLog], dict[str, Floats]]:
    return _naive_estimates
