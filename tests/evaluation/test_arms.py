"""Arms predicted from each other: pairs, coverage, the variance of the mean error, and a bias that
is found.
"""

import json
import math

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError, PropensityError
from counterrank.evaluation.arms import Pair
from counterrank.statistics import Number, critical_value

POLICIES = {"control": np.array([0.5, 0.3, 0.2]), "bold": np.array([0.2, 0.3, 0.5])}
#: Expected reward of an item at any position.
RELEVANCE = np.array([0.2, 0.5, 0.6])


def history(seed: int, n: int = 400, shift: float = 0.0, policies=POLICIES) -> cr.RankingLog:
    """Rows of every arm; `shift` is earned by `bold` for a reason that no log of rankings shows."""
    rng = np.random.default_rng(seed)
    names = list(policies)
    arm = rng.choice(names, n * len(names))
    table = np.stack([policies[name] for name in names])
    own = table[[names.index(name) for name in arm]]
    action = (rng.random((len(arm), 2, 1)) > own.cumsum(axis=1)[:, None, :]).sum(axis=2)
    reward = (
        rng.random(action.shape) < RELEVANCE[action] + shift * (arm == "bold")[:, None]
    ).astype(float)
    targets = {name: table[index][action] for index, name in enumerate(names)}
    return cr.RankingLog(
        action=action,
        reward=reward,
        propensity=np.take_along_axis(own, action, axis=1),
        targets={name: cr.Propensity("factored", values) for name, values in targets.items()},
        columns={"arm": arm},
    )


def test_every_arm_is_predicted_from_each_other_and_held_against_what_it_earned():
    log = history(1)
    result = cr.validate(log, "arm", estimators="iips")
    assert [(pair.source, pair.to) for pair in result.pairs] == [
        ("bold", "control"),
        ("control", "bold"),
    ]
    for pair in result.pairs:
        own = log.where(log.columns["arm"] == pair.source)
        alone = cr.IIPS().estimate(own, pair.to)
        assert pair.predicted == pytest.approx(alone.value, rel=1e-12)
        totals = log.reward[log.columns["arm"] == pair.to].sum(axis=1)
        assert pair.earned == pytest.approx(totals.mean(), rel=1e-12)
        assert pair.earned_stderr == pytest.approx(
            totals.std(ddof=1) / math.sqrt(len(totals)), rel=1e-12
        )
    assert "intervals contained" in result._repr_html_() and "sandbox=" in result._repr_html_()
    found = result.to_dict()
    assert found["schema"] == "counterrank/validation/1"
    assert set(found["pairs"][0]) >= {
        "from",
        "to",
        "predicted",
        "low",
        "high",
        "earned",
        "earned_stderr",
        "covered",
    }
    assert found["summary"]["bias"] == pytest.approx(
        np.mean([pair.predicted - pair.earned for pair in result.pairs])
    )
    assert json.loads(result.to_json()) == found


def z_of(found):
    half = (found.bias_high - found.bias_low) / 2
    return found.bias / (half / critical_value(found.level))


@pytest.mark.slow
def test_the_variance_of_the_mean_error_is_that_of_repeated_histories():
    """z = bias / se over 80 histories without bias: mean and variance of a standard normal.

    |mean| < 4.5 / sqrt(80) and the chi-square of 80 inside its 1e-5 tails: false alarms below 3e-5.
    """
    z = np.array(
        [z_of(cr.validate(history(seed), "arm", estimators="ips").agreement) for seed in range(80)]
    )
    assert abs(z.mean()) < 4.5 / math.sqrt(80)
    assert 35 < (z**2).sum() < 145


@pytest.mark.slow
def test_three_arms_share_rows_and_their_covariance_counts():
    """The same with three arms, two of which nearly agree: their predictions from one arm's rows
    move together.
    """
    three = {**POLICIES, "bolder": np.array([0.18, 0.3, 0.52])}
    z = np.array(
        [
            z_of(cr.validate(history(seed, policies=three), "arm", estimators="ips").agreement)
            for seed in range(60)
        ]
    )
    assert 22 < (z**2).sum() < 120


def test_a_constant_bias_is_found():
    found = cr.validate(history(3, n=3000, shift=0.08), "arm", estimators="iips")
    by = {pair.to: pair.predicted - pair.earned for pair in found.pairs}
    assert by["bold"] < 0 < by["control"]  # what helps one arm hurts its prediction of the other
    biased = history(4, n=3000)
    object.__setattr__(
        biased, "propensity", cr.Propensity("factored", biased.propensity.values * 0.9)
    )
    summary = cr.validate(biased, "arm", estimators="iips").agreement
    assert summary["bias_low"] > 0
    assert cr.validate(history(4, n=3000), "arm", estimators="iips").agreement["bias_low"] < 0


def test_an_outcome_that_is_noisy_widens_what_counts_as_held():
    log = history(5)
    estimate = cr.IIPS().estimate(log.where(log.columns["arm"] == "bold"), "control")
    low, high = estimate.interval()
    outside = high + 0.5 * (high - low)
    exact = Pair.compared("bold", estimate, Number(outside, 0.0), 1.0, "reliable")
    noisy = Pair.compared("bold", estimate, Number(outside, high - low), 1.0, "reliable")
    assert exact.covered is False and noisy.covered is True


def test_units_count_in_what_was_earned():
    log = history(6)
    four = np.repeat(np.arange(log.n), 4)
    whole = log.take(four)
    repeated = cr.RankingLog(
        action=whole.action,
        reward=whole.reward,
        propensity=whole.propensity,
        targets=whole.targets,
        columns=whole.columns,
        unit=four,
    )
    once, often = (cr.validate(one, "arm", estimators="iips") for one in (log, repeated))
    for a, b in zip(once.pairs, often.pairs, strict=True):
        assert b.earned_stderr == pytest.approx(a.earned_stderr, rel=0.2)  # 1,024 buckets of units


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"arm": np.full(800, "one")}, LogError, "one value"),
        ({"arm": np.arange(800).astype(str)}, LogError, "is it the arm"),
        ({"arm": np.repeat(["control", "other"], 400)}, LogError, "no target of its name"),
        ({"arm": np.array(["control"] * 790 + ["bold"] * 10)}, LogError, "served 10 rows"),
        ({"variant": np.full(800, "one")}, ConfigError, "no column 'arm'"),
    ],
)
def test_a_log_that_is_no_test_of_arms_is_refused(change, error, message):
    log = history(7)
    object.__setattr__(log, "columns", change)
    with pytest.raises(error, match=message):
        cr.validate(log, "arm", estimators="iips")


def test_from_a_file_by_the_command_line(tmp_path, monkeypatch, capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from counterrank.cli.main import main

    log = history(8)
    columns = {name: values.values.tolist() for name, values in log.targets.items()}
    pq.write_table(
        pa.table({"action": log.action.tolist(), "reward": log.reward.tolist(),
                  "propensity": log.propensity.values.tolist(), "variant": log.columns["arm"], **columns}),
        tmp_path / "ab.parquet",
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    arguments = [
        "validate",
        "ab.parquet",
        "--arm",
        "variant",
        "--estimators",
        "iips",
        "--json",
        "v.json",
    ]
    main.main([*arguments, "--html", "v.html"], standalone_mode=False)
    found = json.loads((tmp_path / "v.json").read_text())
    assert found == cr.validate(log, "arm", estimators="iips").to_dict()
    shown = capsys.readouterr().out
    assert "Predicted and earned" in (tmp_path / "v.html").read_text()
    assert "intervals contained" in shown
    # Each pair is a line with what was earned below it, as the summary counts them.
    contained = sum(pair["covered"] is True for pair in found["pairs"])
    assert shown.count("✓ Contained") == contained and shown.count("earned ") == len(found["pairs"])


def test_the_column_of_the_serving_arm_says_how_its_rows_were_made(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    log, path = history(8), tmp_path / "ab.parquet"
    columns = {name: values.values.tolist() for name, values in log.targets.items()}
    table = {
        "action": log.action.tolist(),
        "reward": log.reward.tolist(),
        "arm": log.columns["arm"],
    }
    pq.write_table(pa.table({**table, **columns}), path)
    result = cr.validate(path, "arm", estimators="iips")
    assert result.to_dict() == cr.validate(log, "arm", estimators="iips").to_dict()
    shown = np.array(columns["bold"])
    shown[:, 0] = np.where(log.columns["arm"] == "bold", 0.0, shown[:, 0])
    pq.write_table(pa.table({**table, **columns, "bold": shown.tolist()}), path)
    with pytest.raises(PropensityError, match="'bold' is 0 at row .*, yet this item was shown"):
        cr.validate(path, "arm", estimators="iips")


def test_a_missing_column_of_arms_is_called_that(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("action_1,reward_1,propensity_1,new_1\na,1,0.5,0.5\n")
    with pytest.raises(LogError, match="there is no column 'WRONG' for the arm"):
        cr.validate(path, "WRONG")


def test_a_missing_baseline_is_called_that(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("action_1,reward_1,propensity_1,new_1\na,1,0.5,0.5\n")
    with pytest.raises(LogError, match="no column 'nope' for the baseline nope"):
        cr.evaluate(path, "new", baseline="nope")
    with pytest.raises(LogError, match="for the baseline new1 .did you mean 'new_1'"):
        cr.evaluate(path, "new", baseline="new1")
