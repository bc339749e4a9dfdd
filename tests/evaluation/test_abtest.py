"""An A/B test with its log: sharper, as honest, and plain where the arms contradict their own pages."""

import json
import math

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError, PropensityError
from counterrank.evaluation import ABTest

ITEMS = 3
POLICIES = {"a": np.array([0.5, 0.3, 0.2]), "b": np.array([0.4, 0.3, 0.3])}
RELEVANCE = np.array([0.2, 0.5, 0.6])
#: What b earns more on a page of two.
LIFT = 2 * float((POLICIES["b"] - POLICIES["a"]) @ RELEVANCE)


def test_of(seed, n=800, policies=POLICIES, serve=None, shift=0.0, **more) -> cr.RankingLog:
    """Rows of every arm. `serve` are the probabilities that really served, `shift` what b earns for a
    reason that no page shows.
    """
    rng = np.random.default_rng(seed)
    names, truth = list(policies), serve or policies
    arm = rng.choice(names, n)
    own = np.stack([truth[name] for name in arm])
    action = (rng.random((n, 2, 1)) > own.cumsum(axis=1)[:, None, :]).sum(axis=2)
    reward = rng.random(action.shape) < RELEVANCE[action] + shift * (arm == "b")[:, None]
    return cr.RankingLog(
        action=action,
        reward=reward.astype(float),
        propensity=np.take_along_axis(own, action, axis=1),
        targets={name: policies[name][action] for name in names},
        columns={"arm": arm},
        **more,
    )


test_of.__test__ = False


def test_the_difference_in_means_is_welchs_and_the_pooled_lift_the_weighted_one():
    log = test_of(1)
    found = cr.abtest(log, "arm").lift("b")
    y, arm = log.reward.sum(axis=1), log.columns["arm"]
    one, other = y[arm == "a"], y[arm == "b"]
    assert found.plain.value == pytest.approx(other.mean() - one.mean(), rel=1e-12)
    error = math.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    assert found.plain.stderr == pytest.approx(error, rel=1e-12)
    chance = {name: log.targets[name].values.prod(axis=1) for name in "ab"}
    mixed = sum(np.mean(arm == name) * chance[name] for name in "ab")
    w = {name: chance[name] / mixed for name in "ab"}
    # Without context and models the constant is the one control: its slope within arms.
    d, z = (w["b"] - w["a"]) * y, w["b"] - 1
    inside = [v - np.where(arm == "a", v[arm == "a"].mean(), v[arm == "b"].mean()) for v in (d, z)]
    beta = inside[0] @ inside[1] / (inside[1] @ inside[1])
    assert found.pooled.value == pytest.approx(d.mean() - beta * z.mean(), rel=0.02)
    assert found.headline == "pooled" and found.shared == 1.0 and found.agree
    assert found.saved == pytest.approx(1 - (found.pooled.width / found.plain.width) ** 2)
    assert found.saved > 0.5


def test_intervals_hold_and_find_no_winner_by_chance():
    """300 tests of each kind: z is standard normal (|mean| < 4.5 / sqrt(300), the sum of squares
    inside its 1e-5 tails) and at no lift at most 20 of 300 win on a side, P < 1e-4 at 2.5 %.
    """
    other = {"a": POLICIES["a"], "b": np.array([0.525, 0.2, 0.275])}
    assert other["b"] @ RELEVANCE == pytest.approx(other["a"] @ RELEVANCE)
    for policies, lift in ((POLICIES, LIFT), (other, 0.0)):
        found = [cr.abtest(test_of(seed, 500, policies), "arm").lift("b") for seed in range(300)]
        z = np.array([(one.pooled.value - lift) / one.pooled.stderr for one in found])
        assert abs(z.mean()) < 4.5 / math.sqrt(300)
        assert 204 < (z**2).sum() < 413
        if lift == 0.0:
            assert sum(one.lift.low > 0 for one in found) <= 20
            assert sum(one.lift.high < 0 for one in found) <= 20


def test_wrong_probabilities_and_arms_that_differ_otherwise_leave_the_plain_difference():
    wrong = {"a": POLICIES["a"], "b": np.array([0.1, 0.3, 0.6])}
    test = cr.abtest(test_of(2, 4000, POLICIES, serve=wrong), "arm")
    found = test.lift("b")
    assert found.headline == "plain" and found.saved == 0.0
    # Its own rows say which arm it is.
    assert {note.target for note in test.notes if note.fatal} == {"b"} and not test.valid
    assert "arm-weights" in [note.code for note in found.notes]
    found = cr.abtest(test_of(3, 6000, shift=0.2), "arm").lift("b")
    assert found.headline == "plain" and found.lift == found.plain
    assert "arms-contradict" in [note.code for note in found.notes] and not found.agree
    page = cr.abtest(test_of(3, 6000, shift=0.2), "arm").to_html()
    assert "further apart than three standard errors" in page


def test_fixed_orders_share_the_pages_on_which_they_agree():
    rng = np.random.default_rng(4)
    n = 1200
    order = rng.permuted(np.tile(np.arange(5), (n, 1)), axis=1)[:, :2]
    other = order.copy()
    other[: n // 4] = other[: n // 4, ::-1]
    arm = rng.integers(2, size=n)
    action = np.where(arm[:, None] == 1, other, order)
    reward = (rng.random((n, 2)) < 0.3).astype(float)
    log = cr.RankingLog(
        action=action,
        reward=reward,
        propensity=np.ones((n, 2)),
        columns={"arm": np.array(["a", "b"])[arm]},
        targets={"a": cr.Deterministic(order, 5), "b": cr.Deterministic(other, 5)},
    )
    found = cr.abtest(log, "arm").lift("b")
    assert found.shared == 0.75
    # A quarter of the rows tells the arms apart: the width is about sqrt(1 / 4).
    assert 0.4 < math.sqrt(1 - found.saved) < 0.6


def test_arms_that_never_agree_are_told_and_lose_nothing():
    rng = np.random.default_rng(5)
    arm = rng.integers(2, size=400)
    action = arm[:, None]
    log = cr.RankingLog(
        action=action,
        reward=rng.random((400, 1)),
        propensity=np.ones((400, 1)),
        columns={"arm": arm},
        targets={"0": 1.0 - action, "1": 1.0 * action},
    )
    found = cr.abtest(log, "arm").lifts[0]
    assert [note.code for note in found.notes] == ["no-common-pages"] and found.shared == 0.0
    assert found.agree and found.pooled.value == pytest.approx(found.plain.value)
    assert found.headline == "plain" and found.saved == 0.0


def test_context_that_tells_rewards_makes_the_lift_sharper():
    log = test_of(6)
    x = log.reward.sum(axis=1, keepdims=True) + np.random.default_rng(6).normal(size=(log.n, 1))
    known = cr.RankingLog(
        action=log.action,
        reward=log.reward,
        propensity=log.propensity,
        targets=log.targets,
        columns=log.columns,
        context=x,
    )
    wide, short = (cr.abtest(one, "arm").lift("b").pooled.stderr for one in (log, known))
    assert short < 0.9 * wide


def test_three_arms_tell_of_each_other_and_the_baseline_is_asked_for():
    policies = {**POLICIES, "c": np.array([0.45, 0.3, 0.25])}
    log = test_of(7, 1500, policies)
    found = cr.abtest(log, "arm", baseline="c")
    assert [(one.source, one.to) for one in found.lifts] == [("c", "a"), ("c", "b")]
    assert [arm.name for arm in found.arms] == ["a", "b", "c"]
    assert sum(arm.rows for arm in found.arms) == 1500
    with pytest.raises(ConfigError, match="no arm 'd' to compare with; arms are a, b, c"):
        cr.abtest(log, "arm", baseline="d")
    with pytest.raises(ConfigError, match="no lift of 'c' over 'c'"):
        found.lift("c")


def test_looking_every_day_widens_every_interval_alike():
    log = test_of(8)
    once, often = cr.abtest(log, "arm").lift("b"), cr.abtest(log, "arm", sequential=True)
    from counterrank.statistics import Looks

    far = Looks(10_000).critical(0.95, log.n)
    for name in ("plain", "pooled"):
        shown = getattr(often.lift("b"), name)
        assert shown.stderr == getattr(once, name).stderr
        assert far * shown.stderr < shown.high - shown.value < 1.01 * far * shown.stderr
    assert "valid at every look" in often.to_html()


def test_units_in_one_arm_count_as_one_and_in_several_are_told():
    log = test_of(9, 600)
    unit = np.arange(600) // 3
    same = np.array(["a", "b"])[unit % 2]
    rows = np.flatnonzero(log.columns["arm"] == same)
    part = log.take(rows)
    apart = cr.RankingLog(
        action=part.action,
        reward=part.reward,
        propensity=part.propensity,
        targets=part.targets,
        columns=part.columns,
        unit=unit[rows],
    )
    found = cr.abtest(apart, "arm")
    assert [arm.units for arm in found.arms] == [
        len(set(unit[rows][same[rows] == a])) for a in "ab"
    ]
    assert "units-in-several-arms" not in [note.code for note in found.notes]
    mixed = test_of(9, 600, unit=unit)
    assert "units-in-several-arms" in [note.code for note in cr.abtest(mixed, "arm").notes]


def test_more_visits_are_told():
    rng = np.random.default_rng(10)
    log = test_of(10, 3000)
    arm = log.columns["arm"]
    often = np.where(arm == "a", rng.integers(400, size=3000), 1000 + rng.integers(100, size=3000))
    told = cr.abtest(test_of(10, 3000, unit=often), "arm").notes
    assert [note.code for note in told if note.code == "visits-differ"]


def test_candidates_that_only_one_arm_can_show_are_handled():
    rng = np.random.default_rng(11)
    n = 400
    sets = cr.Candidates(np.arange(n + 1) * 4, np.tile(np.arange(4, dtype=np.int32), n), n_items=4)
    scores = rng.normal(size=(n, 4))
    barred = scores.copy()
    barred[: n // 2, 3] = -np.inf
    spec = cr.parse_policy("plackett-luce")
    policies = {
        name: spec.bind(candidates=sets, scores=one.reshape(-1))
        for name, one in (("a", barred), ("b", scores))
    }
    arm = rng.integers(2, size=n)
    drawn = [policies[name].sample(2, rng)[:, 0] for name in "ab"]
    log = cr.RankingLog(
        action=np.where(arm[:, None] == 1, drawn[1], drawn[0]),
        reward=rng.random((n, 2)) < 0.4,
        propensity=policies["a"],
        candidates=sets,
        targets=policies,
        columns={"arm": np.array(["a", "b"])[arm]},
    )
    found = cr.abtest(log, "arm")
    assert 0.5 < found.lift("b").shared < 1.0 and found.lift("b").headline == "pooled"


def test_interleaved_rows_are_read_the_same_way():
    rng = np.random.default_rng(12)
    n = 900
    order = rng.permuted(np.tile(np.arange(5), (n, 1)), axis=1)[:, :3]
    other = order.copy()
    other[::3] = other[::3, ::-1]
    policies = {
        "a": cr.Deterministic(order, 5),
        "b": cr.Deterministic(other, 5),
        "mixed": cr.TeamDraft(order, other, 5),
    }
    arm = rng.choice(["a", "b", "mixed"], n)
    drawn = {name: policy.sample(3, rng)[:, 0] for name, policy in policies.items()}
    action = np.stack([drawn[name][i] for i, name in enumerate(arm)])
    relevance = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    log = cr.RankingLog(
        action=action,
        reward=rng.random((n, 3)) < relevance[action],
        propensity=np.ones((n, 3)),
        targets=policies,
        columns={"arm": arm},
    )
    found = cr.abtest(log, "arm")
    assert found.lift("b").headline == "pooled" and found.lift("b").saved > 0.3
    assert {one.to for one in found.lifts} == {"b", "mixed"}


def test_the_result_is_written_and_read_again():
    found = cr.abtest(test_of(13, shift=0.3), "arm")
    plain = json.loads(found.to_json())
    assert plain["schema"] == "counterrank/abtest/2"
    assert plain["lifts"] == plain["metrics"][0]["lifts"]
    assert set(plain["arms"][0]) >= {"name", "rows", "earned", "stderr"}
    lift = plain["lifts"][0]
    assert set(lift) >= {"from", "to", "plain", "pooled", "headline", "saved"}
    assert set(lift["plain"]) >= {"value", "low", "high"}
    again = ABTest.from_dict(plain)
    assert again == found and isinstance(again.lifts[0].headline, str)
    older = {key: value for key, value in plain.items() if key not in ("metrics", "decision")}
    read = ABTest.from_dict({**older, "schema": "counterrank/abtest/1"})
    assert read.lifts == found.lifts and read.arms == found.arms and read.decision is None
    with pytest.raises(ConfigError, match="abtest/2. is expected here"):
        ABTest.from_dict({"schema": "counterrank/validation/1"})
    with pytest.raises(
        ConfigError, match=r"damaged: 'metrics\[0\].lifts\[0\].plain.low' is not a number"
    ):
        damaged = {**lift, "plain": {**lift["plain"], "low": "x"}}
        ABTest.from_dict({**plain, "metrics": [{**plain["metrics"][0], "lifts": [damaged]}]})
    assert repr(found).startswith("ABTest(baseline='a', b: ")


def test_names_from_a_log_stay_text():
    policies = {"<b>x": POLICIES["a"], "y": POLICIES["b"]}
    page = cr.abtest(test_of(14, policies=policies), "arm").to_html()
    assert "<b>x" not in page and "&lt;b&gt;x" in page


@pytest.mark.parametrize(
    "spoil, error, said",
    [
        (lambda log: log.where(log.columns["arm"] == "a"), LogError, "one value, 'a'"),
        (lambda log: _without(log, "b"), LogError, "arm 'b' has no target of its name"),
        (
            lambda log: _never(log),
            PropensityError,
            r"arm 'b' gives \d+ of the \d+ pages that it served probability 0",
        ),
        (lambda log: _alone(log), LogError, "arm 'a' has one unit"),
        (lambda log: _flat(log), LogError, "every ranking earned 0"),
        (lambda log: log.take(np.arange(150)), LogError, "with fewer than 100 nothing can be said"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_message(spoil, error, said):
    with pytest.raises(error, match=said):
        cr.abtest(spoil(test_of(15)), "arm")


def _remade(log, **other):
    given = {
        "action": log.action,
        "reward": log.reward,
        "propensity": log.propensity,
        "targets": log.targets,
        "columns": log.columns,
    }
    return cr.RankingLog(**{**given, **other})


def _without(log, name):
    return _remade(log, targets={key: value for key, value in log.targets.items() if key != name})


def _never(log):
    wrong = np.where(log.action == 2, 0.0, log.targets["b"].values)
    return _remade(log, targets={"a": log.targets["a"], "b": wrong})


def _alone(log):
    return _remade(
        log, unit=np.where(log.columns["arm"] == "a", 0, 1 + np.arange(log.n)).astype(np.int64)
    )


def _flat(log):
    return _remade(log, reward=np.zeros(log.reward.shape))


def divided(rng: np.random.Generator, share: float, n: int = 20_000) -> cr.RankingLog:
    arm = (rng.random(n) < share).astype(int)
    action = rng.integers(2, size=(n, 1))
    return cr.RankingLog(
        action=action, reward=(rng.random((n, 1)) < 0.3).astype(float), propensity=np.full((n, 1), 0.5),
        context=rng.integers(0, 3, size=(n, 1)).astype(float), context_names=("x_device",),
        targets={name: np.full((n, 1), 0.5) for name in "ab"},
        columns={"arm": np.array(["a", "b"])[arm]},
    )  # fmt: skip


def test_arms_of_52_to_48_are_not_what_chance_gives():
    """At 20,000 rows, 5.7 standard errors: 99 of 100 logs are beyond the line; 20 of 20 fail by 18 %."""
    rng = np.random.default_rng(0)
    seen = [not cr.abtest(divided(rng, 0.52), "arm").valid for _ in range(12)]
    # One may be missed: two are, by chance, in 0.6 % of such runs.
    assert sum(seen) >= 11


def test_fair_arms_are_valid_and_a_planned_share_is_no_mismatch():
    """A false alarm has a chance of 0.001 in a log: one in ten of them, of 1 %."""
    rng = np.random.default_rng(1)
    for share in (0.5, 0.5, 0.5, 0.1, 0.25):
        found = cr.abtest(divided(rng, share, 6000), "arm")
        assert found.valid, found.notes


def test_other_shares_are_no_mismatch_once_they_are_said():
    """A false alarm has a chance of 0.001 in a log."""
    log = divided(np.random.default_rng(4), 0.6, 6000)
    found = cr.abtest(log, "arm")
    assert not found.valid and "--arm" in found.notes[0].help or "arm=" in found.notes[0].help
    assert cr.abtest(log, "arm:a=60,b=40").valid != cr.abtest(log, "arm:a=40,b=60").valid
    # The plan is tested as equal shares are.
    assert not cr.abtest(log, "arm:a=55,b=45").valid
    for wrong in ("arm:a=60", "arm:a=60,c=40", "arm:a=much,b=1", "arm:a=0,b=1"):
        with pytest.raises(cr.CounterrankError, match="planned share"):
            cr.abtest(log, wrong)


def test_lost_pages_of_one_arm_invalidate_the_test_and_are_said_first():
    rng = np.random.default_rng(2)
    log = divided(rng, 0.5, 6000)
    lost = (log.columns["arm"] == "a") & ~log.reward.any(axis=1) & (rng.random(log.n) < 0.4)
    found = cr.abtest(log.take(np.flatnonzero(~lost)), "arm")
    assert found.notes[0].code == "sample-ratio" and found.notes[0].fatal and not found.valid
    shown = str(found)
    assert "not valid" in shown and "rests on nothing but the coin" not in shown
    assert cr.ABTest.from_dict(found.to_dict()) == found


def test_a_level_whose_rows_of_one_arm_are_lost_invalidates_it_too():
    rng = np.random.default_rng(3)
    log = divided(rng, 0.5, 8000)
    arm, device = log.columns["arm"], log.context[:, 0]
    # As many of both arms, but none of one arm from device 2.
    lost = ((arm == "a") & (device == 2)) | (
        (arm == "b") & (device == 1) & (rng.random(log.n) < 0.97)
    )
    found = cr.abtest(log.take(np.flatnonzero(~lost)), "arm")
    assert "sample-ratio-by-group" in {one.code for one in found.notes} and not found.valid


def test_a_table_of_pages_alone_is_told_what_each_arm_needs(tmp_path):
    path = tmp_path / "pages.csv"
    path.write_text("ranking,position,action,reward,arm\n" + "r0,1,i1,1,a\nr1,1,i2,0,b\n")
    with pytest.raises(LogError, match="each arm needs what its ranker would have done") as told:
        cr.abtest(path, "arm")
    assert "plackett-luce:temperature=T" in told.value.remedy and "columns are" in told.value.remedy
