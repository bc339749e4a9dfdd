"""RankingLog: what it accepts, what it refuses and in which words, how it is cut."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import LogError
from counterrank.policies.base import Policy

GOOD = {
    "action": [[0, 1, 2], [2, 1, -1], [1, -1, -1]],
    "reward": [[1, 0, 0.5], [0, 1, 0], [2, 0, 0]],
    "propensity": [[0.5, 0.2, 0.1], [0.3, 0.4, 0.9], [1.0, 0.1, 0.1]],
}


def changed(**changes):
    values = {
        name: np.array(value, dtype=float if name != "action" else int)
        for name, value in GOOD.items()
    }
    for name, (row, position, value) in changes.items():
        values[name] = values[name].astype(float)
        values[name][row, position] = value
    return values


def test_a_good_log():
    log = cr.RankingLog(**GOOD)
    assert (log.n, log.K, log.n_actions, log.lengths.tolist()) == (3, 3, 3, [3, 2, 1])
    assert log.value == pytest.approx((1.5 + 1 + 2) / 3)
    assert log.action.dtype == np.int64 and log.reward.dtype == np.float64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"action": (1, 0, -2)}, ["-2 at row 1, position 1", "-1 pads"]),
        (
            {"action": (1, 0, -1)},
            ["row 1 has an item after an empty position", "move padding to the end"],
        ),
        ({"action": (2, 0, -1)}, ["row 2 shows no item", "drop empty rankings"]),
        ({"action": (0, 1, 0.5)}, ["0.5 at row 0, position 2", "integers"]),
        ({"action": (0, 1, np.inf)}, ["inf at row 0, position 2"]),
        (
            {"reward": (0, 1, np.nan)},
            [
                "1 missing or infinite value ",
                "row 0, position 2, value nan",
                "--missing-reward zero",
            ],
        ),
        ({"reward": (1, 1, -np.inf)}, ["row 1, position 2, value -inf"]),
        ({"propensity": (0, 2, 0.0)}, ["0 at row 0, position 3", "yet this item was shown"]),
        ({"propensity": (0, 2, np.nan)}, ["missing (NaN) at row 0, position 3"]),
        ({"propensity": (1, 0, 1.5)}, ["1.5 at row 1, position 1, above 1"]),
        ({"propensity": (1, 0, -0.1)}, ["-0.1 at row 1, position 1", "lie in (0, 1]"]),
        ({"propensity": (1, 0, np.inf)}, ["inf at row 1, position 1, above 1"]),
    ],
)
def test_bad_values_name_row_position_value_and_remedy(change, words):
    with pytest.raises(cr.CounterrankError) as problem:
        cr.RankingLog(**changed(**change))
    assert isinstance(problem.value, ValueError)
    for word in words:
        assert word in str(problem.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"propensity": np.log(GOOD["propensity"])}, "log-probabilities"),
        (
            {"reward": [[1, 2], [1, 2], [1, 2]]},
            r"reward has shape \(3, 2\), but action has \(3, 3\)",
        ),
        ({"reward": [["a"] * 3] * 3}, "reward must hold numbers"),
        ({"propensity": [[0.5, 0.5]] * 3}, r"shape \(3, 2\), the log needs \(3, 3\)"),
        ({"action": [0, 1, 2]}, r"one row per ranking; got an array of shape \(3,\)"),
        ({"action": np.empty((0, 3))}, "the log is empty"),
        ({"action": [["x", "y", "z"]] * 3}, "action must hold integer ids"),
        ({"context": [[1.0], [2.0]]}, r"context must be \(3, d\)"),
        (
            {"context": [["DE"], ["FR"], ["DE"]]},
            "context holds something that is no number .*`categories`",
        ),
        ({"context": [[1.0], [np.inf], [0.0]]}, "context is inf at row 1, column 0"),
        ({"context": [[1.0]] * 3, "context_names": ("a", "b")}, "1 columns but 2 names"),
        ({"unit": [1, 2]}, "column 'unit' has shape"),
        ({"position_weights": [1.0, 2.0]}, "3 positions but 2 position weights"),
        ({"context": [[1.0], [1e308], [0.0]]}, r"context is 1e\+308 at row 1, column 0"),
        ({"position_weights": [1.0, -2.0, 0.0]}, "between 0 and"),
        ({"position_weights": [1.0, 1e308, 0.0]}, "between 0 and"),
        ({"propensity": cr.Softmax(np.zeros((3, 2)))}, "does not know .*0 to 1"),
        ({"targets": {"new": [[2.0, 0.1, 0.1]] * 3}}, "'new' is 2 at row 0, position 1"),
        ({"dists": {"new": [[0.5, 0.4]] * 3}}, "not a distribution at row 0: it sums to 0.9"),
        ({"dists": {"new": np.full((3, 2, 2), 0.5)}}, "must be"),
        ({"propensity": cr.Softmax(np.zeros((2, 3)))}, "2 rows, the log has 3"),
    ],
)
def test_bad_shapes_and_types(changes, words):
    with pytest.raises(cr.CounterrankError, match=words):
        cr.RankingLog(**{**GOOD, **changes})


def test_padding_may_hold_anything_and_rewards_there_are_zero():
    values = changed(reward=(2, 2, np.nan), propensity=(2, 1, 0.0))
    log = cr.RankingLog(**values)
    assert log.reward[2].tolist() == [2, 0, 0]
    assert np.isnan(values["reward"][2, 2])  # what was given stays as it was


def test_a_target_may_be_zero_where_the_logger_may_not():
    log = cr.RankingLog(**GOOD, targets={"new": np.zeros((3, 3))})
    found = cr.IPS().estimate(log, "new")
    assert not found.estimable and "probability 0" in found.not_estimable and np.isnan(found.value)
    with pytest.raises(cr.CounterrankError, match="no target policy 'old' in this log; known: new"):
        cr.IPS().estimate(log, "old")


def test_rows_know_where_they_stood():
    log = cr.RankingLog(
        **GOOD, unit=["a", "b", "a"], columns={"day": [1, 2, 3]}, context=[[0.0], [1.0], [2.0]]
    )
    part = log.take(slice(1, 3))
    assert (
        part.rows == slice(1, 3)
        and part.unit.tolist() == ["b", "a"]
        and part.columns["day"].tolist() == [2, 3]
    )
    picked = log.take(np.array([2, 0]))
    assert picked.rows.tolist() == [2, 0] and picked.context[:, 0].tolist() == [2.0, 0.0]
    assert picked.take(slice(1, 2)).rows.tolist() == [0]
    assert part.take(np.array([1])).rows.tolist() == [2]
    assert log.where([True, False, True]).rows == slice(0, 2)
    assert [chunk.rows for chunk in log.chunks(2)] == [slice(0, 2), slice(2, 3)]
    assert (np.concatenate([chunk.bucket for chunk in log.chunks(2)]) == log.bucket).all()


def test_buckets_follow_units():
    log = cr.RankingLog(**GOOD, unit=["a", "b", "a"])
    assert log.bucket[0] == log.bucket[2] != log.bucket[1]


def test_position_weights():
    log = cr.RankingLog(**GOOD).with_position_weights("dcg")
    assert log.position_weights == pytest.approx([1, 1 / np.log2(3), 0.5])
    assert log.value == pytest.approx((log.reward @ log.position_weights).mean())


def test_targets_are_checked_when_added():
    log = cr.RankingLog(**GOOD)
    with pytest.raises(cr.CounterrankError, match="missing"):
        log.with_targets({"new": np.full((3, 3), np.nan)})
    added = log.with_targets({"new": cr.Uniform(3)})
    assert isinstance(added.targets["new"], Policy) and not log.targets


def test_importing_the_package_stays_light():
    import subprocess
    import sys

    heavy = "numba,scipy,pyarrow,pandas,sklearn,plotly,polars,dask,pyspark"
    code = f"import sys, counterrank; print([m for m in '{heavy}'.split(',') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", [cr.Softmax, cr.PlackettLuce])
def test_scores_that_overflow_are_refused_where_they_are_given(kind):
    with pytest.raises(cr.CounterrankError, match=r"row 0: score -1e\+308 of action 1"):
        kind([[0.0, -1e308], [0.0, 0.0]])


def test_tables_with_names_that_nothing_reads_are_refused():
    half = np.full((4, 2), 0.5)
    given = {"action": [[0], [1]] * 2, "reward": [[1.0]] * 4, "propensity": half[:, :1]}
    dists = {"logging": half, "new": half}
    with pytest.raises(LogError, match="dists has 'logging'.*takes propensity, new"):
        cr.RankingLog(**given, targets={"new": half[:, :1]}, dists=dists)
    later = cr.RankingLog(**given, dists=dists)
    with pytest.raises(LogError, match="dists has 'logging'"):
        cr.evaluate(later, {"new": half[:, :1]}, estimators=["ips"])
    # Distributions of policies that are evaluated another time.
    several = cr.RankingLog(**given, dists={"propensity": half, "new": half, "old": half})
    assert set(several.with_targets({"new": half[:, :1]}).dists) == {"propensity", "new", "old"}
    with pytest.raises(LogError, match=r"categories has 'x_1'.*did you mean 'x_0'"):
        cr.RankingLog(**given, context=half[:, :1], categories={"x_1": ("a", "b")})


def test_columns_by_name_may_be_none():
    half = [[0.5, 0.5]] * 2
    lists = {"action": [[0, 1], [1, 0]], "reward": [[1, 0], [0, 1]], "propensity": half}
    log = cr.RankingLog(**lists, targets=None, dists=None, columns=None)
    assert (log.targets, log.dists, log.columns) == ({}, {}, {})
