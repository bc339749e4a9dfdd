"""Every registered estimator keeps the contract, a new one by being registered; broken ones are
caught.
"""

import numpy as np
import pytest

from counterrank.estimators import registry
from counterrank.estimators.masked import IPS
from counterrank.testing import check_estimator

#: Names with a parameter, which the registry can only give examples of.
PATTERNS = ["order-1", "clip-order-2", "shrink-order-2", "switch-order-2"]
#: Exact on any space: no assumption on behaviour is made.
UNBIASED = {"ips", "snips", "cv-ips", "clip-ips", "order-3"}
#: Add a model's value for what was not shown, or shrink weights: near what the log earned, not
#: equal to it.
MODELLED = ("dm", "dr-", "cascade-dr", "switch-", "shrink-", "auto")
#: The tree is chosen anew for shifted rewards, which need not give the same models.
SHIFTED = {f"{how}{name}" for how in ("sn", "cv-") for name in ("ips", "iips", "rips")}


#: Must know which rankings a policy would show, or how likely each item is everywhere.
BY_POLICY = {"pbm", "click-model"}


@pytest.mark.parametrize("name", sorted({*registry.names(), *PATTERNS}))
def test_registered_estimator_keeps_the_contract(name):
    check_estimator(
        registry.get(name),
        unbiased=name in UNBIASED,
        on_policy=not name.startswith(MODELLED) and name not in BY_POLICY,
        shift=name in SHIFTED,
        policies=name in BY_POLICY,
    )


class Drifting(IPS):
    """Adds its seedless state to the answer: must be caught."""

    def estimate(self, log, target, **options):
        found = super().estimate(log, target, **options)
        object.__setattr__(found, "value", found.value + np.random.default_rng().normal())
        return found


class Generous(IPS):
    """Pays a bonus for every row, whatever was shown."""

    def estimate(self, log, target, **options):
        found = super().estimate(log, target, **options)
        object.__setattr__(found, "value", found.value * 1.01)
        return found


@pytest.mark.parametrize("broken", [Drifting(), Generous()])
def test_an_estimator_that_breaks_the_law_is_caught(broken):
    with pytest.raises(AssertionError):
        check_estimator(broken)


@pytest.mark.parametrize(
    ("law", "message"), [("unbiased", "biased on an enumerated"), ("shift", "not V\\(r\\) \\+ 3")]
)
def test_iips_is_caught_where_a_law_does_not_hold(law, message):
    with pytest.raises(AssertionError, match=message):
        check_estimator(registry.get("iips"), **{law: True})
