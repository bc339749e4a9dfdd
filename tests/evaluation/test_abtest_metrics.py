"""An A/B test in several metrics: ratios, groups, guardrails, the pages that each arm served, and the decision."""

import math

import numpy as np
import pytest
from tests.evaluation.test_abtest import LIFT, POLICIES, RELEVANCE, test_of

import counterrank as cr
from counterrank.evaluation.exploration import detectable
from counterrank.report.words import percent

RATIO = "revenue / clicks"


def several(seed, n=800, policies=POLICIES, serve=None, shift=0.0, price=(1.0, 2.0, 3.0), **more):
    """The tests of `test_of` with clicks, what they cost, a device and a day."""
    log = test_of(seed, n, policies, serve, shift)
    rng = np.random.default_rng([seed, 1])
    return cr.RankingLog(
        action=log.action,
        reward={"clicks": log.reward, "revenue": log.reward * np.asarray(price)[log.action]},
        propensity=log.propensity,
        targets=log.targets,
        columns={
            **log.columns,
            "device": rng.choice(["phone", "desktop"], n),
            "day": np.arange(n) * 10 // n,
        },
        **more,
    )


def read(log, **more):
    rewards = {"clicks": "clicks", "revenue": "revenue", "price": RATIO}
    return cr.abtest(log, "arm", rewards=rewards, **more)


def totals(log, name, rows=slice(None)):
    return log.rewards[name].sum(axis=1)[rows]


def test_every_metric_has_its_means_its_lift_and_its_relative_lift():
    log = several(1)
    test, arm = read(log, primary="revenue"), log.columns["arm"]
    assert [metric.name for metric in test.metrics if metric.primary] == ["revenue"]
    assert test.lifts == test.metric("revenue").lifts
    means = {
        name: {a: totals(log, name, arm == a).mean() for a in "ab"}
        for name in ("clicks", "revenue")
    }
    ratio = {a: means["revenue"][a] / means["clicks"][a] for a in "ab"}
    for name, each in (*means.items(), ("price", ratio)):
        metric = test.metric(name)
        assert [one.earned for one in metric.arms] == pytest.approx([each["a"], each["b"]])
        assert metric.lift("b").plain.value == pytest.approx(each["b"] - each["a"])
    plain = several(1, serve={**POLICIES, "b": np.array([0.1, 0.3, 0.6])})
    lift = read(plain).lift("b")
    assert lift.headline == "plain"
    own = {a: totals(plain, "clicks", plain.columns["arm"] == a) for a in "ab"}
    base, value = own["a"].mean(), own["b"].mean()
    assert lift.relative.value == pytest.approx(value / base - 1)
    errors = [own[a].var(ddof=1) / len(own[a]) for a in "ab"]
    spread = math.sqrt(errors[1] / base**2 + errors[0] * value**2 / base**4)
    assert lift.relative.stderr == pytest.approx(spread, rel=1e-9)


def test_a_lift_is_the_difference_of_what_arms_earn_and_relative_to_one_of_them():
    """Adjusted means have one set of controls, so that values, lifts and relative lifts agree."""
    test = read(several(2))
    for metric in test.metrics:
        lift = metric.lift("b")
        base = lift.lift.value / lift.relative.value
        # What the baseline earns by all rows is within chance of what it earned on its own.
        assert abs(base - metric.arms[0].earned) < 5 * metric.arms[0].stderr


def test_relative_lifts_and_groups_hold_their_intervals():
    """200 tests: z is standard normal: |mean| < 4.5 / sqrt(200), the sum of squares inside its 1e-5
    tails of 200 degrees of freedom. The truth of a relative lift is that of the policies.
    """
    base = 2 * float(POLICIES["a"] @ RELEVANCE)
    relative, group = [], []
    for seed in range(200):
        test = cr.abtest(several(seed, 600), "arm", segments="device")
        lift = test.lift("b").relative
        relative.append((lift.value - LIFT / base) / lift.stderr)
        (phone,) = (row for row in test.metric().segments if row.label == "phone")
        group.append((phone.lift.value - LIFT) / phone.lift.stderr)
    for z in map(np.array, (relative, group)):
        assert abs(z.mean()) < 4.5 / math.sqrt(200)
        assert 122 < (z**2).sum() < 299


def test_a_group_has_the_difference_of_its_means_and_an_arm_that_is_not_there_no_number():
    log = several(3, serve={**POLICIES, "b": np.array([0.1, 0.3, 0.6])})
    test, arm = cr.abtest(log, "arm", segments=["device"]), log.columns["arm"]
    assert test.lift("b").headline == "plain" and len(test.metric("clicks").segments) == 2
    for row in test.metric("clicks").segments:
        inside = log.columns["device"] == row.label
        own = {a: totals(log, "clicks", inside & (arm == a)) for a in "ab"}
        assert row.n == inside.sum() and row.target == "b"
        assert row.lift.value == pytest.approx(own["b"].mean() - own["a"].mean(), rel=1e-12)
        error = math.sqrt(sum(each.var(ddof=1) / len(each) for each in own.values()))
        assert row.lift.stderr == pytest.approx(error, rel=1e-9)
        assert row.lift.adjusted_low < row.lift.low < row.lift.high < row.lift.adjusted_high
    rare = np.where(np.flatnonzero(arm == "a")[0] == np.arange(log.n), "rare", "often")
    alone = cr.RankingLog(
        action=log.action, reward=log.reward, propensity=log.propensity, targets=log.targets,
        columns={**log.columns, "kind": rare},
    )  # fmt: skip
    rows = {row.label: row for row in cr.abtest(alone, "arm", segments="kind").metric().segments}
    assert math.isnan(rows["rare"].lift.value) and rows["rare"].evidence == "insufficient"


def test_guardrails_are_held_against_the_lift_of_their_metric():
    """b earns 12 % more clicks and 17 % more revenue: the limits lie eight standard errors away."""
    rails = ["revenue >= -0.01", "clicks <= 0.01", "clicks >= 0.05 clicks", "price >= -0.0001",
             "revenue by device >= -0.05", "clicks where device = 'phone' >= -0.02"]  # fmt: skip
    test = read(several(4, 6000), guardrails=rails)
    status = {(rail.expression, rail.group): rail.status for rail in test.guardrails}
    assert status == {
        (rails[0], ""): "safe",
        (rails[1], ""): "broken",
        (rails[2], ""): "safe",
        (rails[3], ""): status[rails[3], ""],
        (rails[4], "desktop"): "safe",
        (rails[4], "phone"): "safe",
        (rails[5], "phone"): "safe",
    }
    lift = test.metric("revenue").lift("b")
    first = test.guardrails[0]
    assert first.lift == lift.relative.value
    # They hold together, so each is wider than one by itself.
    assert first.low < lift.relative.low < lift.relative.high < first.high
    assert test.decision.action == "stop"
    assert [reason.code for reason in test.decision.reasons] == ["guardrail-broken"]
    with pytest.raises(cr.CounterrankError, match="no group for the guardrail"):
        read(several(4), guardrails="clicks where device = 'tv' >= -0.02")


def same_value(a: np.ndarray) -> np.ndarray:
    """A policy that earns as much as a and shows other pages."""
    other = a + 0.05 * np.array([1.0, -4.0, 3.0])
    assert other @ RELEVANCE == pytest.approx(a @ RELEVANCE) and other.sum() == pytest.approx(1)
    return other


def test_what_is_better_is_shipped_and_what_is_worse_is_stopped():
    ship = cr.abtest(test_of(5, 6000), "arm")
    assert (ship.decision.action, ship.decision.target) == ("ship", "b")
    stop = cr.abtest(test_of(5, 6000), "arm", baseline="b")
    assert stop.decision.action == "stop" and stop.decision.targets == {"a": "stop"}
    assert [reason.code for reason in stop.decision.reasons] == ["primary-worse"]
    # Less is better: the place of the first click.
    first = cr.abtest(
        cr.RankingLog(
            action=(log := test_of(5, 6000)).action, reward=1.0 - log.reward,
            propensity=log.propensity, targets=log.targets, columns=log.columns,
        ),
        "arm",
    )  # fmt: skip
    assert first.decision.action == "stop"


def test_what_is_open_goes_on_until_the_test_would_see_what_matters():
    policies = {"a": POLICIES["a"], "b": same_value(POLICIES["a"])}
    log = several(6, 1000, policies)
    test = cr.abtest(log, "arm", practical=0.02, time="day")
    lift = test.lift("b")
    assert lift.lift.low < 0 < lift.lift.high and test.decision.action == "go on"
    # (z_{1-alpha/2} + z_power)^2 times the variance of a row over the square of what is wanted.
    needed = 1000 * (2.8016 * lift.relative.stderr / 0.02) ** 2
    assert test.decision.rows + 1000 == pytest.approx(needed, rel=1e-3)
    assert test.rows_a_day == 100 and test.decision.days == math.ceil(test.decision.rows / 100)
    assert f"go on for {test.decision.days:.0f} more days" in str(test)
    assert detectable(lift.relative.stderr) > 0.02
    # The same test is large enough for a lift that it would have seen.
    large = cr.abtest(log, "arm", practical=1.01 * detectable(lift.relative.stderr))
    assert large.decision.action == "stop" and large.decision.rows is None
    assert [reason.code for reason in large.decision.reasons] == ["primary-enough"]
    looking = cr.abtest(log, "arm", practical=0.02, sequential=True)
    assert looking.decision.rows > test.decision.rows and "Look again then" not in str(looking)


def test_an_open_guardrail_holds_an_arm_back():
    relative = read(several(7, 3000)).metric("price").lift("b").relative
    test = read(several(7, 3000), guardrails=f"price >= {relative.value:.5f}")
    (rail,) = test.guardrails
    assert rail.status == "open" and test.decision.action == "go on"
    assert test.lift("b").lift.low > 0 and test.decision.rows > 0
    assert cr.abtest(several(7, 3000), "arm").decision.action == "ship"


def changed_half_way(seed, n, change):
    """Scores of `new` that were replaced by others from the middle of the log on; their noise is the same."""
    rng = np.random.default_rng(seed)
    old = rng.normal(size=(n, 6))
    new = old + 0.5 * rng.normal(size=old.shape)
    served = np.where(np.arange(n)[:, None] < n // 2, new, old + 0.5 * rng.normal(size=old.shape))
    arm = rng.integers(2, size=n)
    drawn = [
        cr.PlackettLuce(scores).sample(3, rng)[:, 0] for scores in (old, served if change else new)
    ]
    action = np.where(arm[:, None] == 1, drawn[1], drawn[0])
    return cr.RankingLog(
        action=action,
        reward=(rng.random((n, 3)) < 0.2 + 0.05 * (action == 0)).astype(float),
        propensity=cr.PlackettLuce(old),
        targets={"old": cr.PlackettLuce(old), "new": cr.PlackettLuce(new)},
        columns={"arm": np.array(["old", "new"])[arm]},
    )


def test_an_arm_whose_scores_changed_half_way_is_blamed_and_no_other():
    """4 of 4 at z of about 10. Healthy: the checks accuse less than one arm of 1,000 by mean weights;
    among 8 arms one is accused in 0.8 % of such runs.
    """
    for seed in range(4):
        test = cr.abtest(changed_half_way(seed, 4000, change=True), "arm", baseline="old")
        assert {note.target for note in test.notes if note.fatal} == {"new"}, seed
        assert test.decision.action == "stop" and not test.valid
        lines = test.summary().splitlines()
        assert "This test is not valid: fix this first" in lines
        assert any("In the rows of 'new' weights of 'old'" in line for line in lines)
        assert not any(sign in test.summary() for sign in ("+", "Ship", "%"))
        healthy = cr.abtest(changed_half_way(seed, 4000, change=False), "arm")
        assert healthy.valid, healthy.notes


def test_the_report_begins_with_the_sample_ratio_and_has_every_lift_in_one_picture():
    test = read(several(8, 4000), guardrails="revenue >= -0.01", segments="device")
    lines = test.summary().splitlines()
    assert lines[0].startswith("The sample ratio is right: a ") and "(p = " in lines[0]
    assert lines[1] == "Ship b." and any(line.startswith("Decision: ship b.") for line in lines)
    told = next(line for line in lines if line.startswith("Ship: b: "))
    shares = [
        f"{metric.name} {percent(metric.lift('b').relative.value, sign=True)}"
        for metric in sorted(test.metrics, key=lambda metric: not metric.primary)
    ]
    places = [told.index(share) for share in shares]
    assert len(places) == 3 and places == sorted(places)
    page, terminal = test.to_html(), str(test)
    for text in (page, terminal, test.to_markdown()):
        assert all(share.split("\u202f")[0].split(" ")[1] in text for share in shares)
    assert page.index("sample ratio") < page.index("<h1") < page.index("Lift over a")
    assert "guardrail ≥ −1.0" in page and "Two ways to read a test" in page
    # The difference in means stands below each lift that is read from every row.
    assert page.count("alone") >= 3 and "alone" in terminal
    assert test.sample_ratio.status == "passed" and sum(test.sample_ratio.counts.values()) == 4000


def test_metrics_that_are_not_there_or_do_not_vary_are_one_message():
    log = several(9)
    with pytest.raises(cr.CounterrankError, match="primary metric names 'none'"):
        read(log, primary="none")
    with pytest.raises(cr.CounterrankError, match="is 0 in every ranking"):
        cr.abtest(several(9, price=(0.0, 0.0, 0.0)), "arm")
    with pytest.raises(cr.CounterrankError, match="'revnue'"):
        cr.abtest(log, "arm", rewards={"x": "revnue"})
    with pytest.raises(cr.CounterrankError, match="'nothing'"):
        cr.abtest(log, "arm", segments="nothing")
