"""A past A/B test in several metrics: each arm predicted from each other, metric by metric."""

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank.evaluation import Validation


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(2)
    n = 3000
    dist = {"a": np.array([0.5, 0.3, 0.2]), "b": np.array([0.2, 0.3, 0.5])}
    arm = np.repeat(["a", "b"], n // 2)
    action = np.array([[rng.choice(3, p=dist[one]) for _ in range(2)] for one in arm])
    clicks = (rng.random((n, 2)) < np.array([0.2, 0.4, 0.6])[action]).astype(float)
    probs = {name: p[action] for name, p in dist.items()}
    served = np.where((arm == "a")[:, None], probs["a"], probs["b"])
    return cr.RankingLog(
        action=action,
        reward={"clicks": clicks, "revenue": clicks * np.array([3.0, 2.0, 1.0])[action]},
        propensity=served,
        targets={name: cr.Propensity("factored", p) for name, p in probs.items()},
        columns={"arm": arm},
    )


def test_every_metric_is_validated_as_if_alone(log):
    asked = {"any": "any(clicks)", "per click": "revenue / clicks"}
    found = cr.validate(log, "arm", estimators="ips", rewards=asked, primary="clicks")
    assert [one.name for one in found.metrics] == ["clicks", "revenue", "any", "per click"]
    assert found.name == "clicks"
    by_name = {one.name: one for one in found.metrics}
    for name in ("clicks", "revenue"):
        alone = cr.RankingLog(
            action=log.action,
            reward=log.rewards[name],
            propensity=log.propensity,
            targets=log.targets,
            columns=log.columns,
        )
        single = cr.validate(alone, "arm", estimators="ips")
        for mine, theirs in zip(by_name[name].pairs, single.pairs, strict=True):
            assert mine.predicted == pytest.approx(theirs.predicted, rel=1e-12)
            assert mine.earned == theirs.earned
        assert by_name[name].agreement.bias_low == pytest.approx(single.agreement.bias_low)
    rows = log.columns["arm"] == "b"
    total = {name: log.rewards[name][rows].sum() for name in ("clicks", "revenue")}
    assert by_name["per click"].pairs[0].earned == pytest.approx(total["revenue"] / total["clicks"])


def test_all_metrics_are_written_printed_and_read_back(log):
    found = cr.validate(log, "arm", estimators="ips", rewards={"any": "any(clicks)"})
    written = json.loads(found.to_json())
    assert [one["name"] for one in written["metrics"]] == ["clicks", "revenue", "any"]
    assert written["pairs"] == written["metrics"][0]["pairs"]
    assert Validation.from_dict(written).metrics[2].name == "any"
    page = found.to_html()
    for name in ("clicks", "revenue", "any"):
        assert name in page
