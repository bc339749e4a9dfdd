"""Several metrics in one pass: each as if it were alone, together as rows say they are."""

import json
import math

import numpy as np
import pytest
from tests.metrics.conftest import log_of, made

import counterrank as cr
from counterrank.common.errors import ConfigError, CounterrankError
from counterrank.metrics import measured, parse_metric
from counterrank.statistics import simultaneous_level

REWARDS = {"any": "any(clicks)", "mrr": "mrr(clicks)"}


@pytest.fixture(scope="module")
def result(log):
    return cr.evaluate(log, ["new"], rewards=REWARDS, estimators=["ips", "rips"])


def alone(log, text, **options):
    one = measured(log, *parse_metric(text))
    plain = cr.RankingLog(
        action=one.action,
        reward=one.reward.sum(axis=1) if one.page_reward else one.reward,
        propensity=one.propensity,
        targets=one.targets,
        columns=one.columns,
        unit=one.unit,
    )
    return cr.evaluate(plain, **options)


@pytest.mark.parametrize("unit", [False, True])
def test_every_metric_is_what_it_would_be_alone(data, unit):
    log = log_of(data, unit=data["user"] if unit else None)
    together = cr.evaluate(log, ["new"], rewards=REWARDS, segments=["device"])
    texts = {"clicks": "clicks", "revenue": "revenue", "order": "order", **REWARDS}
    for name, text in texts.items():
        single = alone(log, text, targets=["new"], segments=["device"])
        found = together.metric(name)
        assert found.recommended == single.recommended
        for one in single.estimates:
            twin = found.estimate("new", one.estimator)
            assert twin.value == pytest.approx(one.value, rel=1e-12)
            assert twin.stderr == pytest.approx(one.stderr, rel=1e-12)
            assert twin.lift.low == pytest.approx(one.lift.low, rel=1e-9)
        assert found.verdict.level == single.verdict.level
        for mine, theirs in zip(found.segments, single.segments, strict=True):
            assert mine.lift.value == pytest.approx(theirs.lift.value, rel=1e-9)


def test_page_metrics_are_of_the_page_and_leave_out_own_position_weights(log):
    found = cr.evaluate(log, ["new"], rewards=REWARDS, estimators=["iips", "ips"])
    assert found.metric("any").kind == "page"
    assert [one.estimator for one in found.metric("any").estimates] == ["ips"]
    assert "one reward per ranking" in found.metric("any").skipped[0].reason
    assert [one.estimator for one in found.metric("clicks").estimates] == ["iips", "ips"]


def weights_of(data, name):
    return np.prod(data[name] / data["propensity"], axis=1)


def rows_of(data, name):
    """Return per-row clicks and revenue, weighted by whole rankings."""
    w = weights_of(data, name)
    return w * data["click"].sum(axis=1), w * data["revenue"].sum(axis=1)


def test_correlations_are_those_of_the_rows(data, log):
    found = cr.evaluate(log, ["new"], estimators=["ips"])
    new = rows_of(data, "new")
    lifts = [new[0] - data["click"].sum(axis=1), new[1] - data["revenue"].sum(axis=1)]
    # What a page earns in all, the third metric, is the revenue of its positions.
    level = simultaneous_level(np.corrcoef([*lifts, lifts[1]]), 0.95)
    for name in ("clicks", "revenue"):
        one = found.metric(name).estimate("new")
        assert one.lift.adjusted_low == pytest.approx(one.lift_at(level)[0].low, rel=1e-6)


def test_lifts_over_a_baseline_are_paired_differences(data, log):
    found = cr.evaluate(log, ["new"], estimators=["ips"], baseline="prod")
    n = len(data["action"])
    for name, index in (("clicks", 0), ("revenue", 1)):
        new, base = rows_of(data, "new")[index], rows_of(data, "prod")[index]
        lift = found.metric(name).estimate("new").lift
        assert lift.value == pytest.approx(new.mean() - base.mean(), rel=1e-9)
        assert lift.stderr == pytest.approx(np.std(new - base, ddof=1) / math.sqrt(n), rel=1e-9)
        ratio = new.mean() / base.mean()
        error = np.std((new - ratio * base) / base.mean(), ddof=1) / math.sqrt(n)
        assert lift.relative == pytest.approx(ratio - 1, rel=1e-9)
        half = (lift.relative_high - lift.relative_low) / 2
        assert half == pytest.approx(1.9616 * error, rel=1e-3)
    assert found.baseline == "prod"
    assert found.metric("clicks").estimate("prod").lift.value == 0.0
    assert set(found.decision.targets) == {"new"}


def test_groups_are_compared_with_the_baseline_in_the_same_rows(data, log):
    found = cr.evaluate(log, ["new"], estimators=["ips"], baseline="prod", segments="device")
    rows = data["device"] == "phone"
    difference = (rows_of(data, "new")[0] - rows_of(data, "prod")[0])[rows]
    one = next(s for s in found.segments if (s.target, s.label) == ("new", "phone"))
    assert one.lift.value == pytest.approx(difference.mean(), rel=1e-9)
    assert one.lift.stderr == pytest.approx(
        np.std(difference, ddof=1) / math.sqrt(rows.sum()), rel=1e-9
    )


def test_a_ratio_is_of_sums_with_the_error_of_both(data, log):
    found = cr.evaluate(
        log,
        ["new"],
        rewards={"per click": "revenue / clicks", "ctr": "clicks / impressions"},
        estimators=["ips"],
    )
    clicks, revenue = rows_of(data, "new")
    n = len(clicks)
    ratio = revenue.mean() / clicks.mean()
    error = np.std((revenue - ratio * clicks) / clicks.mean(), ddof=1) / math.sqrt(n)
    one = found.metric("per click").estimate("new")
    assert (one.value, one.stderr) == (
        pytest.approx(ratio, rel=1e-9),
        pytest.approx(error, rel=1e-9),
    )
    logged = data["revenue"].sum() / data["click"].sum()
    assert found.metric("per click").value == pytest.approx(logged, rel=1e-9)
    assert one.lift.value == pytest.approx(ratio - logged, rel=1e-9)
    ctr, plain = found.metric("ctr").estimate("new"), found.metric("clicks").estimate("new")
    assert ctr.value == pytest.approx(plain.value / 3, rel=1e-9)
    assert ctr.lift.relative == pytest.approx(plain.lift.relative, rel=1e-9)


def test_impressions_count_what_was_shown():
    data = made(n=400, ragged=True)
    found = cr.evaluate(
        log_of(data), ["new"], rewards={"ctr": "clicks / impressions"}, estimators=["ips"]
    )
    shown = (data["action"] >= 0).sum()
    assert found.metric("ctr").value == pytest.approx(data["click"].sum() / shown, rel=1e-12)


def test_the_first_click_counts_only_rankings_that_have_one(data, log):
    found = cr.evaluate(log, ["new"], rewards={"first": "first(clicks)"}, estimators=["ips"])
    hit = data["click"] > 0
    some = hit.any(axis=1)
    assert found.metric("first").value == pytest.approx((hit.argmax(axis=1) + 1)[some].mean())
    assert found.metric("first").lower_is_better


def test_a_denominator_near_zero_is_said_and_not_believed(data):
    rare = np.zeros_like(data["click"])
    rare[5, 0] = 1.0
    some = dict(data, click=rare)
    found = cr.evaluate(
        log_of(some), ["new"], rewards={"ratio": "revenue / clicks"}, estimators=["ips"]
    )
    one = found.metric("ratio").estimate("new")
    assert not one.estimable
    assert found.metric("ratio").verdict.level_of("new") == "insufficient"


def test_intervals_for_all_metrics_are_wider_than_for_one_and_narrower_than_bonferroni(result):
    for metric in result.metrics:
        lift = metric.estimate("new", "rips").lift
        stretch = (lift.adjusted_high - lift.value) / (lift.high - lift.value)
        # 1.96 for one metric, 2.576 for five by Bonferroni.
        assert 1.0 < stretch < 2.576 / 1.96


def test_a_result_reads_back_as_it_was_written(result):
    found = result.to_dict()
    assert cr.Evaluation.from_dict(json.loads(json.dumps(found))).to_dict() == found
    assert [row["name"] for row in found["metrics"]] == ["clicks", "revenue", "order", *REWARDS]
    assert [row["primary"] for row in found["metrics"]] == [True, *[False] * 4]
    assert {"guardrails", "decision", "baseline"} <= set(found)


def test_a_log_with_one_reward_has_one_metric_and_a_decision(data):
    log = cr.RankingLog(
        action=data["action"], reward=data["click"], propensity=data["propensity"]
    ).with_targets({"new": data["new"]})
    found = cr.evaluate(log, ["new"], estimators=["ips"])
    assert [one.name for one in found.metrics] == ["reward"]
    assert found.decision.action == "test"
    assert found.decision.reasons


def test_a_stream_says_what_the_log_in_memory_says(data, log, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({name: values.tolist() for name, values in data.items()})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=400)
    options = {
        "estimators": ["ips", "rips"],
        "rewards": {"clicks": "click", "any": "any(click)", "per click": "revenue / click"},
        "guardrails": ["per click >= -0.3", "clicks by device >= -0.3"],
        "baseline": "prod",
    }
    whole = cr.evaluate(tmp_path / "log.parquet", ["new"], **options)
    source = cr.scan_log(
        tmp_path / "log.parquet",
        targets=["new", "prod"],
        rewards=["click", "revenue"],
        segments=["device"],
    )
    streamed = cr.evaluate(
        source, ["new", "prod"], **{**options, "rewards": {**options["rewards"]}}
    )
    for name in options["rewards"]:
        mine, theirs = (one.metric(name).estimate("new") for one in (streamed, whole))
        assert mine.value == pytest.approx(theirs.value, rel=1e-9)
        assert mine.lift.stderr == pytest.approx(theirs.lift.stderr, rel=1e-9)
    assert [row.status for row in streamed.guardrails] == [row.status for row in whole.guardrails]
    assert streamed.decision.targets == whole.decision.targets


def test_a_guardrail_of_one_group_is_that_of_the_group(log):
    every = cr.evaluate(log, ["new"], estimators=["ips"], guardrails="clicks by device >= -0.3")
    labels = [row.group for row in every.guardrails]
    assert len(labels) > 1
    text = f"clicks where device = '{labels[-1]}' >= -0.3"
    (one,) = cr.evaluate(log, ["new"], estimators=["ips"], guardrails=text).guardrails
    assert (one.group, one.lift) == (labels[-1], every.guardrails[-1].lift)
    # One interval instead of several that hold together.
    assert one.high - one.low < every.guardrails[-1].high - every.guardrails[-1].low


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"guardrails": "clicks where device = 'no such' >= -0.1"}, "the log has no group"),
        ({"rewards": {"x": "clik"}}, "no reward 'clik'.*did you mean 'clicks'"),
        ({"rewards": {"x": "any(clik)"}}, "no reward 'clik'"),
        ({"primary": "nothing"}, "primary metric names 'nothing'"),
        ({"guardrails": ["profit >= -0.01"]}, "names 'profit'"),
        ({"guardrails": "clicks > 0"}, "not understood at '>'"),
        ({"guardrails": "clicks by nothing >= -0.1"}, "nothing"),
        ({"baseline": "old"}, "old"),
        ({"rewards": {"x": "mrr(order)"}}, "needs a reward at each position"),
    ],
)
def test_what_cannot_be_measured_is_one_error(log, options, said):
    with pytest.raises(CounterrankError, match=said):
        cr.evaluate(log, ["new"], estimators=["ips"], **options)


def test_a_metric_that_does_not_vary_is_refused(data):
    flat = dict(data, order=np.ones(len(data["order"])))
    with pytest.raises(CounterrankError, match="'order' is 1 in every ranking"):
        cr.evaluate(log_of(flat), ["new"], estimators=["ips"])


def test_the_baseline_alone_is_no_comparison(log):
    with pytest.raises(ConfigError, match="only target"):
        cr.evaluate(log, ["new"], estimators=["ips"], baseline="new")


@pytest.mark.parametrize("whole", [False, True])
def test_models_and_draws_that_metrics_share_change_nothing(whole):
    rng = np.random.default_rng(8)
    n, A, K = 500, 6, 3
    scores = rng.normal(size=(n, A))
    old = cr.Softmax(scores) if whole else cr.PlackettLuce(scores)
    new = cr.Softmax(1.5 * scores) if whole else cr.PlackettLuce(1.5 * scores)
    action = old.sample(K, rng)[:, 0]
    clicks = (rng.random((n, K)) < 0.1 + 0.1 * action).astype(float)
    given = {"action": action, "propensity": old, "targets": {"new": new}}
    rewards = {"clicks": clicks, "revenue": clicks * rng.exponential(3.0, size=(n, K))}
    together = cr.evaluate(
        cr.RankingLog(**given, reward=rewards),
        ["new"],
        rewards={"any": "any(clicks)", "mrr": "mrr(clicks)"},
        estimators=["auto"],
    )
    pages = {
        "any": (clicks > 0).any(axis=1).astype(float),
        "mrr": np.where(clicks.any(axis=1), 1.0 / (clicks.argmax(axis=1) + 1), 0.0),
    }
    for name, reward in {**rewards, **pages}.items():
        alone = cr.evaluate(cr.RankingLog(**given, reward=reward), ["new"], estimators=["auto"])
        mine, theirs = together.metric(name).estimate("new"), alone.estimate("new")
        assert mine.value == pytest.approx(theirs.value, rel=1e-10)
        assert mine.lift.low == pytest.approx(theirs.lift.low, rel=1e-8)
        assert mine.flags == theirs.flags
