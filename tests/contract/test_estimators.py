"""Every registered estimator keeps the contract; a broken one is caught."""

import numpy as np
import pytest

from counterrank.estimators import registry
from counterrank.estimators.ips import IPS
from counterrank.testing import check_estimator

#: Exact on any space: no assumption on behaviour is made.
UNBIASED = {"ips", "snips", "cv-ips"}


@pytest.mark.parametrize(
    "name", ["ips", "iips", "rips", "snips", "sniips", "snrips", "cv-ips", "cv-iips", "order-2", "order-3"]
)
def test_registered_estimator_keeps_the_contract(name):
    check_estimator(registry.get(name), unbiased=name in UNBIASED)


class Drifting(IPS):
    """Adds its seedless state to the answer: must be caught."""

    def estimate(self, log, target, *, level=0.95, seed=0):
        found = super().estimate(log, target, level=level, seed=seed)
        object.__setattr__(found, "value", found.value + np.random.default_rng().normal())
        return found


def test_an_estimator_that_breaks_the_law_is_caught():
    with pytest.raises(AssertionError):
        check_estimator(Drifting())


def test_iips_is_caught_as_biased_when_items_interact():
    with pytest.raises(AssertionError, match="biased on an enumerated space"):
        check_estimator(registry.get("iips"), unbiased=True)
