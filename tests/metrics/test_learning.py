"""Learning with several metrics: the primary rises, and no guardrail is broken with the same confidence."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from tests.learning.conftest import clicks_log

import counterrank as cr
from counterrank.common.errors import ConfigError
from counterrank.learning.certificates import lower_bound
from counterrank.learning.paths import WatchedRewards
from counterrank.metrics import parse_guardrail

LEARN = {"independent_rows": True, "seed": 0}


@pytest.fixture(scope="module")
def log():
    """Return clicks, and those of them on the three least liked items, which a better policy loses."""
    plain = clicks_log(1, n=2500)
    unloved = plain.reward * (plain.action < 3)
    return cr.RankingLog(
        action=plain.action,
        reward={"clicks": plain.reward, "unloved": unloved},
        propensity=plain.propensity,
        context=plain.context,
        columns=plain.columns,
    )


def test_a_policy_is_certified_where_every_guardrail_holds(log):
    found = cr.learn(log, guardrails=["clicks by device >= -0.5", "unloved >= -0.9"], **LEARN)
    assert found.certificate.certified
    assert [one.status for one in found.certificate.guardrails] == ["safe"] * 3
    assert "No guardrail is broken" in str(found.certificate)
    assert found.to_dict()["guardrails"][0]["group"] == "device = desk"


def test_a_guardrail_that_does_not_hold_stops_the_certificate(log):
    found = cr.learn(log, guardrails=["unloved >= -0.01"], **LEARN)
    assert not found.certificate.certified
    assert found.certificate.guardrails[0].status == "open"
    assert "unloved >= -0.01" in str(found.certificate)


def test_without_guardrails_nothing_changes(log):
    plain = clicks_log(1, n=2500)
    mine, theirs = cr.learn(log, **LEARN), cr.learn(plain, **LEARN)
    # But for the name of what is earned.
    assert (mine.certificate.metric, theirs.certificate.metric) == ("clicks", "reward")
    sentence = theirs.certificate.sentence.replace("reward", "clicks")
    assert mine.certificate == replace(theirs.certificate, metric="clicks", sentence=sentence)
    assert "guardrails" not in mine.to_dict()


def test_ratios_amounts_for_free_and_unknown_metrics_are_refused(log):
    amounts = cr.RankingLog(
        action=log.action,
        reward={"clicks": log.reward, "revenue": 7.5 * log.reward},
        propensity=log.propensity,
        context=log.context,
    )
    with pytest.raises(ConfigError, match="is a ratio"):
        cr.learn(log, rewards={"r": "unloved / clicks"}, guardrails="r >= -0.1", **LEARN)
    with pytest.raises(ConfigError, match="not 0 or 1"):
        cr.learn(amounts, guardrails="revenue >= -0.1", **LEARN)
    assert cr.learn(amounts, guardrails="revenue >= -0.5", grade="assumed", **LEARN).certificate
    with pytest.raises(ConfigError, match="names 'profit'"):
        cr.learn(log, guardrails="profit >= -0.1", **LEARN)


@pytest.mark.parametrize("free", [True, False])
def test_a_guardrail_at_its_limit_is_called_safe_no_more_often_than_allowed(free):
    rng = np.random.default_rng(5)
    called, runs, n = 0, 400, 300
    rail = parse_guardrail("x >= 0.2")
    for _ in range(runs):
        # Weights of mean 1 that go with rewards: the true relative lift is 0.2.
        good = rng.random(n) < 0.5
        weight = np.where(good, 1.4, 0.6)
        earned = (rng.random(n) < np.where(good, 0.6, 0.2)).astype(float)
        one = WatchedRewards(rail, earned, 1.0)
        about = (one.lowest(1.4), 0.5, 0.0) if free else None
        low = lower_bound(one.margins(weight), np.ones(n), 0.05, about, rng)
        called += one.bound(weight, low).safe
    # Binomial(400, 0.05): more than 40 has a probability of 2e-5.
    assert called <= 40


def test_the_margin_is_the_guardrail_in_one_mean():
    weight, earned = np.array([2.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0])
    rail = WatchedRewards(parse_guardrail("x >= -0.5"), earned, 1.0)
    assert rail.margins(weight).tolist() == [1.5, -0.5, 0.0]
    assert rail.lowest(2.0) == -0.5
    above = WatchedRewards(parse_guardrail("x <= 0.5"), earned, 1.0)
    assert above.margins(weight).tolist() == [-0.5, 1.5, 0.0]
    assert above.lowest(2.0) == -0.5
    unit = WatchedRewards(parse_guardrail("x >= -0.1 clicks"), earned, 1.0)
    assert unit.margins(weight) == pytest.approx([1.1, -0.9, 0.1])
    assert unit.lowest(2.0) == pytest.approx(-0.9)
    assert rail.bound(weight, 0.0).lift == pytest.approx(0.0)


def test_the_command_takes_guardrails():
    from counterrank.cli.learn import learn

    shown = CliRunner().invoke(learn, ["--help"]).output
    assert "--guardrail" in shown and "--reward" in shown
