"""`auto` from the outside: intervals, details, what it does with less information."""

import json

import numpy as np
import pytest

from counterrank.common.errors import ConfigError
from counterrank.data.log import Propensity, RankingLog
from counterrank.data.source import MemorySource
from counterrank.estimators.auto.auto import Auto
from counterrank.estimators.auto.rule import DIFFER
from counterrank.estimators.base import Estimate, View, Workspace
from counterrank.estimators.columns import logged, summed
from counterrank.estimators.masked import IIPS, RIPS
from counterrank.policies import PlackettLuce
from counterrank.research.simulate import World, random, true_value
from counterrank.statistics import bias_aware_half


def without_distributions(log):
    return RankingLog(
        action=log.action,
        reward=log.reward,
        propensity=log.propensity,
        context=log.context,
        targets=log.targets,
    )


@pytest.mark.slow
def test_covers_and_beats_iips(env):
    """30 replicates. If coverage is .95, 23 or fewer hits have probability 3e-4; the seed is fixed."""
    truth = true_value(env).value
    hits, error, simple = 0, [], []
    for r in range(30):
        part = env.draw(1500, np.random.default_rng([77, r])).to_log()
        found = Auto().estimate(part, "new")
        low, high = found.interval(0.95)
        hits += low <= truth <= high
        error.append(found.value - truth)
        simple.append(IIPS().estimate(part, "new").value - truth)
    assert hits >= 24
    # The environment is pairwise with strong interactions: IIPS is off by several standard errors
    # of auto.
    assert np.mean(np.square(error)) < 0.2 * np.mean(np.square(simple))


def test_estimate_is_complete(log):
    found = Auto().estimate(log, "new")
    assert found.estimator == "auto" and len(found.by_position) == 4
    assert sum(p.value for p in found.by_position) == pytest.approx(found.value, rel=1e-9)
    members = [m["member"] for m in found.details["members"]]
    assert members == ["models", "aimed", "iips", "order-2", "order-3", "ips"]
    assert all(m["stderr"] > 0 for m in found.details["members"])
    assert sum(m["share"] for m in found.details["members"]) == pytest.approx(1.0, rel=1e-9)
    assert found.basis in members
    assert found.lift.low <= found.lift.value <= found.lift.high
    assert found.lift.value == pytest.approx(found.value - log.value, rel=1e-9)
    by_position = [p.value for p in found.lift.by_position]
    assert sum(by_position) == pytest.approx(found.lift.value, rel=1e-9)
    json.dumps(found.to_dict())


def test_the_allowance_is_in_every_interval_and_the_value_within(log):
    found = Auto().estimate(log, "new")
    bare, wide = (Auto(allowance=size).estimate(log, "new") for size in (0.0, 3.0))
    assert bare.details["allowance_from"].keys() <= {DIFFER}
    assert wide.details["allowance_from"]["given"] == 3.0
    for one in (found, bare, wide):
        low, high = one.interval(0.95)
        half = bias_aware_half(one.stderr, one.allowance, 0.95, log.n - 1)
        assert (high - low) / 2 == pytest.approx(half, rel=1e-9)
        expected = bias_aware_half(one.lift.stderr, one.allowance, 0.95, log.n - 1)
        assert (one.lift.high - one.lift.low) / 2 == pytest.approx(expected, rel=1e-9)
        assert one.lift.low - 1e-9 <= one.lift.value <= one.lift.high + 1e-9
        assert one.lift.relative_high - one.lift.relative_low > 2 * one.allowance / log.value
        # The lift is centred where the value is: what was earned is known.
        shift = (low + high) / 2 - one.value
        assert (one.lift.low + one.lift.high) / 2 - one.lift.value == pytest.approx(shift, rel=1e-9)
    assert bare.high - bare.low < wide.high - wide.low
    assert any(flag.startswith("bias-allowance") for flag in wide.flags)
    assert not any(flag.startswith("bias-allowance") for flag in bare.flags)


@pytest.mark.parametrize("given", [-1.0, np.nan, np.inf])
def test_an_allowance_is_a_size(given):
    with pytest.raises(ConfigError, match="at least 0"):
        Auto(allowance=given)


def test_intervals_are_nested(log):
    found = Auto().estimate(log, "new")
    before = found.interval(0.01)
    for level in (0.05, 0.5, 0.9, 0.95, 0.999):
        low, high = found.interval(level)
        assert low <= before[0] and high >= before[1]
        before = (low, high)
    assert found.interval() == found.interval(0.95)


class Chunked(MemorySource):
    """The same log in other pieces."""

    def __init__(self, log, size):
        super().__init__(log, threads=1)
        self.size = size

    def reduce(self, partial, *, label=""):
        states = [partial(part) for part in self.log.chunks(self.size)]
        return sum(states[1:], start=states[0])


def run(source):
    workspace = Workspace(source, "new")
    fit = Auto().fit(workspace)
    return fit, source.reduce(fit.sums)


@pytest.mark.parametrize("reward", ["pairwise", "binary"])
def test_chunks_do_not_matter(reward):
    part = random(2, K=3, actions=3, reward=reward).draw(900, np.random.default_rng(1)).to_log()
    values = []
    for size in (900, 131):
        fit, state = run(Chunked(part, size))
        found = fit.estimate(state)
        values.append([found.value, found.stderr, *found.interval()])
    np.testing.assert_allclose(values[0], values[1], rtol=1e-7)


def test_totals_and_gradient_give_the_centre_of_the_interval(log):
    """The gradient is the combination of the row totals, larger where heavy weights were not seen."""
    log = log.take(slice(0, 300))
    fit, state = run(MemorySource(log, threads=1))
    columns = {**fit.columns(View(log, "new")).totals, logged("reward"): log.reward.sum(axis=1)}
    means = np.array([columns[key].mean() for key in state.sums.keys])
    total = fit.solution(state).total
    details = fit.estimate(state).details
    centre = [
        (details["centre"][each["member"]] * each["value"], each["tail_inflation"] ** 0.5)
        for each in details["members"]
        if each["member"] in details["centre"]
    ]
    # The interval stands midway between the estimate and the centre.
    middle = (total.value + sum(v for v, _ in centre)) / 2
    assert sum(total.interval(0.95)) / 2 == pytest.approx(middle, rel=1e-9)
    inflated = sum(value * root for value, root in centre)
    assert means @ total.gradient == pytest.approx(inflated, rel=1e-9)
    assert max(root for _, root in centre) > 1.0


def test_groups_of_rows_average_to_all_of_them(log):
    fit, state = run(MemorySource(log, threads=1))
    cuts = np.array_split(np.arange(log.n), [700, 1900])
    view, solution = View(log, "new"), fit.solution(state)
    earned, columns = {logged("reward"): log.reward.sum(axis=1)}, {fit.key: fit.columns(view)}
    parts = [summed(log, earned, columns, rows) for rows in cuts]
    groups = [fit.solve(part.sums, part.extras[fit.key], solution) for part in parts]
    whole, *found = (Estimate.from_solution(one, "new", "auto") for one in (solution, *groups))
    shares = [one.n / log.n for one in found]
    lifts = [one.lift for one in found]
    assert shares @ np.array([one.value for one in lifts]) == pytest.approx(whole.lift.value)
    for one in lifts:
        assert one.low <= one.value <= one.high
        assert one.high - one.low > whole.lift.high - whole.lift.low


def test_without_distributions_it_works_and_says_so(env, log):
    found = Auto().estimate(without_distributions(log), "new")
    assert found.flags[0].startswith("weights-only") and "new_dist" in found.flags[0]
    low, high = found.interval()
    assert low <= true_value(env).value <= high
    whole = Auto().estimate(log, "new")
    assert high - low > whole.interval()[1] - whole.interval()[0]


def test_controls_reduce_the_spread_of_order_one(log):
    part = without_distributions(log)
    found = Auto().estimate(part, "new").details["members"][0]
    plain = IIPS().estimate(part, "new")
    assert found["member"] == "iips" and found["stderr"] < plain.stderr
    assert abs(found["value"] - plain.value) < 4 * plain.stderr


def test_rankings_without_replacement():
    world = World(seed=3, behavior="position", K=3, items=5)
    part = world.draw(1500, np.random.default_rng(1)).to_log()
    found = Auto().estimate(part, "new")
    assert found.flags[0].startswith("drawn-mean")
    assert [m["member"] for m in found.details["members"]] == [
        "models",
        "aimed",
        "iips",
        "ips",
    ]
    assert isinstance(part.propensity, PlackettLuce)
    low, high = found.interval()
    assert low <= true_value(world).value <= high


@pytest.mark.parametrize(
    ("kind", "members"), [("prefix", ["rips", "ips"]), ("position", ["iips"]), ("joint", ["ips"])]
)
def test_other_kinds_of_propensity(log, kind, members):
    p0, p1 = log.propensity.values, log.targets["new"].values
    if kind == "joint":
        p0, p1 = p0.prod(axis=1), p1.prod(axis=1)
    part = RankingLog(
        action=log.action,
        reward=log.reward,
        propensity=Propensity(kind, p0),
        targets={"new": Propensity(kind, p1)},
    )
    found = Auto().estimate(part, "new")
    assert [m["member"] for m in found.details["members"]] == members
    assert found.flags[0].startswith("weights-only") and kind in found.flags[0]
    assert "--policy new=plackett-luce" in found.flags[0]


def test_controls_help_where_only_prefixes_are_known(log):
    p0, p1 = log.propensity.values, log.targets["new"].values
    part = RankingLog(
        action=log.action, reward=log.reward, propensity=Propensity("prefix", p0),
        targets={"new": Propensity("prefix", p1)},
    )  # fmt: skip
    found = Auto().estimate(part, "new").details["members"][0]
    assert found["stderr"] < 0.95 * RIPS().estimate(part, "new").stderr


def test_sixty_positions_do_not_overflow():
    part = random(1, K=60, actions=2, d=1).draw(400, np.random.default_rng(0)).to_log()
    found = Auto().estimate(part, "new")
    assert np.isfinite([found.value, found.stderr, *found.interval()]).all()


def test_ragged_rankings_units_and_position_weights(log):
    rng = np.random.default_rng(3)
    action = log.action.copy()
    reward = log.reward.copy()
    cut = rng.random(log.n) < 0.3
    action[cut, -1], reward[cut, -1] = -1, 0.0
    part = RankingLog(
        action=action, reward=reward, propensity=log.propensity, context=log.context, targets=log.targets,
        dists=log.dists, unit=np.arange(log.n) // 3, position_weights=[1.0, 0.5, 0.25, 0.125],
    )  # fmt: skip
    found = Auto().estimate(part, "new")
    assert np.isfinite([found.value, found.stderr]).all()
    weighted = np.array([p.value for p in found.by_position]) @ part.position_weights
    assert weighted == pytest.approx(found.value, rel=1e-9)


def test_one_position_and_one_action_short_of_trivial():
    part = random(1, K=1, actions=3, d=1).draw(500, np.random.default_rng(0)).to_log()
    found = Auto().estimate(part, "new")
    assert np.isfinite([found.value, *found.interval()]).all()


def test_target_equal_to_logger_gives_what_the_logger_earned(log):
    part = RankingLog(
        action=log.action, reward=log.reward, propensity=log.propensity, context=log.context,
        targets={"new": log.propensity}, dists={"propensity": log.dists["propensity"], "new": log.dists["propensity"]},
    )  # fmt: skip
    found = Auto().estimate(part, "new")
    assert abs(found.value - part.value) < 3 * found.stderr
