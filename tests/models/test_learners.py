"""A regressor of one's own as reward model: asked a few times, not once a draw."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.encoding import context_columns
from counterrank.data.source import MemorySource
from counterrank.models.learners import features, fit_learner
from counterrank.models.rankings import rankings_of, target_draws

pytest.importorskip("sklearn")


class Counting:
    """Least squares that counts how often it is asked."""

    asked = 0

    def __sklearn_clone__(self):
        return Counting()

    def fit(self, x, y):
        self.beta = np.linalg.lstsq(x, y, rcond=None)[0]
        return self

    def predict(self, x):
        Counting.asked += 1
        return x @ self.beta


def test_all_draws_of_some_rows_are_asked_at_once():
    """The naive twin asks once a draw; 64 s of 400 rankings went into the calls."""
    rng = np.random.default_rng(0)
    n, K, A = 120, 3, 4
    logger, target = (cr.Softmax(rng.normal(size=(n, A))) for _ in range(2))
    action = logger.sample(K, rng)[:, 0]
    action[::5, 2] = -1
    log = cr.RankingLog(
        action=action,
        reward=np.where(action >= 0, rng.random((n, K)), 0.0),
        propensity=logger,
        context=rng.normal(size=(n, 2)),
        targets={"new": target},
    )
    model = fit_learner(MemorySource(log), Counting())
    Counting.asked = 0
    fold = log.bucket % model.folds
    mean = model.mean_under(log, "new", fold)
    assert Counting.asked == 2 * K
    logged, drawn = rankings_of(log), target_draws(log, "new", model.draws, model.seed)
    draws = [model.expected(logged.others(drawn[:, s]), fold) for s in range(model.draws)]
    np.testing.assert_allclose(mean, np.mean(draws, axis=0), rtol=0, atol=1e-12)
    x, k = context_columns(log), 1
    own = features(x, log.action, k, A) @ np.stack([model.models[f][k].beta for f in fold]).T
    np.testing.assert_allclose(
        model.expected(logged, fold)[:, k], np.diagonal(own), rtol=0, atol=1e-12
    )
