"""One reward beside a baseline policy: evidence and bias of both policies count."""

import numpy as np
import pytest
from tests.evaluation.logs import gentle_log

import counterrank as cr


@pytest.fixture(scope="module")
def log():
    """Two sound targets, and one whose probabilities are a half too large."""
    found = gentle_log(3000)
    new = found.targets["new"].values
    mixed = (new + found.propensity.values) / 2
    return found.with_targets(
        {
            "new": cr.Propensity("factored", new),
            "old": cr.Propensity("factored", mixed),
            "wrong": cr.Propensity("factored", np.minimum(1.5 * new, 1.0)),
        }
    )


def test_evidence_is_no_better_than_that_on_the_baseline(log):
    alone = cr.evaluate(log, ["new", "wrong"], estimators=["iips"], independent_rows=True)
    assert (alone.verdict.level_of("new"), alone.verdict.level_of("wrong")) == (
        "directional",
        "insufficient",
    )
    result = cr.evaluate(
        log, ["new", "wrong"], estimators=["iips"], baseline="wrong", independent_rows=True
    )
    assert result.verdict.level_of("new") == result.verdict.level == "insufficient"
    assert "no better than that on the baseline" in result.verdict.summary


def test_a_plan_for_a_lift_over_a_policy_allows_for_the_bias_of_both(log):
    estimators = [cr.Auto(allowance=0.01)]
    result = cr.evaluate(log, ["new", "old"], estimators=estimators, baseline="old", audit=False)
    both = result.estimate("new").allowance + result.estimate("old").allowance
    assert result.estimate("old").allowance > 0 and set(result.planning) == {"new"}
    assert result.planning["new"].allowance_relative == pytest.approx(both / result.log.value)
