"""Arms of an A/B test made by hand: each number of a validation by plain arithmetic."""

import math
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from counterrank import RankingLog
from counterrank.common.errors import ConfigError, LogError
from counterrank.data.log import Propensity
from counterrank.estimators import Estimate
from counterrank.estimators.base import Lift, PositionValue
from counterrank.evaluation import Comparison, Verdict
from counterrank.evaluation.arms import (
    FEWEST_ROWS,
    MOST_ARMS,
    Pair,
    Validation,
    ValidationSummary,
    _bias_variance,
    earned_by,
    validate,
    with_arms,
)
from counterrank.metrics import Metrics
from counterrank.statistics import critical_value


def estimate(
    target="b",
    value=1.0,
    half=0.2,
    *,
    lift=0.0,
    lift_half=0.1,
    lift_stderr=0.05,
    stderr=0.1,
    level=0.95,
):
    return Estimate(
        target=target,
        estimator="auto",
        value=value,
        stderr=stderr,
        by_position=(PositionValue(value, stderr),),
        ess=9.0,
        n=1000,
        level=level,
        lift=Lift(lift, lift_stderr, lift - lift_half, lift + lift_half),
        ends=(value - half, value + half),
    )


def pair(found=None, earned=(1.0, 0.0), base=0.5, source="a", arm="b"):
    one = found or estimate(arm)
    return Pair.compared(
        source, one, SimpleNamespace(value=earned[0], stderr=earned[1]), base, "reliable"
    )


def validation(*pairs):
    return Validation(pairs, ValidationSummary.from_pairs(pairs, 0, 0.0, 0.95))


def test_covered_adds_half_widths_in_quadrature():
    """Half-widths of 0.3 and 0.4 reach 0.5."""
    error = 0.4 / critical_value(0.95)
    assert pair(estimate(value=2.0, half=0.3), earned=(2.4999, error)).covered
    assert not pair(estimate(value=2.0, half=0.3), earned=(2.5001, error)).covered
    assert not pair(estimate(value=2.0, half=0.3), earned=(1.4999, error)).covered
    assert pair(estimate(value=2.0, half=0.5), earned=(2.5, 0.0)).covered
    assert pair(estimate(half=math.inf)).covered is None


@pytest.mark.parametrize(
    "lift, earned, right",
    [(0.1, 0.6, True), (-0.1, 0.6, False), (-0.1, 0.4, True), (0.0, 0.5, True), (0.1, 0.5, False)],
)
def test_signs_agree_or_do_not(lift, earned, right):
    assert pair(estimate(lift=lift), earned=(earned, 0.0)).sign_right is right


def test_nothing_predicted_has_no_sign():
    assert pair(estimate().without_evidence("nothing was shown")).sign_right is None


@pytest.mark.parametrize(
    "low, earned, wrong",
    [(0.1, 0.4, True), (0.0, 0.4, False), (0.1, 0.5, False), (0.1, 0.6, False), (-0.1, 0.4, False)],
)
def test_a_claim_is_false_when_the_arm_earned_less(low, earned, wrong):
    found = estimate(lift=low + 0.1, lift_half=0.1)
    assert pair(found, earned=(earned, 0.0)).false_better is wrong


def test_the_summary_counts_what_can_be_judged():
    pairs = (
        pair(estimate(value=1.0, lift=0.3), earned=(1.0, 0.0)),
        pair(estimate(value=4.0, lift=0.3), earned=(0.4, 0.0)),
        pair(estimate(half=math.inf, lift=-0.3), earned=(1.0, 0.0)),
    )
    found = ValidationSummary.from_pairs(pairs, 2, 0.1, 0.9)
    bias = (0.0 + 3.6 + 0.0) / 3
    reach = critical_value(0.9) * 0.1
    assert (found["pairs"], found["level"], found["coverage"]) == (3, 0.9, 0.5)
    assert found["sign_agreement"] == pytest.approx(1 / 3)
    assert (found["claimed_better"], found["false_better"]) == (2, 1)
    assert (found["bias_low"], found["bias_high"]) == pytest.approx((bias - reach, bias + reach))
    assert found["relative_bias"] == pytest.approx(bias / 0.8)
    nothing = validation(pair(earned=(0.0, 0.0))).agreement
    assert math.isnan(nothing.relative_bias) and nothing.to_dict()["relative_bias"] is None
    assert validation(pair(estimate(half=math.inf))).agreement["coverage"] is None


def test_the_variance_of_the_mean_error_counts_shared_rows():
    """Three predictions and the own mean M of one arm, whose covariance is written down."""
    rng = np.random.default_rng(3)
    covariance = 0.01 * np.cov(
        rng.normal(size=(4, 4)) @ rng.normal(size=(4, 50))
    )  # of V_b, V_c, V_d, M
    names = "bcd"

    def error(**signs):
        by = np.array([signs.get(name, 0) for name in (*names, "M")], dtype=float)
        return math.sqrt(float(by @ covariance @ by))

    own = [
        estimate(name, stderr=error(**{name: 1}), lift_stderr=error(**{name: 1, "M": -1}))
        for name in names
    ]
    rows = [
        Comparison(0.0, error(**{a: 1, b: -1}), 0.0, 0.0, better=a, than=b)
        for a, b in combinations(names, 2)
    ]
    estimates = {("a", one.target): one for one in own}
    found = {"a": SimpleNamespace(comparisons=rows)}
    # Each of the other three arms also predicts this one: its mean is subtracted three times.
    expected = error(b=1, c=1, d=1, M=-3) ** 2 / 3**2
    assert _bias_variance(estimates, found) == pytest.approx(expected, rel=1e-9)


def log_of(arms, reward=None, **more):
    n = len(arms)
    half = np.full((n, 1), 0.5)
    return RankingLog(
        action=np.zeros((n, 1), dtype=int),
        reward=np.ones((n, 1)) if reward is None else np.asarray(reward)[:, None],
        propensity=half,
        targets={name: Propensity("factored", half) for name in set(arms)},
        columns={"arm": np.array(list(arms))},
        **more,
    )


REWARD = Metrics.parse({"reward": "reward"}).metric("reward")


def test_what_an_arm_earned_has_an_error_by_row_or_by_unit():
    reward = np.array([1.0, 2.0, 4.0, 5.0])
    found = earned_by(log_of("abab", reward), REWARD)
    assert (found.value, found.stderr) == pytest.approx((3.0, np.std(reward, ddof=1) / 2))
    found = earned_by(log_of("abab", reward, unit=np.array(["u", "u", "v", "v"])), REWARD)
    # Two units, 3 below and 3 above what is expected of them: 2/1 (9 + 9) / 16.
    assert found.stderr == pytest.approx(math.sqrt(36 / 16))
    assert math.isnan(earned_by(log_of("a", reward[:1]), REWARD).stderr)


def test_arms_are_few_and_not_small():
    n = FEWEST_ROWS
    log, arms = with_arms(log_of(["b"] * n + ["a"] * n), "arm", {})
    assert arms == ["a", "b"] and log.n == 2 * n
    with pytest.raises(LogError, match=f"arm 'b' served {n - 1} rows"):
        with_arms(log_of(["b"] * (n - 1) + ["a"] * n), "arm", {})
    with pytest.raises(LogError, match="one value, 'a'"):
        with_arms(log_of(["a"] * n), "arm", {})
    many = [f"arm{i}" for i in range(MOST_ARMS)]
    assert len(with_arms(log_of(many * n), "arm", {})[1]) == MOST_ARMS
    with pytest.raises(LogError, match=f"{MOST_ARMS + 1} values"):
        with_arms(log_of([*many, "more"] * n), "arm", {})


def test_the_lines_are_where_they_were():
    assert (FEWEST_ROWS, MOST_ARMS) == (100, 20)


def test_an_interval_with_one_end_covers_nothing():
    found = replace(estimate(), ends=(0.0, math.inf))
    assert pair(found).covered is None


def test_a_result_is_written_only_where_asked(tmp_path):
    found = validation(pair())
    assert (
        found.to_json(tmp_path / "v.json") == (tmp_path / "v.json").read_text() == found.to_json()
    )
    assert (
        found.to_html(tmp_path / "v.html") == (tmp_path / "v.html").read_text() == found.to_html()
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.html", "v.json"]


def test_a_log_without_arms_or_their_targets_is_refused():
    n = FEWEST_ROWS
    whole = log_of(["a"] * n + ["b"] * n)
    with pytest.raises(ConfigError, match="other columns here: arm$"):
        with_arms(whole, "variant", {})
    with pytest.raises(ConfigError, match="other columns here: none$"):
        with_arms(replace(whole, columns={}), "variant", {})
    with pytest.raises(LogError, match="arm 'b' has no target"):
        with_arms(replace(whole, targets={"a": whole.targets["a"]}), "arm", {})


def test_json_is_indented_utf8_and_holds_no_nan():
    text = validation(pair(source="Bäcker")).to_json()
    assert text.startswith('{\n  "schema": ') and text.endswith("}\n") and "Bäcker" in text
    assert "NaN" not in validation(pair(earned=(math.nan, 0.0))).to_json()


def test_every_arm_is_predicted_from_the_rows_of_each_other(monkeypatch):
    asked = []

    def fake(part, others, **options):
        asked.append((part.n, part.reward.mean(), others, options["estimators"], options["seed"]))
        rows = [
            Comparison(0.0, 0.1, 0.0, 0.0, better=a, than=b) for a, b in combinations(others, 2)
        ]
        verdict = Verdict("reliable", targets={others[0]: "directional"})
        made = SimpleNamespace(estimate=estimate, comparisons=rows, verdict=verdict)
        return SimpleNamespace(metric=lambda name: made)

    monkeypatch.setattr("counterrank.evaluation.arms.evaluate", fake)
    sizes = {"a": 100, "b": 110, "c": 120}
    arms = [name for name, size in sizes.items() for _ in range(size)]
    reward = np.array([{"a": 1.0, "b": 2.0, "c": 3.0}[name] for name in arms])
    found = validate(log_of(arms, reward), "arm", estimators="iips", seed=7)
    assert asked == [
        (100, 1.0, ["b", "c"], "iips", 7),
        (110, 2.0, ["a", "c"], "iips", 7),
        (120, 3.0, ["a", "b"], "iips", 7),
    ]
    shown = [(p.source, p.to, p.earned, p.base, p.verdict) for p in found.pairs]
    assert shown == [
        ("a", "b", 2.0, 1.0, "directional"), ("a", "c", 3.0, 1.0, "reliable"),
        ("b", "a", 1.0, 2.0, "directional"), ("b", "c", 3.0, 2.0, "reliable"),
        ("c", "a", 1.0, 3.0, "directional"), ("c", "b", 2.0, 3.0, "reliable"),
    ]  # fmt: skip
    assert found.agreement.bias == pytest.approx(1.0 - 2.0)
