"""Ratios of groups of items."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.base import View
from counterrank.estimators.marginal import Marginalised, group_ratios


def test_groups_in_rankings_that_end_early_and_groups_the_logger_never_shows():
    action = np.array([[0, -1], [1, 0]])
    p0, p1 = np.array([[0.5, 0.5, 0.0]] * 2), np.array([[0.2, 0.3, 0.5]] * 2)
    log = cr.RankingLog(
        action=action, reward=[[1.0, 0.0], [1.0, 2.0]], propensity=[[0.5, 1.0], [0.5, 0.5]],
        targets={"new": cr.Propensity("factored", [[0.2, 1.0], [0.3, 0.2]])}, dists={"propensity": p0, "new": p1},
    )  # fmt: skip
    ratios = group_ratios(View(log, "new"), np.array([0, 1, 2]))
    np.testing.assert_allclose(ratios.rho, [[0.4, 1.0], [0.6, 0.4]], rtol=1e-12)
    assert ratios.kind == "factored" and ratios.rho.flags.f_contiguous
    unseen = cr.RankingLog(
        action=[[0, 2]], reward=[[1.0, 1.0]], propensity=[[0.5, 0.5]],
        targets={"new": cr.Propensity("factored", [[0.2, 0.5]])}, dists={"propensity": p0[:1], "new": p1[:1]},
    )  # fmt: skip
    for known in ("propensity", "new"):
        half = cr.RankingLog(
            action=action, reward=np.ones((2, 2)), propensity=log.propensity, targets=log.targets,
            dists={known: log.dists[known]},
        )  # fmt: skip
        with pytest.raises(cr.CounterrankError, match="needs whole distributions"):
            Marginalised(groups=[0, 1, 2]).estimate(half, "new")
    # A group without any probability under the logger has no ratio: its weight is the target's
    # probability.
    np.testing.assert_allclose(
        group_ratios(View(unseen, "new"), np.array([0, 1, 2])).rho, [[0.4, 0.5]], rtol=1e-12
    )
