"""evaluate(): what is asked for runs or is refused; the same bytes twice; segments; deterministic
loggers.
"""

import json
import operator
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.logs import gentle_log

import counterrank as cr
from counterrank.common.errors import ConfigError, CounterrankError, LogError, PropensityError
from counterrank.evaluation.request import DEFAULT_ESTIMATORS
from counterrank.evaluation.sweep import reward_range
from counterrank.statistics import holm, sums_of


def joint_log(n=600):
    rng = np.random.default_rng(0)
    return cr.RankingLog(
        action=rng.integers(2, size=(n, 2)),
        reward=rng.random((n, 2)),
        propensity=cr.Propensity("joint", np.full(n, 0.25)),
        targets={"new": cr.Propensity("joint", np.full(n, 0.25))},
    )


@pytest.mark.parametrize("names", [["iips"], ["ips", "iips"], "ips,iips"])
def test_a_named_estimator_that_cannot_run_is_an_error_that_says_why(names):
    with pytest.raises(CounterrankError, match="'iips' cannot run for target 'new'.*'joint'"):
        cr.evaluate(joint_log(), estimators=names)


def test_all_leaves_out_what_cannot_run_and_says_so():
    result = cr.evaluate(joint_log(), estimators=["all"], audit=False)
    assert "ips" in {e.estimator for e in result.estimates}
    reasons = {row["estimator"]: row["reason"] for row in result.skipped}
    assert "joint" in reasons["iips"]


def test_a_name_beside_all_must_still_run():
    with pytest.raises(CounterrankError, match="'iips' cannot run"):
        cr.evaluate(joint_log(), estimators=["all", "iips"])


def test_an_unknown_name_is_an_error():
    with pytest.raises(
        CounterrankError, match="there is no estimator 'ipss'; did you mean ips"
    ) as problem:
        cr.evaluate(joint_log(), estimators=["ips", "ipss"])
    assert (
        str(problem.value).endswith("? `counterrank estimators` lists all")
        and len(str(problem.value)) < 120
    )
    with pytest.raises(CounterrankError, match="did you mean dr-ips or dr-iips or dr-rips"):
        cr.evaluate(joint_log(), estimators=["dr"])
    with pytest.raises(
        CounterrankError, match=r"^there is no estimator 'zzz'; `counterrank estimators` lists all$"
    ):
        cr.evaluate(joint_log(), estimators=["zzz"])


def test_defaults_that_cannot_run_are_listed():
    result = cr.evaluate(joint_log(), audit=False)
    ran = {e.estimator for e in result.estimates}
    left = {row["estimator"] for row in result.skipped}
    assert ran | left == set(DEFAULT_ESTIMATORS) and "ips" in ran and "order-2" in left


def test_the_same_call_gives_the_same_bytes(gentle):
    texts = [
        cr.evaluate(
            gentle, estimators=["ips", "order-2", "aips"], segments=["device"], seed=3
        ).to_json()
        for _ in "ab"
    ]
    assert texts[0] == texts[1]
    content = json.loads(texts[0])
    assert {"verdict", "planning", "sensitivity", "audit", "provenance"} <= set(content)


def test_the_order_of_threads_does_not_change_the_bytes(gentle):
    from counterrank.data.source import MemorySource

    texts = {
        cr.evaluate(MemorySource(gentle, threads=t), ["new"], estimators=["iips"]).to_json()
        for t in (1, 2)
    }
    assert len(texts) == 1


def test_provenance_names_versions_options_seed_and_command(gentle):
    found = cr.evaluate(
        gentle, estimators=["iips"], seed=7, audit=False, command="counterrank evaluate x"
    ).provenance
    assert found["libraries"]["numpy"] == np.__version__
    assert found["seed"] == 7 and found["command"] == "counterrank evaluate x"
    assert found["options"]["estimators"] == ("iips",) and len(found["fingerprint"]) == 32
    assert found.created is None and "created" not in found.to_dict()


def test_a_time_is_recorded_only_when_given(gentle, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    found = cr.evaluate(gentle, estimators=["iips"], audit=False).provenance
    assert found["created"] == "1970-01-02T00:00:00+00:00"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    with pytest.raises(ConfigError, match="SOURCE_DATE_EPOCH"):
        cr.evaluate(gentle, estimators=["iips"], audit=False)


def test_the_fingerprint_follows_the_data(gentle):
    changed = cr.RankingLog(
        action=gentle.action, reward=gentle.reward + 1, propensity=gentle.propensity
    )
    prints = [
        cr.evaluate(log, {"new": gentle.targets["new"]}, estimators=["iips"], audit=False).log[
            "fingerprint"
        ]
        for log in (gentle, changed)
    ]
    assert prints[0] != prints[1]


def test_segments_are_sorted_adjusted_and_marked(gentle):
    result = cr.evaluate(gentle, estimators=["iips"], segments=["device"], audit=False)
    rows = result.segments
    assert {row["label"] for row in rows} == {"mobile", "desktop", "tablet"}
    lifts = [row["lift"]["value"] for row in rows]
    assert lifts == sorted(lifts, reverse=True)
    assert sum(row["n"] for row in rows) == gentle.n
    by_label = {row["label"]: row for row in rows}
    assert by_label["tablet"]["evidence"] != "reliable"  # some 120 rows
    assert by_label["mobile"]["evidence"] == "reliable"
    for row in rows:
        assert (
            row["lift"]["adjusted_low"] < row["lift"]["low"]
            and row["lift"]["adjusted_high"] > row["lift"]["high"]
        )
        assert 0 <= row["lift"]["p_value"] <= row["lift"]["q_value"] <= 1


def test_segments_equal_the_evaluation_of_their_rows(gentle):
    result = cr.evaluate(gentle, estimators=["iips"], segments=["device"], audit=False)
    row = next(row for row in result.segments if row["label"] == "mobile")
    alone = cr.IIPS().estimate(gentle.where(gentle.columns["device"] == "mobile"), "new")
    assert row["value"] == pytest.approx(alone.value, rel=1e-12)
    assert row["lift"]["stderr"] == pytest.approx(alone.lift.stderr, rel=1e-9)


def test_every_target_has_its_tree(contextual):
    log = contextual.with_targets({**contextual.targets, "twin": contextual.targets["new"]})
    log = log.changed(
        dists={**log.dists, "twin": log.dists["new"]}
    )  # of which trees know the tails
    told = cr.evaluate(log, estimators=["aips"], audit=False).behavior
    assert told["target"] == "new" and list(told["others"]) == ["twin"]
    # Sums over arrays that lie elsewhere in memory may differ in their last digit.
    for one, two in zip(told["others"]["twin"]["positions"], told["positions"], strict=True):
        for a, b in zip(one.groups, two.groups, strict=True):
            assert (a.rule, a.model, a.share) == (b.rule, b.model, b.share)
            assert a.estimate == pytest.approx(b.estimate, rel=1e-12)


def test_adjustments_match_their_definitions():
    p = np.array([0.001, 0.02, 0.03, 0.5])
    assert holm(p).tolist() == pytest.approx([0.004, 0.06, 0.06, 0.5])


def test_a_deterministic_logger_is_refused_with_what_is_possible():
    log = cr.RankingLog(action=[[0, 1]] * 50, reward=[[1, 0]] * 50, propensity=np.ones((50, 2)))
    with pytest.raises(PropensityError, match="deterministic.*by-list.*A/B test"):
        cr.evaluate(log, {"new": np.full((50, 2), 0.5)}, estimators=["ips"])
    same = cr.evaluate(log, {"same": np.ones((50, 2))}, estimators=["ips"], audit=False)
    assert same.estimate().lift.value == 0


def test_paired_comparison_of_two_targets(gentle):
    other = cr.Propensity("factored", gentle.targets["new"].values)
    result = cr.evaluate(
        gentle,
        {"a": gentle.targets["new"], "b": other, "c": gentle.propensity},
        estimators=["iips"],
    )
    rows = {(row["better"], row["than"]): row for row in result.comparisons}
    assert rows[("a", "b")]["value"] == 0 and rows[("a", "b")]["p_value"] == 1
    assert rows[("a", "c")]["value"] == pytest.approx(result.estimate("a").lift.value)


def test_clustered_logs_compare_by_unit():
    log = gentle_log(3000, unit=np.repeat(np.arange(1500), 2))
    result = cr.evaluate(log, estimators=["iips", "ips"], audit=False)
    assert result.log["units"] == pytest.approx(1500, rel=0.1)
    assert result.verdict["level"] in ("reliable", "directional")


def test_the_rows_that_move_an_estimate_most_are_named(gentle):
    result = cr.evaluate(gentle, estimators=["iips"], audit=False)
    top = result.diagnostics["new/iips"]["top_rows"]
    ratio = gentle.targets["new"].values / gentle.propensity.values
    totals = (ratio * gentle.reward).sum(axis=1)
    assert top[0]["total"] == pytest.approx(totals.max())
    assert totals[top[0]["row"]] == pytest.approx(totals.max())


def test_the_audit_comes_along_and_can_be_left_out(gentle):
    with_audit = cr.evaluate(gentle, estimators=["iips"])
    assert {row["status"] for row in with_audit.audit} <= {"passed", "skipped"}
    assert len(with_audit.audit) > 10
    assert cr.evaluate(gentle, estimators=["iips"], audit=False).audit == ()


def test_a_policy_without_a_name_is_told_how_to_get_one(gentle):
    with pytest.raises(ConfigError, match=r"targets is a ndarray; give each policy a name"):
        cr.evaluate(gentle, gentle.targets["new"].values)
    assert cr.evaluate(
        gentle, gentle.targets.keys(), estimators=["iips"], audit=False
    ).recommended == {"new": "iips"}


def test_a_mistyped_segment_names_the_column_that_was_meant(gentle):
    with pytest.raises(
        ConfigError, match=r"no column 'devcie' to segment by \(did you mean 'device'\?\); known: "
    ):
        cr.evaluate(gentle, estimators=["ips"], segments=["devcie"], audit=False)


def test_a_frame_has_a_row_for_each_estimate_with_value_and_lift():
    result = cr.evaluate(gentle_log(500), estimators=["ips", "rips"], audit=False)
    frame = result.to_frame()
    assert list(zip(frame["target"], frame["estimator"], strict=True)) == [
        ("new", "ips"),
        ("new", "rips"),
    ]
    assert not {"by_position", "details", "lift_by_position"} & set(frame.columns)
    for (_, row), one in zip(frame.iterrows(), result.estimates, strict=True):
        found = {
            "value": one.value,
            "stderr": one.stderr,
            "low": one.low,
            "high": one.high,
            "ess": one.ess,
        }
        of_lift = {
            name: getattr(one.lift, name)
            for name in ("stderr", "low", "high", "relative", "relative_low")
        }
        found |= {"lift": one.lift.value, "lift_relative_high": one.lift.relative_high}
        found |= {f"lift_{name}": value for name, value in of_lift.items()}
        assert {name: row[name] for name in found} == found


@pytest.mark.parametrize("seed", [-1, 0.5, "x", None])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(ConfigError, match=f"seed is {seed!r}; it is a whole number, 0 or more"):
        cr.evaluate(joint_log(), estimators=["ips"], seed=seed)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 300), st.integers(1, 5))
def test_the_range_of_rewards_is_that_of_every_row_and_zero(n, length):
    reward = np.random.default_rng(n).normal(size=(n, length))
    found = reward_range(reward)
    np.testing.assert_array_equal(found.low, np.minimum(reward.min(axis=0), 0.0))
    np.testing.assert_array_equal(found.high, np.maximum(reward.max(axis=0), 0.0))


@pytest.mark.parametrize("units", [False, True])
def test_totals_are_summed_as_by_hand(units):
    rng = np.random.default_rng(0)
    columns, bucket = rng.normal(size=(3, 500)), rng.integers(0, 1024, 500)
    found = sums_of(columns, bucket if units else None)
    np.testing.assert_allclose(found.gram, columns @ columns.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.total, columns.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.absolute, np.abs(columns).sum(axis=1), rtol=1e-12)
    assert (found.by_unit is not None) == units
    if units:
        table = np.zeros((1024, 4))
        np.add.at(table, bucket, np.column_stack([columns.T, np.ones(500)]))
        np.testing.assert_allclose(found.by_unit, table, rtol=1e-12)


def two_groups():
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(3, 3.0), (3, 400))
    action = np.stack([rng.choice(3, 2, p=row) for row in p[0]])
    shown = [np.take_along_axis(table, action, axis=1) for table in p]
    return cr.RankingLog(
        action=action, reward=rng.random((400, 2)), propensity=shown[0],
        targets={"new": shown[1], "old": shown[2]}, columns={"group": np.arange(400) % 2},
    )  # fmt: skip


class InBatches:
    """A source whose sums are made of many batches."""

    def __init__(self, log):
        self.log, self.first, self.n = log, log.take(slice(0, 100)), log.n

    def reduce(self, partial, *, label=""):
        return reduce(operator.add, map(partial, self.log.chunks(37)))

    def sample(self, rows, rng):
        return self.log


def test_groups_of_many_batches_add_up():
    log = two_groups()
    asked = {"estimators": ["ips"], "baseline": "old", "segments": "group"}
    whole, pieces = (
        cr.evaluate(source, ["new", "old"], **asked) for source in (log, InBatches(log))
    )
    for one, other in zip(whole.segments, pieces.segments, strict=True):
        assert (one.label, one.n) == (other.label, other.n)
        assert other.value == pytest.approx(one.value, rel=1e-12)
        assert other.lift.stderr == pytest.approx(one.lift.stderr, rel=1e-9)


def test_errors_in_groups_are_those_of_the_recommended_estimator_whatever_else_runs():
    """IPS and SNIPS share their sums; a lift of IPS over the baseline has the error of IPS."""
    log = two_groups()
    alone, beside = (
        cr.evaluate(log, estimators=names, baseline="old", segments="group", audit=False)
        for names in (["ips"], ["ips", "snips"])
    )
    assert [row.estimator for row in alone.segments] == ["ips"] * 4
    for one, other in zip(alone.segments, beside.segments, strict=True):
        assert (one.target, one.label, one.estimator) == (
            other.target,
            other.label,
            other.estimator,
        )
        assert other.lift.value == pytest.approx(one.lift.value, rel=1e-12)
        assert other.lift.stderr == pytest.approx(one.lift.stderr, rel=1e-9)
        assert other.lift.low == pytest.approx(one.lift.low, rel=1e-9)


def test_a_metric_that_never_varies_is_found_in_the_pass_of_a_log_of_unknown_length():
    source = InBatches(two_groups())
    source.n = None
    one = cr.page_metric(lambda rewards: np.ones(len(rewards)), of="reward", name="one")
    with pytest.raises(LogError, match="is 1 in every ranking"):
        cr.evaluate(source, ["new"], estimators=["ips"], rewards={"earned": "reward", "flat": one})
