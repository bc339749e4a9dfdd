"""A single ranking, or a single user, shows no spread: every estimator gives a value, a flag, and
no interval.
"""

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators import registry
from counterrank.estimators.base import Estimate
from counterrank.estimators.weights.diagnostics import one_unit

# The reward model's fits without a single ranking's own fold average no rows; the value stays
# finite.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Mean of empty slice:RuntimeWarning",
    "ignore:invalid value encountered in scalar divide:RuntimeWarning",
)


def log_of(n: int, *, units: int | None = None, seed: int = 0) -> cr.RankingLog:
    rng = np.random.default_rng(seed)
    action = rng.integers(3, size=(n, 2))
    p0, p1 = np.full((n, 3), 1 / 3), np.tile([0.5, 0.3, 0.2], (n, 1))
    rows = np.arange(n)[:, None]
    return cr.RankingLog(
        action=action,
        reward=rng.random((n, 2)),
        propensity=p0[rows, action],
        unit=None if units is None else np.arange(n) % units,
        targets={"new": cr.Propensity("factored", p1[rows, action])},
        dists={"propensity": p0, "new": p1},
        columns={"rare": ["yes"] + ["no"] * (n - 1)},
    )


#: They ask for the rankings a target would show, or for chances at other positions.
NEED_SCORES = ("pbm", "click-model")
LOGS = {"one ranking": log_of(1), "one user": log_of(7, units=1)}


def without_spread(found: Estimate) -> bool:
    lift = found.lift
    numbers = [
        found.stderr,
        found.low,
        found.high,
        *found.interval(0.5),
        lift.stderr,
        lift.low,
        lift.high,
    ]
    numbers += [lift.relative_low, lift.relative_high]
    numbers += [position.stderr for position in (*found.by_position, *lift.by_position)]
    return bool(np.isnan(numbers).all())


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
@pytest.mark.parametrize("name", [name for name in registry.names() if name not in NEED_SCORES])
def test_a_value_and_no_interval(name, log):
    found = registry.get(name).estimate(log, "new")
    assert np.isfinite([found.value, found.lift.value, found.lift.relative]).all()
    assert without_spread(found)
    assert found.flags.count(one_unit()) == 1
    assert "no interval" in str(found)


@pytest.mark.parametrize("log", [log_of(2), log_of(7, units=2)], ids=["two rankings", "two users"])
@pytest.mark.parametrize("name", ["ips", "snrips", "auto"])
def test_two_have_an_interval(name, log):
    found = registry.get(name).estimate(log, "new")
    assert one_unit() not in found.flags and found.low < found.high and found.stderr > 0


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
@pytest.mark.parametrize(
    "names", [["auto"], ["ips"], ["snips", "order-2", "dr-rips"]], ids=",".join
)
def test_an_evaluation_says_so_everywhere(names, log, tmp_path):
    result = cr.evaluate(log, estimators=names, audit=False)
    content = json.loads(result.to_json())
    for row in (*content["estimates"], *content["lift"]):
        assert row["value"] is not None and row["stderr"] is row["low"] is row["high"] is None
    for row in content["estimates"]:
        assert one_unit() in row["flags"] and '"stderr": 0' not in json.dumps(row)
    assert content["log"]["stderr"] is None and content["verdict"]["level"] == "insufficient"
    plan = content["planning"]["new"]
    assert plan["detectable_lift"] is None and plan["rows_for"] == [] and plan["ab_rows"] is None
    assert not [
        row
        for row in content["verdict"]["reasons"]
        if row["code"] == "mean-weight" and row["remedies"]
    ]
    result.to_html(tmp_path / "report.html")
    for text in (str(result), (tmp_path / "report.html").read_text()):
        assert "these rows give no interval" in " ".join(text.split())


@pytest.mark.parametrize("name", ["auto", "ips"])
def test_a_segment_of_one_ranking_is_no_evidence(name):
    content = json.loads(
        cr.evaluate(log_of(300), estimators=[name], segments=["rare"], audit=False).to_json()
    )
    alone = next(row for row in content["segments"] if row["label"] == "yes")
    assert (
        alone["n"] == 1
        and alone["stderr"] is None
        and alone["low"] is None
        and one_unit() in alone["flags"]
    )
    assert (
        alone["lift"]["adjusted_low"] is None
        and alone["lift"]["p_value"] == alone["lift"]["q_value"] == 1.0
    )


def test_two_targets_of_one_ranking_cannot_be_told_apart():
    log = log_of(1).with_targets({"other": [[0.1, 0.1]]})
    (row,) = json.loads(cr.evaluate(log, estimators=["ips"], audit=False).to_json())["comparisons"]
    assert row["stderr"] is row["low"] is row["high"] is None and row["p_value"] == 1.0
