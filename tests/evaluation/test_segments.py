"""Segments: sums of the same columns, which move nothing of the whole."""

import numpy as np
import pytest

import counterrank as cr


@pytest.fixture(scope="module")
def log():
    return log_of(1)


def log_of(seed):
    """Phones like what desktops do not: a target that helps the former hurts the latter."""
    rng = np.random.default_rng(seed)
    n, liking = 5000, np.linspace(-1, 1, 8)
    base = 0.5 * rng.normal(size=(n, 8)) + 0.3 * liking
    device = rng.choice(["mobile", "desktop"], n, p=[0.6, 0.4])
    side = np.where(device == "mobile", 1.0, -0.6)[:, None]
    logger = cr.PlackettLuce(base)
    action = logger.sample(4, rng)[:, 0]
    chance = 1 / (1 + np.exp(1.0 - 1.2 * side * liking[action])) * np.array([1, 0.7, 0.5, 0.4])
    return cr.RankingLog(
        action=action, reward=(rng.random((n, 4)) < chance).astype(float), propensity=logger,
        columns={"device": device, "half": np.arange(n) % 2},
        targets={"new": cr.PlackettLuce(base + 0.6 * liking)},
    )  # fmt: skip


def evaluated(log, *segments, **options):
    return cr.evaluate(
        log, ["new"], segments=segments, independent_rows=True, audit=False, **options
    )


def test_groups_that_differ_have_lifts_of_their_own(log):
    """True lifts, from 20 drawn pages a request: +0.104 on phones and -0.061 on desktops.

    The models do not know the column, so that half of the difference may be missing: four standard
    errors (0.012) are allowed.
    """
    lifts = {one.label: one.lift for one in evaluated(log, "device", estimators=["auto"]).segments}
    assert lifts["mobile"].value == pytest.approx(0.104, abs=0.048)
    assert lifts["desktop"].value == pytest.approx(-0.061, abs=0.048)
    assert lifts["mobile"].low > 0 > lifts["desktop"].high


def test_naming_a_segment_moves_nothing_else(log):
    plain, cut = (evaluated(log, *names).to_dict() for names in ((), ("device", "half")))
    for name in ("estimates", "lift", "planning", "sensitivity", "comparisons", "recommended"):
        assert cut[name] == plain[name]
    assert cut["verdict"] == plain["verdict"]


def test_groups_without_a_difference_average_to_the_whole():
    """Where no group's interval leaves out the estimate of all rows, groups follow it."""
    log = log_of(4)
    found = evaluated(log, "half", estimators=["auto", "ips"])
    lifts = sum(one.n * one.lift.value for one in found.segments) / log.n
    assert lifts == pytest.approx(found.estimate("new").lift.value, abs=1e-9)


@pytest.mark.parametrize("name", ["ips", "snips", "order-2"])
def test_a_group_is_evaluated_as_its_rows_alone_are(name):
    """Weights decide nothing: a group of rows of users has the estimate of a log of these rows."""
    rng = np.random.default_rng(3)
    n = 900
    log = cr.RankingLog(
        action=rng.integers(0, 3, (n, 3)), reward=rng.random((n, 3)), propensity=rng.uniform(0.3, 1, (n, 3)),
        targets={"new": rng.uniform(0.3, 1, (n, 3))}, unit=rng.integers(0, 200, n),
        columns={"half": np.where(np.arange(n) % 3 == 0, "a", "b")},
    )  # fmt: skip
    for one in evaluated(log, "half", estimators=[name]).segments:
        alone = cr.evaluate(
            log.where(log.columns["half"] == one.label), ["new"], estimators=[name], audit=False
        ).estimate("new", name)
        assert (one.value, one.stderr) == pytest.approx((alone.value, alone.stderr), rel=1e-9)
        assert (one.ess, one.n) == pytest.approx((alone.ess, alone.n), rel=1e-9)
        assert (one.lift.low, one.lift.high) == pytest.approx(
            (alone.lift.low, alone.lift.high), rel=1e-9
        )
        assert one.flags == alone.flags
