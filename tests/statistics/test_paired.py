"""The difference of two targets on the same rows, against the influence values of the rows
themselves.
"""

import numpy as np
import pytest

import counterrank as cr

N, K = 900, 3


@pytest.mark.parametrize("name", ["ips", "snips", "sniips"])
def test_paired_difference(name):
    rng = np.random.default_rng(0)
    p0, reward = rng.uniform(0.3, 1, (N, K)), rng.random((N, K))
    targets = {"a": rng.random((N, K)), "b": rng.random((N, K))}
    log = cr.RankingLog(action=np.zeros((N, K), int), reward=reward, propensity=p0)
    (found,) = cr.evaluate(log, targets, estimators=[name]).to_dict()["comparisons"]

    def influence(target):
        rho = target / p0
        w = rho if name == "sniips" else np.repeat(rho.prod(1, keepdims=True), K, 1)
        y = w * reward
        return y.sum(1) if name == "ips" else ((y - y.mean(0) / w.mean(0) * w) / w.mean(0)).sum(1)

    apart = influence(targets["a"]) - influence(targets["b"])
    assert found["stderr"] == pytest.approx(apart.std(ddof=1) / np.sqrt(N), rel=1e-8)
    # Paired on purpose: two separate errors would add up to something else.
    separate = np.hypot(*(influence(t).std(ddof=1) for t in targets.values())) / np.sqrt(N)
    assert abs(found["stderr"] / separate - 1) > 0.01
