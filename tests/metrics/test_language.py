"""The language of metrics and guardrails: what is understood, and one clear error for what is not."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError
from counterrank.metrics import (
    IMPRESSIONS,
    Measure,
    Metrics,
    measured,
    metric_functions,
    parse_guardrail,
    parse_metric,
)


@pytest.mark.parametrize(
    ("text", "operand", "function"),
    [
        ("click", "click", None),
        ('"add to cart"', "add to cart", None),
        ("any(click)", "click", "any"),
        (" mrr( click )", "click", "mrr"),
        ("ndcg(click)", "click", "ndcg"),
        ("count(click)", "click", "count"),
        ("sum(revenue) per ranking", "revenue", "sum"),
        ("share(ranking has purchase)", "purchase", "any"),
        ('any("per")', "per", "any"),
    ],
)
def test_a_metric_is_a_column_or_a_function_of_one(text, operand, function):
    (found,) = parse_metric(text)
    assert (found.operand, found.function and found.function.name) == (operand, function)


def test_ratios_are_written_with_a_slash_or_per():
    for text in ("revenue / click", "revenue per click", "revenue/click"):
        assert parse_metric(text) == (Measure("revenue"), Measure("click"))
    assert parse_metric("clicks / impressions")[1] == Measure("impressions", IMPRESSIONS)


def test_the_first_click_is_a_mean_over_rankings_that_have_one():
    assert [one.function.name for one in parse_metric("first(click)")] == ["first", "any"]


@pytest.mark.parametrize(
    "text",
    ["", "any(", "any()", "any(click", "any click", "click )", "a / b / c", "share(click)", "best(click)",
     "a /", "/ a", "first(a) / b", '"open', "sum(a) per ranking b"],
)  # fmt: skip
def test_what_is_no_metric_is_one_error(text):
    with pytest.raises(ConfigError) as caught:
        parse_metric(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "metric", "by", "limit", "unit", "above"),
    [
        ("revenue >= -0.01", "revenue", "", -0.01, "", True),
        ("revenue>=-1%", "revenue", "", -0.01, "", True),
        ("revenue ≥ −1 %", "revenue", "", -0.01, "", True),
        ("revenue >= -0.05 EUR", "revenue", "", -0.05, "EUR", True),
        ("clicks by device >= -0.02", "clicks", "device", -0.02, "", True),
        ('"add to cart" by "home country" >= 0', "add to cart", "home country", 0.0, "", True),
        ("per click by device >= 0", "per click", "device", 0.0, "", True),
        ("first <= 0.05", "first", "", 0.05, "", False),
        ("clicks where device = 'mobile' >= -0.02", "clicks", "device", -0.02, "", True),
        (
            "clicks where \"home country\" = 'a >= b' <= 1%",
            "clicks",
            "home country",
            0.01,
            "",
            False,
        ),
    ],
)
def test_a_guardrail_has_a_metric_a_limit_and_perhaps_a_column(
    text, metric, by, limit, unit, above
):
    found = parse_guardrail(text)
    assert (found.metric, found.by, found.limit, found.unit, found.above) == (
        metric, by, pytest.approx(limit), unit, above,
    )  # fmt: skip
    assert found.relative == (unit == "")


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ("a where b = 'c' >= 0", "c"),
        ("a where b=3 ≥ 0", "3"),
        ("a where b == 'it is' >= 0", "it is"),
    ],
)
def test_a_guardrail_may_be_about_one_group(text, only):
    found = parse_guardrail(text)
    assert (found.metric, found.by, found.only, found.text) == ("a", "b", only, text)
    assert found.among(["x", only]) == [only]
    with pytest.raises(ConfigError, match="the log has no group for the guardrail.*'b' has x"):
        found.among(["x"])


@pytest.mark.parametrize(
    "text",
    ["", "revenue", "revenue > -0.01", "revenue = 1", "revenue >= ", "revenue >= much", ">= -0.01",
     "revenue by >= -0.01", "by x >= -0.01", "revenue >= -0.01 >= 2", "revenue >= nan", "revenue >= inf",
     "revenue >= -5", "revenue <= 3", "revenue where = 'x' >= 0"],
)  # fmt: skip
def test_what_is_no_guardrail_is_one_error(text):
    with pytest.raises(ConfigError) as caught:
        parse_guardrail(text)
    assert "guardrail" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_metrics_know_their_primary_their_measures_and_what_to_read():
    found = Metrics.parse(
        {"any": "any(click)", "ctr": "clicks / impressions", "clicks": "click", "aov": "revenue per click"},
        primary="clicks",
        guardrails=["aov >= -0.01", "any by device >= -0.02"],
    )  # fmt: skip
    assert [one.text for one in found.measures] == ["click", "any(click)", "revenue"]
    assert found.operands == ("click", "revenue")
    assert found.columns == ("device",)
    assert found.metric("ctr").measures[0] == Measure("click")


@pytest.mark.parametrize(
    "given",
    [
        {"primary": "revenu"},
        {"guardrails": ["revenu >= -0.01"]},
        {"primary": "ratio"},
    ],
)
def test_names_that_are_no_metric_and_ratios_as_primary_are_refused(given):
    with pytest.raises(ConfigError, match="revenu|ratio"):
        Metrics.parse({"revenue": "revenue", "ratio": "revenue / click"}, **given)


@pytest.fixture
def log():
    rng = np.random.default_rng(1)
    n, K = 40, 4
    action = rng.integers(5, size=(n, K))
    action[::3, 2:] = -1
    clicks = (rng.random((n, K)) < 0.4).astype(float)
    order = rng.random(n)
    return cr.RankingLog(
        action=action, reward={"clicks": clicks, "order": order}, propensity=np.full((n, K), 0.2)
    )


def test_page_metrics_against_a_loop_over_rankings(log):
    def naive(name, row):
        hits = [k for k, r in enumerate(row) if r > 0]
        if name == "any":
            return float(bool(hits))
        if name == "mrr":
            return 1 / (hits[0] + 1) if hits else 0.0
        if name == "once":
            return row[0]
        gains = [r / np.log2(k + 2) for k, r in enumerate(row)]
        best = [r / np.log2(k + 2) for k, r in enumerate(sorted(row, reverse=True))]
        return sum(gains) / sum(best) if hits else 0.0

    for name in ("any", "mrr", "ndcg", "once"):
        found = measured(log, Measure("clicks", metric_functions()[name]))
        assert found.page_reward
        expected = [naive(name, row) for row in log.rewards["clicks"]]
        assert found.reward.sum(axis=1) == pytest.approx(expected, abs=1e-12)
        assert (found.reward[np.arange(log.n), log.lengths - 1] == found.reward.sum(axis=1)).all()


def test_sums_and_counts_keep_their_positions_and_weights(log):
    weighed = log.with_position_weights("dcg")
    for name in ("sum", "count"):
        found = measured(weighed, Measure("clicks", metric_functions()[name]))
        assert not found.page_reward
        assert (found.reward == log.rewards["clicks"]).all()
        assert (found.position_weights == weighed.position_weights).all()
    page = measured(weighed, Measure("clicks", metric_functions()["any"]))
    assert (page.position_weights == 1.0).all()


def test_the_first_of_several_rewards_is_the_reward(log):
    assert (log.reward == log.rewards["clicks"]).all()
    assert not log.page_reward
    assert log.rewards["order"].shape == (log.n,)
    part = log.take(slice(3, 9))
    assert part.rewards["order"].tolist() == log.rewards["order"][3:9].tolist()


def test_a_metric_of_ones_own_is_a_function_of_rewards(log):
    function, of = cr.page_metric(lambda clicks: (clicks > 0).sum(axis=1) > 1, of="clicks")
    found = measured(log, Measure(of, function))
    assert (found.reward.sum(axis=1) == ((log.rewards["clicks"] > 0).sum(axis=1) > 1)).all()
    wrong, _ = cr.page_metric(lambda clicks: clicks.sum(), of="clicks")
    with pytest.raises(LogError, match="one number each"):
        measured(log, Measure("clicks", wrong))


def test_unknown_rewards_missing_positions_and_constants_are_one_error(log):
    with pytest.raises(LogError, match=r"no reward 'click'.*did you mean 'clicks'"):
        measured(log, Measure("click"))
    with pytest.raises(LogError, match="needs a reward at each position"):
        measured(log, *parse_metric("mrr(order)"))
    half = np.full((40, 4), 0.2)
    flat = cr.RankingLog(
        action=log.action, reward={"a": np.ones(log.n)}, propensity=half, targets={"new": half}
    )
    with pytest.raises(LogError, match="in every ranking"):
        cr.evaluate(flat, ["new"])


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        ({}, "empty table"),
        ({"a": np.ones((40, 3))}, "reward 'a' has shape"),
        ({"a": np.ones((40, 4)), "b": np.ones(39)}, "reward 'b' has shape"),
        ({"a": np.ones((40, 4)), "b": [np.nan] * 40}, "reward 'b' has 40 missing"),
    ],
)
def test_rewards_that_do_not_fit_are_named(log, reward, said):
    with pytest.raises(LogError, match=said):
        cr.RankingLog(action=log.action, reward=reward, propensity=np.full((40, 4), 0.2))
