"""Whole evaluations of logs at the edge: a right answer or a clear error, valid JSON and a report
either way.
"""

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank.report.document import AxisScale


def columns(n=200, K=3, A=4, **other):
    rng = np.random.default_rng(0)
    given = {
        "action": rng.integers(0, A, (n, K)),
        "reward": rng.random((n, K)),
        "propensity": np.full((n, K), 1 / A),
        "context": rng.normal(size=(n, 2)),
        "targets": {"new": rng.uniform(0.1, 0.4, (n, K))},
    }
    return given | other


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def evaluated(tmp_path, given, **options):
    """Evaluate, write both files, and return the JSON, in which no NaN or infinity may stand."""
    result = cr.evaluate(cr.RankingLog(**given), ["new"], **options)
    result.to_json(tmp_path / "r.json")
    result.to_html(tmp_path / "r.html")
    assert str(result)
    return json.loads((tmp_path / "r.json").read_text(), parse_constant=refuse)


def value(result, name):
    return next(e["value"] for e in result["estimates"] if e["estimator"] == name)


def test_very_long_rankings(tmp_path):
    rng = np.random.default_rng(1)
    p0, p1 = (rng.uniform(0.3, 1, (150, 200)) for _ in range(2))
    given = columns(n=150, K=200, propensity=p0, targets={"new": p1})
    found = evaluated(tmp_path, given, estimators=["iips", "order-2", "ips"])
    expected = (p1 / p0 * given["reward"]).sum(axis=1).mean()
    assert value(found, "iips") == pytest.approx(expected, rel=1e-10)
    assert found["verdict"]["level"] == "insufficient"


def test_a_million_actions(tmp_path):
    rng = np.random.default_rng(2)
    action = rng.integers(0, 10**6, (400, 3))
    even, twice = np.full((400, 3), 1e-6), np.full((400, 3), 2e-6)
    given = columns(n=400, action=action, propensity=even, targets={"new": twice})
    found = evaluated(tmp_path, given)
    assert value(found, "iips") == pytest.approx(2 * given["reward"].sum(axis=1).mean(), rel=1e-10)


def test_a_million_actions_as_policies(tmp_path):
    rng = np.random.default_rng(3)
    scores = np.zeros((1, 10**6))
    scores[0, :10] = np.log(5.0)
    action = np.where(
        rng.random((60, 3)) < 0.5, rng.integers(0, 10, (60, 3)), rng.integers(10, 10**6, (60, 3))
    )
    policies = {"propensity": cr.Uniform(10**6), "targets": {"new": cr.Softmax(scores)}}
    given = columns(n=60, action=action, **policies)
    # IPS is named too, and recommended: the value of IIPS is more than these rewards allow, and
    # would be withheld.
    found = evaluated(tmp_path, given, estimators=["iips", "ips"])
    weight = np.where(action < 10, 5.0, 1.0) * 1e6 / (1e6 + 40)
    assert value(found, "iips") == pytest.approx(
        (weight * given["reward"]).sum(axis=1).mean(), rel=1e-9
    )


@pytest.mark.parametrize("n", [1, 2])
def test_hardly_any_rows(tmp_path, n):
    given = columns(n=n)
    found = evaluated(tmp_path, given, estimators=["ips", "snips", "all"])
    weight = (given["targets"]["new"] / given["propensity"]).prod(axis=1)
    assert value(found, "ips") == pytest.approx((weight * given["reward"].sum(axis=1)).mean())
    assert found["verdict"]["level"] == "insufficient"


@pytest.mark.parametrize("constant", [0.0, 1.0, -3.0])
def test_constant_rewards(tmp_path, constant):
    found = evaluated(
        tmp_path, columns(reward=np.full((200, 3), constant)), estimators=["snips", "cv-ips", "all"]
    )
    # Normalised weights of a constant give the constant; a regression on weights knows it without
    # error.
    for name in ("snips", "sniips", "snrips", "cv-ips"):
        assert value(found, name) == pytest.approx(3 * constant, abs=1e-9)


def test_a_target_that_shows_nothing_of_the_log(tmp_path):
    found = evaluated(tmp_path, columns(targets={"new": np.zeros((200, 3))}))
    assert value(found, "ips") is None and found["verdict"]["level"] == "insufficient"


@pytest.mark.parametrize("rows", [slice(None), slice(0, 1)])
@pytest.mark.parametrize("tiny", [1e-300, 1e-160, 1e-90])
def test_vanishing_propensities(tmp_path, rows, tiny):
    propensity = np.full((200, 3), 0.25)
    propensity[rows] = tiny
    try:
        found = evaluated(tmp_path, columns(propensity=propensity))
    except cr.CounterrankError as problem:
        # Below 1e-100 a number is refused where it stands; above, products of it may be too large.
        assert (
            ("row 0, position 1" in str(problem))
            if tiny < 1e-100
            else ("propensities near zero" in str(problem))
        )
    else:
        assert tiny > 1e-100 and found["verdict"]["level"] == "insufficient"


def test_rewards_whose_squares_are_no_numbers(tmp_path):
    try:
        evaluated(tmp_path, columns(reward=np.full((200, 3), 1e200)))
    except cr.CounterrankError as problem:
        assert "overflow" in str(problem)


@pytest.mark.parametrize(
    "case",
    [{"K": 1}, {"A": 1, "propensity": np.full((200, 3), 0.9)}, {"action": np.zeros((200, 3), int)}],
)
def test_nothing_to_choose(tmp_path, case):
    given = columns(**case)
    found = evaluated(tmp_path, given)
    ratio = given["targets"]["new"] / given["propensity"]
    assert value(found, "iips") == pytest.approx((ratio * given["reward"]).sum(axis=1).mean())


def test_an_axis_without_length():
    assert AxisScale(1, 1).position(1) == 0.5 and AxisScale(1, 1).ticks() == [1]
