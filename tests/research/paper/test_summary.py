"""Errors, the toy table and the A/B protocol, against small cases worked by hand."""

import numpy as np
import pytest

from counterrank.research.paper import figures, special
from counterrank.research.paper.results import (
    accuracy_table,
    published,
    published_table,
    summarise,
)
from counterrank.research.paper.times import published_seconds, runtime_table


def rows(values, truth):
    count = len(values)
    return {
        "seed": np.arange(count),
        "x": np.zeros(count),
        "estimator": np.array(["ips"] * count),
        "value": np.array(values, dtype=float),
        "truth": np.array(truth, dtype=float),
        "low": np.array(values, dtype=float) - 1,
        "high": np.array(values, dtype=float) + 1,
        "seconds": np.ones(count),
    }


def test_mse_is_squared_bias_plus_variance():
    (found,) = summarise(rows([3.0, 5.0], [2.0, 2.0]), common_truth=True)
    # errors 1 and 3 over V = 2: relative 0.5 and 1.5
    assert found.metrics == pytest.approx({"mse": 1.25, "squared_bias": 1.0, "variance": 0.25})
    assert found.coverage == 0.5


def test_the_value_is_a_mean_over_seeds_however_many_estimators_ran():
    """Seed 1 has a second estimator: V stays the mean of 2 and 4, and IPS's errors what they were."""
    alone = rows([3.0, 5.0], [2.0, 4.0])
    also = {name: np.append(values, values[1]) for name, values in alone.items()}
    also["estimator"] = np.array(["ips", "ips", "auto"])
    (before,) = summarise(alone, common_truth=True)
    after = summarise(also, common_truth=True)[0]
    assert (
        before.metrics
        == after.metrics
        == pytest.approx({"mse": 2 / 9, "squared_bias": 1 / 9, "variance": 1 / 9})
    )


def test_with_worlds_of_their_own_errors_are_relative_to_each():
    (found,) = summarise(rows([3.0, 8.0], [2.0, 4.0]), common_truth=False)
    assert found.metrics["mse"] == pytest.approx((0.5**2 + 1.0**2) / 2)


def test_toy_table_has_the_printed_numbers():
    true, wrong = special.toy_rows()
    assert true["bias"] == pytest.approx(0.0, abs=1e-12)
    assert (true["variance"], true["mse"]) == pytest.approx((0.5, 0.5))
    assert abs(wrong["bias"]) == pytest.approx(0.1)
    assert (wrong["variance"], wrong["mse"]) == pytest.approx((0.3, 0.31))
    world = special.solve()
    assert 0.5 < world.p < 1


def test_toy_enumeration_against_simulation():
    world = special.solve()
    rng = np.random.default_rng(4)
    a = rng.integers(0, 2, size=(400_000, 2))
    target = np.array([1 - world.p, world.p])
    r = world.mu + world.delta * a[:, 1] + world.sigma * rng.normal(size=len(a))
    for both in (True, False):
        w = 2 * target[a[:, 0]] * (2 * target[a[:, 1]] if both else 1)
        bias, variance = special.bias_and_variance(world, both=both)
        value = world.mu + world.delta * world.p
        error = np.std(w * r) / np.sqrt(len(a))
        # |z| < 5: false alarm 6e-7
        assert abs((w * r).mean() - value - bias) < 5 * error
        assert np.var(w * r) / world.n == pytest.approx(variance, rel=0.05)


def test_published_values_are_found_where_they_exist():
    assert published("slate-size", "mse", "ips", 14) == 0.959
    assert published("slate-size", "variance", "ips", 5) is None
    assert published("epsilon", "mse", "ips", 0.0) is None
    assert published_seconds("n", "aips", 8000) == (167.2, 2.556)
    assert published_seconds("K", "aips", 8000) is None


def test_run_times_are_means_with_deviations_beside_the_published():
    """Two seeds of .1 and .3 s, each after .1 s of drawing: mean .3 with the data, deviation .1414."""
    seconds = np.array([0.1, 0.3, 1.1, 1.3])
    found = {
        "x": np.full(4, 4.0),
        "estimator": np.array(["ips", "ips", "aips (oracle)", "aips (oracle)"]),
        "seconds": seconds,
        "drawing": np.full(4, 0.1),
    }
    table = runtime_table(figures.get("runtime-slate-size"), found, compare=True)
    assert "| ips | 0.3000 (± 0.1414) |\n| published ips | 2.313 (± 0.021) |" in table
    assert "| relative | 4.33 |\n| published relative | 29.78 |" in table  # 1.3 / .3
    assert "| ips | 0.2000 (± 0.1414) |" in table.partition("the estimate alone")[2]
    ours = runtime_table(figures.get("runtime-slate-size"), found, compare=False)
    assert "published" not in ours and "relative" in ours


def test_the_published_relative_row_is_that_of_its_means():
    table = published_table()["runtime"]
    for part in table.values():
        for ips, aips, relative in zip(part["ips"], part["aips"], part["relative"], strict=True):
            # As printed it may be the mean of ratios: up to .2 % off the ratio of means.
            assert aips[0] / ips[0] == pytest.approx(relative, rel=0.003)


def test_cvar_of_everything_is_the_mean():
    errors = np.random.default_rng(0).random(100)
    assert special.cvar(errors, 1.0) == pytest.approx(errors.mean())
    assert special.cvar(errors, 0.01) == errors.max()


def test_a_bootstrap_trial_judges_by_the_other_log():
    log_a, value_b, target = special.ab_pair()
    assert (log_a.n, log_a.K, target) == (1979, 6, "new")
    found = special.ab_trial(log_a, value_b, target, ("ips", "iips"), seed=0)
    assert [row["estimator"] for row in found] == ["ips", "iips"]
    for row in found:
        assert row["error"] == pytest.approx((row["value"] - value_b) ** 2)
    assert found != special.ab_trial(log_a, value_b, target, ("ips", "iips"), seed=1)


def test_published_values_stand_beside_ours_only_in_the_published_world():
    found = summarise(
        {**rows([3.0, 5.0], [2.0, 2.0]), "x": np.array([1000.0, 1000.0])}, common_truth=True
    )
    experiment = figures.get("data-size")
    assert "1.25 (1.18, x1.06)" in accuracy_table(experiment, found, compare=True)
    assert "(" not in accuracy_table(experiment, found, compare=False)
    of_seeds = {**rows([3.0, 5.0], [2.0, 2.0]), "x": np.full(2, found[0].x)}
    assert "1.25 (1.18, x1.06)" in special.figure_table(experiment, of_seeds, "published")
    assert "(" not in special.figure_table(experiment, of_seeds, "paper")
