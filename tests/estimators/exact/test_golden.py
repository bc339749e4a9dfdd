"""Frozen numbers of a published data set, when they lie beside the repository."""

from pathlib import Path

import numpy as np
import pytest

import counterrank as cr

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden"
FILES = sorted(GOLDEN.glob("*.npz"))


@pytest.mark.skipif(not FILES, reason="the golden values are not part of the repository")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_weights_and_estimates_agree(path):
    data = np.load(path)
    log = cr.RankingLog(action=data["action"], reward=data["reward"], propensity=data["pi_b"])
    expected = dict(zip(data["est_names"].tolist(), data["est"].tolist(), strict=True))
    by_tree = data["candidates"].astype(bool)[
        data["assignment"].astype(int), np.arange(log.K)
    ]  # (n, K, K)
    estimators = {
        "IPS": cr.IPS(),
        "IIPS": cr.IIPS(),
        "RIPS": cr.RIPS(),
        "AIPS_true": cr.AIPS(behavior=data["true_structure"]),
        "AIPS_tree": cr.AIPS(behavior=by_tree),
    }
    for name, estimator in estimators.items():
        assert estimator.estimate(log, data["pi_e"]).value == pytest.approx(
            expected[name], rel=1e-9
        ), name
    for candidate, weights in zip(data["candidates"], data["weights"], strict=True):
        from counterrank.estimators.weights.ratios import ratios_of

        got = ratios_of(log.with_targets({"new": data["pi_e"]}), "new").masked(
            candidate.astype(bool)
        )
        np.testing.assert_allclose(got, weights, rtol=1e-9)
