"""Any scikit-learn regressor as a reward model: cross-fitted on a sample of rows, averaged over drawn rankings."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.boosting import regressor, threads_for
from counterrank.common.errors import EstimatorError, require
from counterrank.common.records import Json
from counterrank.data.encoding import context_columns
from counterrank.data.source import Source, reporter
from counterrank.models.base import Fold, RewardModel, by_row
from counterrank.models.rankings import Rankings, Stream, stream
from counterrank.models.settings import DRAWS, LEARNER_FOLDS, LEARNER_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class LearnedModel(RewardModel):
    """Regressors by fold and position on [x, own action, one-hot or counts of the others].

    E_pi is an average over `draws` drawn rankings per row. Rows of fold f are predicted by models
    trained without it.
    """

    models: tuple[tuple[Any, ...], ...]
    n_actions: int
    seed: int
    draws: int = DRAWS
    details: Json = field(default_factory=dict)

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.models)

    def expected(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return what the regressors predict for each slot (m, K)."""
        out, folds = np.zeros(rankings.item.shape), by_row(fold, self.folds, rankings.m)
        # A call of a regressor costs the same for one row and for a thousand: many rows at a time.
        size = max(1, _NUMBERS // (rankings.x.shape[1] + 3 * self.n_actions))
        with threads_for(rankings.m):
            for first in range(0, rankings.m, size):
                chunk = np.arange(first, min(first + size, rankings.m))
                for f, by_position in enumerate(self.models):
                    for k, model in enumerate(by_position):
                        rows = chunk[(folds[chunk] == f) & (rankings.lengths[chunk] > k)]
                        if len(rows):
                            x, action = rankings.x[rankings.row[rows]], rankings.item[rows]
                            out[rows, k] = model.predict(features(x, action, k, self.n_actions))
        return out


#: Numbers in the columns that are made at a time.
_NUMBERS = 8_000_000


def features(x: Floats, action: Ints, k: int, n_actions: int) -> Floats:
    """Return [x, one-hot own action, counts above, counts below] (n, d + 3A)."""
    A = n_actions
    eye = np.concatenate([np.eye(A), np.zeros((1, A))])  # the last row serves padding (-1)
    shown = eye[action]  # (n, K, A)
    return np.concatenate(
        [x, shown[:, k], shown[:, :k].sum(axis=1), shown[:, k + 1 :].sum(axis=1)], axis=1
    )


def fit_learner(source: Source, model: Any, *, seed: int = 0) -> LearnedModel:
    """Return the cross-fitted model: "boosting" is scikit-learn's histogram gradient boosting, or any regressor.

    The regressor is cloned for each fold and position; rewards of 0 and 1 are predicted as numbers.
    """
    base = require("sklearn.base", extra="models")
    template = regressor(seed) if isinstance(model, str) and model == "boosting" else model
    if not (hasattr(template, "fit") and hasattr(template, "predict")):
        raise EstimatorError(
            f"model is {model!r}; use 'ridge', 'linear', 'boosting', an object with fit(X, y) and "
            "predict(X), or a fitted counterrank.models.RewardModel"
        )
    log = source.sample(LEARNER_ROWS, stream(seed, Stream.LEARNER_ROWS))
    # Any regressor costs F x K fits, so two folds and a sample, whatever the log's length.
    x, A = context_columns(log), log.n_actions
    fold = log.bucket % LEARNER_FOLDS
    progress = reporter()
    progress.begin("fitting the reward model", LEARNER_FOLDS * log.K)
    fitted = []
    with threads_for(log.n):
        for f in range(LEARNER_FOLDS):
            by_position = []
            for k in range(log.K):
                rows = np.flatnonzero((fold != f) & (log.lengths > k))
                by_position.append(
                    base.clone(template).fit(
                        features(x[rows], log.action[rows], k, A), log.reward[rows, k]
                    )
                )
                progress.advance(1)
            fitted.append(tuple(by_position))
    details = {
        "model": type(template).__name__,
        "folds": LEARNER_FOLDS,
        "training_rows": log.n,
        "mean_under_target": f"average over {DRAWS} drawn rankings per row",
    }
    return LearnedModel(tuple(fitted), A, seed, details=details)
