"""Do intervals hold the truth as often as they say, and are wrong ones caught? Seeded; judged by
binomtest.
"""

import numpy as np
import pytest
from scipy import stats

import counterrank as cr
from counterrank.estimators import registry

LEVEL = 0.9
#: A correct interval raises a false alarm with this chance per test (14 tests: 0.14 % in all, and
#: seeds are fixed).
ALARM = 1e-4


@pytest.fixture(scope="module")
def logs(bench):
    """Return 200 independent logs of 800 rankings, with a target that stays near the logger."""
    world = bench.World(exploration=0.7)
    return world, [world.draw(800, np.random.default_rng([7, i])) for i in range(200)]


@pytest.fixture(scope="module")
def clustered(bench):
    world = bench.World(exploration=0.9)
    return world, [
        world.draw(1500, np.random.default_rng([8, i]), rows_per_unit=10) for i in range(200)
    ]


def coverage_p(ends, truth):
    """Return how many hold the truth, and the p-value of that number if the level were right."""
    ends = np.asarray(ends)
    held = int(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum())
    return held / len(ends), stats.binomtest(held, len(ends), LEVEL).pvalue


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ips", "rips", "snips", "snrips", "cv-rips"])
def test_intervals_contain_the_truth(logs, name):
    world, drawn = logs
    ends = [registry.get(name).estimate(log, "new").interval(LEVEL) for log in drawn]
    share, p = coverage_p(ends, world.truth)
    assert p > ALARM, share


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ips", "snrips"])
def test_clustered_intervals_hold_the_truth(clustered, name):
    world, drawn = clustered
    share, p = coverage_p(
        [registry.get(name).estimate(log, "new").interval(LEVEL) for log in drawn], world.truth
    )
    assert p > ALARM, share


def test_ignoring_units_is_caught(clustered):
    world, drawn = clustered
    ends = [cr.IIPS().estimate(log, "new", by_unit=False).interval(LEVEL) for log in drawn]
    share, p = coverage_p(ends, world.truth)
    assert share < LEVEL and p < ALARM


def test_a_fixed_normaliser_is_caught(bench, logs):
    world, drawn = logs
    share, p = coverage_p([bench.fixed_normaliser(log) for log in drawn], world.truth)
    assert p < ALARM, share


def test_iips_on_cascade_data_is_caught_as_biased(bench):
    # z of the mean of 60 estimates; |z| > 5 has a chance of 6e-7 if it were unbiased. RIPS must
    # pass the same test.
    world = bench.World()
    drawn = [world.draw(4000, np.random.default_rng([9, i])) for i in range(60)]
    z = {}
    for name in ("iips", "rips"):
        values = np.array([registry.get(name).estimate(log, "new").value for log in drawn])
        z[name] = (values.mean() - world.truth) / (values.std(ddof=1) / np.sqrt(len(values)))
    assert abs(z["iips"]) > 5
    assert abs(z["rips"]) < 5


def test_paired_lift_holds_the_truth(bench, logs):
    world, drawn = logs
    logger, _, chance = world.tables
    same = bench.World(exploration=0.7)
    object.__setattr__(same, "tables", (logger, logger, chance))
    truth = world.truth - same.truth
    ends = []
    for log in drawn:
        lift = cr.RIPS().estimate(log, "new", level=LEVEL).lift
        ends.append((lift.low, lift.high))
    share, p = coverage_p(ends, truth)
    assert p > ALARM, share
