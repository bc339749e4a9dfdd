"""Any scikit-learn regressor as a reward model: cross-fitted on a sample of rows, averaged over drawn rankings."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank import boosting
from counterrank.data.encoding import context_columns
from counterrank.data.log import RankingLog
from counterrank.data.source import Source
from counterrank.errors import EstimatorError, require
from counterrank.models.base import Prediction
from counterrank.models.draws import Stream, stream, target_draws
from counterrank.models.settings import DRAWS, LEARNER_FOLDS, LEARNER_ROWS
from counterrank.progress import reporter
from counterrank.records import Json

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LearnedModel:
    """Regressors by fold and position on [x, own action, one-hot or counts of the others].

    E_pi is an average over `draws` drawn rankings per row. Rows of fold f are predicted by models
    trained without it.
    """

    models: tuple[tuple[Any, ...], ...]
    n_actions: int
    seed: int
    draws: int = DRAWS
    details: Json = field(default_factory=dict)

    def predict(self, batch: RankingLog, target: str) -> Prediction:
        """Return q and the drawn mean of q under the target."""
        x = context_columns(batch)
        drawn = target_draws(batch, target, self.draws, self.seed)
        q, mean = np.empty(batch.action.shape), np.empty(batch.action.shape)
        # A call of a regressor costs the same for one row and for a thousand: all draws of some
        # rows at a time.
        width = (self.draws + 1) * (x.shape[1] + 3 * self.n_actions)
        with boosting.threads_for(batch.n * self.draws):
            for rows in blocks(batch.n, max(1, _NUMBERS // width)):
                pages = np.concatenate([batch.action[rows][:, None], drawn[rows]], axis=1)
                n, each, K = pages.shape
                found = self._values(
                    np.repeat(x[rows], each, axis=0),
                    pages.reshape(n * each, K),
                    np.repeat(batch.bucket[rows], each),
                    np.repeat(batch.lengths[rows], each),
                ).reshape(pages.shape)
                q[rows], mean[rows] = found[:, 0], found[:, 1:].mean(axis=1)
        return Prediction(q, mean)

    def _values(self, x: Floats, action: Ints, bucket: Ints, lengths: Ints) -> Floats:
        out = np.zeros(action.shape)
        fold = bucket % len(self.models)
        for f, by_position in enumerate(self.models):
            for k, model in enumerate(by_position):
                rows = np.flatnonzero((fold == f) & (lengths > k))
                if len(rows):
                    out[rows, k] = model.predict(features(x[rows], action[rows], k, self.n_actions))
        return out


#: Numbers in the columns that are made at a time.
_NUMBERS = 8_000_000


def blocks(n: int, size: int) -> Iterator[slice]:
    """Yield stretches of at most `size` of n rows."""
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


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
    given = boosting.regressor(seed) if isinstance(model, str) and model == "boosting" else model
    if not (hasattr(given, "fit") and hasattr(given, "predict")):
        raise EstimatorError(
            f"model is {model!r}; use 'ridge', 'linear', 'boosting', or an object with fit(X, y) "
            "and predict(X)"
        )
    log = source.sample(LEARNER_ROWS, stream(seed, Stream.LEARNER_ROWS))
    # Any regressor costs F x K fits, so two folds and a sample, whatever the log's length.
    x, A = context_columns(log), log.n_actions
    fold = log.bucket % LEARNER_FOLDS
    told = reporter()
    told.begin("fitting the reward model", LEARNER_FOLDS * log.K)
    fitted = []
    with boosting.threads_for(log.n):
        for f in range(LEARNER_FOLDS):
            by_position = []
            for k in range(log.K):
                rows = np.flatnonzero((fold != f) & (log.lengths > k))
                by_position.append(
                    base.clone(given).fit(
                        features(x[rows], log.action[rows], k, A), log.reward[rows, k]
                    )
                )
                told.advance(1)
            fitted.append(tuple(by_position))
    details = {
        "model": type(given).__name__,
        "folds": LEARNER_FOLDS,
        "training_rows": log.n,
        "mean_under_target": f"average over {DRAWS} drawn rankings per row",
    }
    return LearnedModel(tuple(fitted), A, seed, details=details)
