"""Guardrails and the decision: never better than the evidence of the primary and of every guardrail."""

import numpy as np
import pytest
from scipy import stats
from tests.metrics.conftest import log_of, made

import counterrank as cr
from counterrank.evaluation import GuardrailResult
from counterrank.evaluation.metric_table import decision, overall, status_of
from counterrank.metrics import parse_guardrail
from counterrank.statistics import correlation_of, simultaneous_level

UP, DOWN, UNSURE = (0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1)


def action(ends=UP, evidence="reliable", *rails):
    return decision("clicks", {"new": (*ends, evidence)}, rails).action


def rail(status="safe", evidence="reliable"):
    text = "revenue >= -0.01"
    return GuardrailResult(text, "new", status, 0.0, 0.0, 0.0, "revenue", -0.01, evidence=evidence)


def test_only_reliable_good_news_is_shipped():
    assert action() == "ship"
    assert action(UP, "reliable", rail(), rail()) == "ship"
    assert action(UP, "directional") == "test"
    assert action(UP, "insufficient") == "test"
    assert action(UNSURE) == "test"
    assert action(UP, "reliable", rail("open")) == "test"
    assert action(UP, "reliable", rail("safe", "directional")) == "test"
    assert action(UP, "reliable", rail("safe", "insufficient")) == "test"


def test_harm_is_held_whatever_the_evidence():
    assert action(DOWN) == "hold"
    assert action(DOWN, "directional") == "hold"
    assert action(DOWN, "insufficient") == "hold"
    assert action(UP, "reliable", rail("broken")) == "hold"
    assert action(UP, "reliable", rail("broken", "directional")) == "hold"
    assert action(UP, "reliable", rail("broken", "insufficient")) == "test"
    assert action(UNSURE, "reliable", rail(), rail("broken")) == "hold"


def test_reasons_have_codes_and_the_decisive_ones_are_given():
    found = decision("clicks", {"new": (*UP, "reliable")}, [rail(), rail("broken")])
    assert [one.code for one in found.reasons] == ["guardrail-broken"]


def test_a_limit_from_above_is_the_mirror_of_one_from_below():
    above = parse_guardrail("first <= 0.05")
    assert status_of(above, -0.1, 0.04) == "safe"
    assert status_of(above, 0.06, 0.1) == "broken"
    assert status_of(above, 0.0, 0.1) == "open"
    assert status_of(above, float("nan"), float("nan")) == "open"


def test_all_targets_are_held_or_one_is_shipped():
    assert overall(["test", "hold", "ship"]) == "ship"
    assert overall([]) == "test"


def test_the_level_of_each_interval_is_exact_for_two_and_within_bounds_for_more():
    for rho in (0.0, 0.5, 0.9):
        corr = np.array([[1.0, rho], [rho, 1.0]])
        c = stats.norm.ppf((1 + simultaneous_level(corr, 0.95)) / 2)
        inside = stats.multivariate_normal(cov=corr)
        found = (
            inside.cdf([c, c]) - inside.cdf([-c, c]) - inside.cdf([c, -c]) + inside.cdf([-c, -c])
        )
        # 100 000 draws know the level to 0.0007: five of those.
        assert found == pytest.approx(0.95, abs=0.0035)
    same = np.ones((3, 3))
    assert simultaneous_level(same, 0.95) == pytest.approx(0.95, abs=0.0035)
    assert simultaneous_level(np.eye(60), 0.95) == pytest.approx(0.95 ** (1 / 60), rel=1e-12)


def test_correlations_of_what_does_not_vary_are_zero():
    found = correlation_of(np.array([[4.0, 0.0], [0.0, 0.0]]))
    assert found.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.fixture(scope="module")
def strong():
    return log_of(made(n=6000, seed=3))


DECLARED = {"independent_rows": True, "target_is_fresh": True, "estimators": ["auto"]}


def test_a_better_policy_is_shipped_held_or_tested_as_its_guardrails_say(strong):
    # 'new' shows what is clicked, which is cheap: clicks rise, revenue per click falls.
    asked = {"rewards": {"per click": "revenue / clicks"}, "primary": "clicks", **DECLARED}
    for rails, expected in (
        (["per click >= -0.5"], "ship"),
        (["per click >= -0.02"], "hold"),
        (["clicks by device >= -0.1", "per click >= -0.5"], "ship"),
    ):
        found = cr.evaluate(strong, ["new"], guardrails=rails, **asked)
        assert found.decision.action == expected, found.decision
    undeclared = cr.evaluate(
        strong, ["new"], guardrails=["per click >= -0.5"], **{**asked, "target_is_fresh": False}
    )
    assert undeclared.decision.action == "test"


def test_absolute_guardrails_are_in_the_unit_of_the_metric(strong):
    found = cr.evaluate(
        strong, ["new"], guardrails=["revenue >= -3 EUR", "revenue >= 3 EUR"], **DECLARED
    )
    lift = found.metric("revenue").estimate("new").lift
    assert [row.status for row in found.guardrails] == ["safe", "broken"]
    assert found.guardrails[0].lift == pytest.approx(lift.value)
    assert not found.guardrails[0].relative
    # Both guardrails are one statistic: looking at it twice costs nothing.
    assert found.guardrails[0].low == pytest.approx(lift.low, rel=0.02)


def test_of_two_candidates_the_better_one_is_shipped(strong):
    found = cr.evaluate(strong, ["prod", "new"], primary="clicks", **DECLARED)
    assert found.decision.targets == {"prod": "hold", "new": "ship"}
    assert (found.decision.action, found.decision.target) == ("ship", "new")
