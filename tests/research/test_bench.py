"""The bench: frozen worlds, any estimator, the same logs for all, and what its page tells to type."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError
from counterrank.research import bench
from counterrank.research.simulate import random, true_value

SOURCE = Path(__file__).resolve().parents[1] / "docs" / "conftest.py"
spec = importlib.util.spec_from_file_location("doc_blocks", SOURCE)
tools = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tools)


def test_the_page_runs():
    names = {}
    for line, code in tools.blocks("docs/howto/extend.md", "python"):
        tools.run_python("docs/howto/extend.md", code, line, names)
    table, mine = names["found"].table, names["mine"].name
    assert set(table["estimator"]) == {"ips", "iips", "rips", "aips", mine}
    assert len(table) == 3 * 5 and set(table["seeds"]) == {4}
    pairs = names["found"].paired(mine)
    assert len(pairs) == 3 * 4 and not pairs["beyond_chance"].any()


def test_numbers_are_those_of_the_formulas():
    found = bench.run("text:1", ["ips"], seeds=[3, 9])
    (row,) = found.table.to_dict("records")
    world = bench.worlds("text:1")[0]
    trials = [world.draw(seed) for seed in (3, 9)]
    errors = np.array([cr.IPS().estimate(t.log, "new").value - t.truth for t in trials])
    assert row["mse"] == pytest.approx((errors**2).mean(), rel=1e-9)
    assert row["squared_bias"] == pytest.approx(errors.mean() ** 2, rel=1e-9)
    assert row["variance"] == pytest.approx(errors.var(), rel=1e-9)
    assert row["mse"] == pytest.approx(row["squared_bias"] + row["variance"], rel=1e-9)


FROZEN = {
    "published n=2000 K=8 delta=0.6": (2000, 8, 49735.51),
    "text 1": (8000, 8, 191778.681),
    "random 1: pairwise, n=16000, 4 of 3": (16000, 4, 67010.621),
    "groups 1: pairwise, n=8000, 12 of 3": (8000, 12, 342460.578),
    "clicks 1: feed, mixed": (4000, 5, 4000.0),
}


def test_worlds_are_frozen():
    """Sums of the first logs of each population: another number is another benchmark."""
    found = {}
    for name in ("published", "text", "random", "groups", "clicks"):
        world = bench.worlds(f"{name}:2")[-1]
        trial, again = world.draw(1), world.draw(1)
        assert trial.log.reward.sum() == again.log.reward.sum()
        found[world.name] = (trial.log.n, trial.log.K, round(float(trial.log.reward.sum()), 3))
    assert found == FROZEN


def test_processes_and_seeds_do_not_change_a_log():
    one = bench.run(["random:2"], ["iips"], seeds=2)
    two = bench.run(["random:2"], ["iips"], seeds=2, jobs=2)
    np.testing.assert_array_equal(one.rows["value"], two.rows["value"])
    later = bench.run(["random:2"], ["iips"], seeds=[1])
    assert set(later.rows["value"]) <= set(one.rows["value"])


def test_an_estimator_that_refuses_has_no_value():
    found = bench.run("clicks:1", ["ips", "order-2"], seeds=1)
    values = dict(zip(found.rows["estimator"], found.rows["value"], strict=True))
    assert np.isfinite(values["ips"]) and np.isnan(values["order-2"])
    assert np.isnan(found.table.set_index("estimator").loc["order-2", "mse"])


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("nowhere", "is no population"),
        ("groups:many", "is no population"),
        ([], "at least"),
    ],
)
def test_what_is_no_world_is_refused(where, told):
    with pytest.raises(ConfigError, match=told):
        bench.run(where, ["ips"], seeds=1)


def test_methods_by_name_path_and_object():
    own = cr.IPS(name="own")
    given = ["aips (pasif)", "aips (truth)", "aips-pairs", "order-3", own, "counterrank:IIPS"]
    names = [*given[:4], "own", "iips"]
    assert [method.name for method in bench.methods(given)] == names
    (mine,) = bench.methods({"mine": own})
    assert (mine.name, mine.estimator) == ("mine", own)


def test_groups_of_users_are_equal_parts_of_the_first_column():
    env = random(5, K=4, actions=3, groups=True)
    drawn = env.draw(3000, np.random.default_rng(0))
    order = np.argsort(drawn.context[:, 0])
    assert (np.diff(drawn.behavior[order]) >= 0).all()
    assert np.bincount(drawn.behavior).min() > 400  # 500 expected: -5 standard deviations
    # What is told to be true is what the target earns on rows of its own: 4 standard errors.
    shown = env.draw(20_000, np.random.default_rng(1), policy="target").reward.sum(axis=1)
    assert abs(shown.mean() - true_value(env).value) < 4 * shown.std() / np.sqrt(len(shown))
