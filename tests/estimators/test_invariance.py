"""What must not change a result: how the log is cut, in which order it lies, how many threads sum
it, its layout.
"""

import functools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.data.source import MemorySource, map_in_order
from counterrank.estimators import registry
from counterrank.estimators.base import Workspace

NAMES = ["ips", "iips", "rips", "snips", "sniips", "cv-rips", "order-2"]


def make_log(n, length, seed, *, unit=False, ragged=False):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, length + 1, n) if ragged else np.full(n, length)
    action = np.where(np.arange(length) < lengths[:, None], rng.integers(0, 5, (n, length)), -1)
    return cr.RankingLog(
        action=action,
        reward=rng.normal(1, 1, (n, length)),
        propensity=rng.uniform(0.2, 1, (n, length)),
        targets={"new": rng.random((n, length))},
        unit=rng.integers(0, 60, n) if unit else None,
    )


def finish(log, name, *, sizes=None, threads=1):
    """Return the estimate with the log cut into batches of these sizes."""
    source = MemorySource(log, threads=threads)
    fitted = registry.get(name).fit(Workspace(source, "new", by_unit=log.unit is not None))
    cuts = [0, *np.cumsum(sizes)] if sizes is not None else [0, log.n]
    batches = [log.take(slice(int(a), int(b))) for a, b in zip(cuts, cuts[1:], strict=False)]
    states = map_in_order(batches, fitted.sums, threads=threads)
    return fitted.estimate(functools.reduce(operator.add, states))


def numbers(estimate):
    positions = [x for p in estimate.by_position for x in (p.value, p.stderr)]
    lift = estimate.lift
    return np.array(
        [estimate.value, estimate.stderr, estimate.ess, lift.value, lift.stderr, *positions]
    )


def assert_same(one, other):
    np.testing.assert_allclose(numbers(one), numbers(other), rtol=1e-10, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=6),
    st.integers(1, 6),
    st.sampled_from(NAMES),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_cutting_the_log_changes_nothing(sizes, length, name, unit, seed):
    log = make_log(sum(sizes) + 10, length, seed, unit=unit)
    assert_same(finish(log, name), finish(log, name, sizes=[*sizes, 10]))


@settings(max_examples=15, deadline=None)
@given(st.integers(10, 700), st.sampled_from(NAMES), st.booleans(), st.integers(0, 2**32 - 1))
def test_the_order_of_rows_changes_nothing(n, name, unit, seed):
    log = make_log(n, 4, seed, unit=unit)
    shuffled = log.take(np.random.default_rng(seed).permutation(n))
    assert_same(finish(log, name), finish(shuffled, name))


@pytest.mark.parametrize("name", NAMES)
def test_threads_change_not_a_bit(name):
    log = make_log(20_000, 5, 3)
    sizes = [2500] * 8
    assert (
        numbers(finish(log, name, sizes=sizes))
        == numbers(finish(log, name, sizes=sizes, threads=4))
    ).all()


@pytest.mark.parametrize("behaviors", ["names", "masks"])
def test_behaviour_per_row_follows_its_rows(behaviors):
    log = make_log(900, 3, 4)
    rng = np.random.default_rng(5)
    names = rng.choice(["S", "C", "I", "N1"], 900)
    from counterrank.estimators.behavior import mask

    given_as = names if behaviors == "names" else np.stack([mask(str(name), 3) for name in names])
    estimator = cr.AIPS(behavior=given_as)
    fitted = estimator.fit(Workspace(MemorySource(log), "new"))

    def value(part):
        return fitted.estimate(fitted.sums(part)).value

    whole = value(log)
    rows = rng.permutation(900)[:400]
    rest = np.setdiff1d(np.arange(900), rows)
    # Selections of rows, and stretches of selections, must find their own behaviour.
    pieces = [
        log.take(rows[:150]),
        log.take(rows).take(slice(150, 400)),
        log.take(slice(None)).take(rest),
    ]
    assert sum(value(piece) * piece.n for piece in pieces) / 900 == pytest.approx(whole, rel=1e-12)
    direct = cr.AIPS(behavior=given_as[rows]).estimate(
        log.where(np.isin(np.arange(900), rows)), "new"
    )
    assert direct.n == 400


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(NAMES),
    st.integers(2, 200),
    st.integers(1, 8),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_the_logger_itself_earns_what_it_earned(name, n, length, ragged, seed):
    log = make_log(n, length, seed, ragged=ragged)
    log = log.with_targets({"new": log.propensity})
    estimate = finish(log, name)
    assert estimate.value == pytest.approx(log.value, rel=1e-10, abs=1e-12)
    assert estimate.ess == pytest.approx(n, rel=1e-12)
    assert estimate.lift.value == pytest.approx(0.0, abs=1e-9)
    assert estimate.lift.stderr == pytest.approx(0.0, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(NAMES), st.floats(0.01, 100), st.integers(0, 2**32 - 1))
def test_scaling_rewards_scales_the_answer(name, factor, seed):
    log = make_log(150, 3, seed)
    scaled = cr.RankingLog(
        action=log.action,
        reward=log.reward * factor,
        propensity=log.propensity,
        targets=log.targets,
    )
    one, other = finish(log, name), finish(scaled, name)
    assert (other.value, other.stderr) == pytest.approx(
        (factor * one.value, factor * one.stderr), rel=1e-9
    )
    assert other.ess == one.ess


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["snips", "sniips", "snrips", "cv-ips", "cv-iips"]),
    st.floats(-5, 5),
    st.integers(0, 2**32 - 1),
)
def test_shifting_rewards_shifts_normalised_estimates(name, shift, seed):
    log = make_log(150, 3, seed)
    moved = cr.RankingLog(
        action=log.action, reward=log.reward + shift, propensity=log.propensity, targets=log.targets
    )
    one, other = finish(log, name), finish(moved, name)
    assert other.value == pytest.approx(one.value + 3 * shift, rel=1e-7, abs=1e-7)
    # The spread of a self-normalised estimate does not see a shift, which is the point of
    # normalising.
    assert other.stderr == pytest.approx(one.stderr, rel=1e-6, abs=1e-7)


def test_shifting_rewards_moves_plain_ips_by_the_mean_weight():
    log = make_log(150, 3, 1)
    moved = cr.RankingLog(
        action=log.action, reward=log.reward + 2.0, propensity=log.propensity, targets=log.targets
    )
    one, other = finish(log, "ips"), finish(moved, "ips")
    assert other.value - one.value == pytest.approx(2.0 * one.moments.mean("w").sum(), rel=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_padding_counts_for_nothing(name):
    log = make_log(300, 5, 9, ragged=True)
    reward, p0, p1 = (
        log.reward.copy(),
        log.propensity.values.copy(),
        log.targets["new"].values.copy(),
    )
    padding = log.action < 0
    reward[padding], p0[padding], p1[padding] = 1e9, np.nan, 17.0
    dirty = cr.RankingLog(action=log.action, reward=reward, propensity=p0, targets={"new": p1})
    assert_same(finish(log, name), finish(dirty, name))


def test_padded_rows_are_shorter_rankings():
    # A log of 2-item rankings padded to 4 gives the values of the same log at K = 2.
    log = make_log(200, 2, 5)
    wide = {
        "action": np.pad(log.action, ((0, 0), (0, 2)), constant_values=-1),
        "reward": np.pad(log.reward, ((0, 0), (0, 2))),
        "propensity": np.pad(log.propensity.values, ((0, 0), (0, 2))),
        "targets": {"new": np.pad(log.targets["new"].values, ((0, 0), (0, 2)))},
    }
    for name in ("ips", "rips", "iips"):
        one, other = finish(log, name), finish(cr.RankingLog(**wide), name)
        assert (other.value, other.stderr) == pytest.approx((one.value, one.stderr), rel=1e-12)
        assert [p.value for p in other.by_position[2:]] == [0.0, 0.0]
