"""Evidence levels on constructed logs: what must be reliable is, what must not be is not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.evaluation.logs import gentle_log

import counterrank as cr
from counterrank.common.errors import ConfigError
from counterrank.estimators.weights.thresholds import THRESHOLDS
from counterrank.evaluation.comparisons import Rival
from counterrank.evaluation.verdict import (
    LEVELS,
    TargetEvidence,
    level_of,
    meets,
    reasons,
    round_up,
    verdict,
)
from counterrank.research.simulate import published

PATH = ["iips", "order-2", "order-3", "ips"]
ALL = ["auto", *PATH]


def statuses(result, target="new"):
    return {
        row["check"]: row["status"] for row in result.verdict["reasons"] if row["target"] == target
    }


@pytest.mark.parametrize("seed", range(5))
def test_ips_on_a_thousand_published_rankings_is_never_reliable(seed):
    log = published().draw(1000, np.random.default_rng(seed)).to_log()
    result = cr.evaluate(log, estimators=["ips"], audit=False)
    assert result.verdict["level"] == "insufficient"
    assert statuses(result)["ess"] == "fail"
    assert "effective" in result.verdict["summary"]


def test_a_gentle_target_is_reliable(gentle):
    result = cr.evaluate(
        gentle, estimators=ALL, audit=False, independent_rows=True, target_is_fresh=True
    )
    assert result.verdict["level"] == "reliable", result.verdict["reasons"]
    assert all(row["help"] == "" for row in result.verdict["reasons"])
    assert result.verdict["targets"] == {"new": "reliable"}


def test_the_logger_against_itself_is_reliable_and_without_lift(gentle):
    result = cr.evaluate(
        gentle,
        {"same": gentle.propensity},
        estimators=ALL,
        audit=False,
        independent_rows=True,
        target_is_fresh=True,
    )
    assert result.verdict["level"] == "reliable"
    assert result.estimate("same").lift.value == pytest.approx(0, abs=1e-12)


def test_a_biased_estimator_is_caught_by_those_that_assume_less(published_8000):
    """IIPS has a tiny interval here, and is wrong: order 2 says so."""
    result = cr.evaluate(published_8000, estimators=["iips", "order-2", "order-3"], audit=False)
    found = {e.estimator: e for e in result.estimates}
    rival = Rival(
        "order-2",
        found["iips"].value - found["order-2"].value,
        found["order-2"].stderr,
        usable=True,
    )
    rows = reasons(
        TargetEvidence(
            found["iips"], 24.7, 8000, 8000.0, moments=found["iips"].moments, rivals=[rival]
        )
    )
    row = next(row for row in rows if row["check"] == "agreement")
    # The text names who differs; nobody is recommended for it.
    assert row["status"] == "fail" and "order-2" in row["reason"] and "order-2" not in row["help"]
    assert level_of(rows) == "insufficient"
    assert statuses(result)["agreement"] != "fail"  # order 2 itself does not contradict order 3


def test_no_usable_rival_warns(published_8000):
    result = cr.evaluate(published_8000, estimators=["order-2", "ips"], audit=False)
    assert statuses(result)["agreement"] == "warn"
    assert result.verdict["level"] == "directional"


def test_wrong_propensities_are_insufficient(gentle):
    values = gentle.propensity.values
    log = cr.RankingLog(
        action=gentle.action, reward=gentle.reward, propensity=np.minimum(1.3 * values, 1)
    )
    result = cr.evaluate(log, {"new": gentle.targets["new"]}, estimators=["iips"], audit=False)
    assert statuses(result)["mean-weight"] == "fail"
    assert result.verdict["level"] == "insufficient"
    # The audit names the cause in the verdict itself.
    cause = next(r for r in result.verdict["reasons"] if r["check"] == "mean-weight")
    assert cause.cause and "compare candidate sets" in cause["help"]


def test_missing_support_is_seen_in_the_distributions():
    n = 3000
    rng = np.random.default_rng(0)
    p0, p1 = np.array([0.5, 0.5, 0.0]), np.array([0.4, 0.4, 0.2])
    action = rng.choice(3, size=(n, 2), p=p0)
    log = cr.RankingLog(
        action=action, reward=np.ones((n, 2)), propensity=p0[action],
        targets={"new": cr.Propensity("factored", p1[action])},
        dists={"propensity": np.tile(p0, (n, 1)), "new": np.tile(p1, (n, 1))},
    )  # fmt: skip
    result = cr.evaluate(log, estimators=["iips"], audit=False)
    assert statuses(result)["support"] == "fail"
    share = result.diagnostics["support"]["new"]
    np.testing.assert_allclose(share["unlogged_share"], [0.2, 0.2], atol=1e-12)
    assert [(one.action, one.share) for one in share.actions] == [("2", pytest.approx(0.2))]


def test_few_clicks_are_not_evidence():
    rng = np.random.default_rng(0)
    log = gentle_log(4000)
    reward = (rng.random(log.reward.shape) < 0.002).astype(float)  # some 24 clicks
    rare = cr.RankingLog(action=log.action, reward=reward, propensity=log.propensity)
    result = cr.evaluate(rare, {"new": log.targets["new"]}, estimators=PATH, audit=False)
    assert statuses(result)["outcomes"] == "fail"
    assert result.verdict["level"] == "insufficient"


def test_the_level_does_not_depend_on_the_direction(gentle):
    """Mirrored rewards turn every lift round and must leave every status alone."""
    mirrored = cr.RankingLog(
        action=gentle.action, reward=1 - gentle.reward, propensity=gentle.propensity
    )
    up = cr.evaluate(
        gentle,
        {"new": gentle.targets["new"]},
        estimators=ALL,
        audit=False,
        independent_rows=True,
        target_is_fresh=True,
    )
    down = cr.evaluate(
        mirrored,
        {"new": gentle.targets["new"]},
        estimators=ALL,
        audit=False,
        independent_rows=True,
        target_is_fresh=True,
    )
    assert np.sign(up.estimate().lift.value) == -np.sign(down.estimate().lift.value)
    assert up.verdict["level"] == down.verdict["level"] == "reliable"
    assert "better" not in up.verdict["summary"] and "worse" not in up.verdict["summary"]


def test_few_users_are_few_units():
    log = gentle_log(3000, unit=np.arange(3000) % 60)
    result = cr.evaluate(log, estimators=PATH, audit=False)
    assert statuses(result)["units"] == "fail"
    assert result.log["units"] == pytest.approx(60, rel=0.1)


def test_practical_sets_the_line_of_precision(gentle):
    strict = cr.evaluate(gentle, estimators=PATH, audit=False, practical=1e-4)
    assert statuses(strict)["precision"] == "fail"
    with pytest.raises(ConfigError, match="above 0"):
        cr.evaluate(gentle, estimators=PATH, practical=-1.0)


def test_help_says_how_many_rows():
    result = cr.evaluate(gentle_log(300), estimators=["iips"], audit=False)
    found = next(row for row in result.verdict["reasons"] if row["check"] == "ess")
    assert found["status"] == "warn"
    needed = 300 * 500 / result.estimate().ess
    assert f"about {round_up(needed):,} rows like these" in found["help"]


def test_every_reason_has_the_agreed_shape(gentle):
    found = cr.evaluate(gentle, estimators=PATH, audit=False).verdict
    shape = {"code", "status", "kind", "about", "text", "cause", "remedies", "examples"}
    for row, one in zip(found.to_dict()["reasons"], found["reasons"], strict=True):
        assert shape | {"target"} <= set(row) <= shape | {"target", "rows"}
        assert row["status"] in ("passed", "warned", "failed") and row["text"] and row["about"]
        assert list(one.remedies) == row["remedies"] and one.help == ", or ".join(row["remedies"])
        assert all(one[key] == row[key] for key in ("code", "status", "text", "target"))


def test_the_worst_target_decides(gentle):
    bad = cr.Propensity("factored", gentle.targets["new"].values ** 8)
    result = cr.evaluate(
        gentle, {"good": gentle.targets["new"], "bad": bad}, estimators=["iips"], audit=False
    )
    assert result.verdict["targets"]["bad"] == "insufficient" == result.verdict["level"]


def test_borrowed_weights_can_warn_but_not_fail():
    log = published().draw(1000, np.random.default_rng(0)).to_log()
    ips = cr.evaluate(log, estimators=["ips"], audit=False).estimate()
    own, lent = (
        {
            row["check"]: row["status"]
            for row in reasons(
                TargetEvidence(ips, 24.0, 1000, 1e3, moments=ips.moments, borrowed=b)
            )
        }
        for b in (False, True)
    )
    assert own["tail"] == "fail" and lent["tail"] == "warn"


def test_the_recommended_auto_is_judged_by_the_weights_it_rests_on(gentle):
    options = {"audit": False, "independent_rows": True, "target_is_fresh": True}
    whole = cr.evaluate(gentle, estimators=["auto"], **options)
    # Here the interval is that of whole rankings, and heavy weights would make it wrong.
    assert whole.estimate().weighted > 0.5 and whole.estimate().basis == "ips"
    assert {"tail", "concentration"} <= set(statuses(whole))
    assert whole.verdict["level"] == "reliable", whole.verdict["reasons"]
    further = gentle_log(6000, K=5, shift=3.0)
    result = cr.evaluate(further, estimators=[cr.Auto(allowance=0.01)], **options)
    assert result.recommended == {"new": "auto"}
    # Models are the larger part of this estimate: heavy weights say little of it, wrong ones would.
    assert 0.0 < result.estimate().weighted < 0.4
    assert {"mean-weight", "agreement"} <= set(statuses(result))
    assert not {"tail", "concentration"} & set(statuses(result))
    assert result.verdict["level"] == "reliable", result.verdict["reasons"]
    assert result.sensitivity["new"]["curve"][0]["low"] == pytest.approx(result.estimate().value)


def test_meets_orders_the_levels():
    for i, level in enumerate(LEVELS):
        for j, required in enumerate(LEVELS):
            assert meets(level, required) == (i >= j)
    with pytest.raises(ConfigError, match="no evidence level"):
        meets("reliable", "certain")


def test_what_cannot_be_computed_fails(gentle):
    estimate = cr.evaluate(gentle, estimators=["iips"], audit=False).estimate()
    broken = replace(
        estimate, ess=float("nan"), lift=replace(estimate.lift, low=float("nan"), high=float("nan"))
    )
    found = verdict({"new": reasons(TargetEvidence(broken, 1.0, 1000, float("nan")))})
    assert found["level"] == "insufficient"
    assert {r["check"] for r in found["reasons"] if r["status"] == "fail"} >= {
        "ess",
        "outcomes",
        "precision",
    }


@pytest.mark.parametrize(
    ("value", "rounded"), [(0.2, 1), (99.5, 100), (101, 110), (123456, 130000)]
)
def test_needs_are_rounded_up(value, rounded):
    assert round_up(value) == rounded


def test_the_documented_table_is_the_one_used():
    page = (Path(__file__).parents[2] / "docs/explanation/verdict.md").read_text(encoding="utf-8")
    for check, line in THRESHOLDS.items():
        assert f"| `{check}` | {line.measures} | {line.reliable:g} | {line.directional:g} |" in page
        assert line.why in page


def test_a_failed_audit_is_never_reliable(gentle):
    twice = gentle.take(np.repeat(np.arange(gentle.n), 2))
    log = cr.RankingLog(
        action=twice.action, reward=twice.reward, propensity=twice.propensity, targets=twice.targets,
        context=np.repeat(np.random.default_rng(0).normal(size=(gentle.n, 1)), 2, axis=0),
    )  # fmt: skip
    quiet = cr.evaluate(
        log, ["new"], estimators=ALL, audit=False, independent_rows=True, target_is_fresh=True
    )
    loud = cr.evaluate(
        log, ["new"], estimators=ALL, audit=True, independent_rows=True, target_is_fresh=True
    )
    # Repeated rows are a vital check: it is made without the rest of the audit too.
    assert quiet.verdict["level"] == "directional"
    assert loud.verdict["level"] == "directional"
    row = next(row for row in loud.verdict["reasons"] if row["check"] == "duplicates")
    assert "drop repeated rows" in row["help"]


def test_a_value_below_zero_has_no_shares():
    from counterrank.evaluation.exploration import plan_for

    plan = plan_for(1000, 0.1, logged=-2.0, logged_stderr=0.05, level=0.95)
    assert np.isnan(plan.detectable_relative) and plan.rows_for == ()
