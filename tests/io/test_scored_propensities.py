"""A log with both the scores of its logger and the probabilities that they gave."""

import pyarrow as pa

import counterrank as cr


def test_logged_probabilities_beside_scores_are_no_target():
    n = 6
    table = pa.table(
        {
            "action": [[0, 1], [1, 0]] * (n // 2),
            "reward": [[1.0, 0.0], [0.0, 1.0]] * (n // 2),
            "propensity": [[0.5, 1.0]] * n,
            "new": [[0.25, 1.0]] * n,
            "candidates": [[0, 1]] * n,
            "propensity_scores": [[0.0, 0.0]] * n,
        }
    )
    log = cr.RankingLog.from_frame(table, logger="plackett-luce")
    assert list(log.targets) == ["new"]
    assert isinstance(log.propensity, cr.Policy)
