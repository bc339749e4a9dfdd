"""Gradient boosting on top of a fitted model: what bends with context, features and place, at any
catalogue size.

Trees read the first model's log odds of each item, so that item ids cost nothing, and what it does
not see: products of context, features and place. A row of fold g is always described by the model
that left g out, in training and after. Clicks are predicted given the last click, and marginalised
by the same recursion as the click-history model.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import require
from counterrank.models.clicks.amounts import fit_list_models
from counterrank.models.clicks.fit import checked
from counterrank.models.clicks.kernels.recursion import table_ahead, table_expected
from counterrank.models.clicks.model import rivalry
from counterrank.models.clicks.rankings import (
    ALL,
    History,
    Kind,
    ListModel,
    Rankings,
    Variant,
    by_row,
    plain_history,
)
from counterrank.models.clicks.settings import SETTINGS, STREAMS
from counterrank.models.learners import threads_for
from counterrank.records import Json

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rankings whose slots and states are predicted at once.
_CHUNK = 8_192


@dataclass(frozen=True, slots=True, eq=False)
class BoostedModel:
    """Trees by fold left out (the last: all rows) on the columns of `described`; `clicks` where
    rewards are 0 and 1.
    """

    first: ListModel
    trees: tuple[Any, ...]
    clicks: bool
    details: Json

    @property
    def kind(self) -> Kind:
        """What the model is made of."""
        return Kind.BOOSTING

    @property
    def variant(self) -> Variant:
        """Which further columns it has."""
        return Variant(extra=self.first.variant.extra, competition=True)

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.first.folds

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected reward of each slot (m, K)."""
        out = np.zeros(rankings.item.shape)
        for rows, part, folds in self._chunks(rankings, fold):
            if self.clicks:
                table_expected(self._chances(part, folds), part.lengths, out[rows])
            else:
                out[rows] = self._numbers(part, folds)
        return out

    def history(
        self, rankings: Rankings, reward: Floats, fold: int | Ints, alpha: Floats | None = None
    ) -> History:
        """Return expected rewards and their surprises; numbers have plain residuals."""
        q = self.expected(rankings, fold)
        if not self.clicks:
            return plain_history(q, rankings, reward, alpha)
        weights = np.ones(rankings.K) if alpha is None else np.asarray(alpha, dtype=float)
        ahead = np.zeros((rankings.m, rankings.K + 1))
        for rows, part, folds in self._chunks(rankings, fold):
            gain = np.ascontiguousarray(np.broadcast_to(weights, part.item.shape))
            click = np.where(part.item >= 0, reward[rows] != 0.0, 0.0)
            table_ahead(self._chances(part, folds), part.lengths, gain, click, ahead[rows])
        delta = np.where(rankings.item >= 0, weights * reward + ahead[:, 1:] - ahead[:, :-1], 0.0)
        return History(q, ahead, delta)

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the first model's strengths (m, K)."""
        return self.first.strength(rankings, fold)

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return what the trees expect of each item alone in the first place (m, K), -inf in the
        padding.
        """
        m, C = rankings.item.shape
        alone = rankings.take(np.repeat(np.arange(m), C))
        picked = np.tile(np.arange(C), m)
        parts = [
            None if v is None else v[np.arange(m * C), picked][:, None]
            for v in (alone.features, alone.extra)
        ]
        item = alone.item[np.arange(m * C), picked][:, None]
        single = Rankings(item, alone.x, row=alone.row, features=parts[0], extra=parts[1])
        value = self.expected(single, np.repeat(by_row(fold, self.folds, m), C)).reshape(m, C)
        return np.where(rankings.item >= 0, value, -np.inf)

    def _chunks(self, rankings: Rankings, fold: int | Ints) -> list[tuple[slice, Rankings, Ints]]:
        folds = by_row(fold, self.folds, rankings.m)
        cuts = [slice(first, first + _CHUNK) for first in range(0, rankings.m, _CHUNK)]
        return [(rows, rankings.take(rows), folds[rows]) for rows in cuts]

    def _chances(self, rankings: Rankings, folds: Ints) -> Floats:
        """Return P(click at k | last click at l) (m, K, K + 1) of all states."""
        columns = described(self.first, rankings, folds)
        out = np.zeros((rankings.m, rankings.K, rankings.K + 1))
        for k in range(rankings.K):
            shown = np.flatnonzero(rankings.item[:, k] >= 0)
            for last in range(-1, k):
                rows = with_place(columns[shown, k], k, np.full(len(shown), last))
                out[shown, k, last + 1] = self._predicted(rows, folds[shown])
        return out

    def _numbers(self, rankings: Rankings, folds: Ints) -> Floats:
        columns = described(self.first, rankings, folds)
        out = np.zeros(rankings.item.shape)
        for k in range(rankings.K):
            shown = np.flatnonzero(rankings.item[:, k] >= 0)
            rows = with_place(columns[shown, k], k, np.full(len(shown), -1))
            out[shown, k] = self._predicted(rows, folds[shown])
        return out

    def _predicted(self, rows: Floats, folds: Ints) -> Floats:
        out = np.zeros(len(rows))
        for f in np.unique(folds):
            at = folds == f
            tree = self.trees[f]
            if isinstance(tree, float):
                out[at] = tree
            else:
                out[at] = (
                    tree.predict_proba(rows[at])[:, 1] if self.clicks else tree.predict(rows[at])
                )
        return out


def described(first: ListModel, rankings: Rankings, fold: int | Ints) -> Floats:
    """Return what trees read of each slot but its place (m, K, p): the first model's key, rivals,
    context, features.
    """
    key = np.where(rankings.item >= 0, first.relevance(rankings, fold), 0.0)
    others = rivalry(first.strength(rankings, fold), rankings.lengths)
    assert rankings.row is not None
    x = np.broadcast_to(
        rankings.x[rankings.row][:, None, :], (rankings.m, rankings.K, rankings.x.shape[1])
    )
    given = [part for part in (rankings.features, rankings.extra) if part is not None]
    return np.concatenate([key[..., None], others, x, *given], axis=2)


def with_place(columns: Floats, k: int | Ints, last: Ints) -> Floats:
    """Return rows for trees: place, whether and how far above the last click is, and the columns
    (N, p).
    """
    place = np.broadcast_to(np.asarray(k, dtype=float), last.shape)
    distance = np.where(last >= 0, place - last, 0.0)
    return np.concatenate([place[:, None], distance[:, None], columns], axis=1)


def fit_boosting(
    rankings: Rankings, reward: Floats, fold: Ints, *, folds: int, seed: int = 0
) -> BoostedModel:
    """Return cross-fitted trees (scikit-learn, extra `models`) on top of the plain model of these
    rewards.
    """
    ensemble = require("sklearn.ensemble", extra="models")
    rankings, reward, fold = checked(rankings, reward, fold, folds)
    asked = Variant(extra=rankings.extras)
    first = fit_list_models(rankings, reward, fold, folds=folds, variants=(asked,), seed=seed)[0]
    clicks = first.kind is Kind.HISTORY
    kept = _sample(rankings.m, seed)
    part, y, of = rankings.take(kept), reward[kept], fold[kept]
    columns = described(first, part, of)
    row, k = np.nonzero(part.item >= 0)
    last = last_clicks(y)[row, k] if clicks else np.full(len(row), -1)
    rows, value = with_place(columns[row, k], k, last), y[row, k]
    learner = (
        ensemble.HistGradientBoostingClassifier
        if clicks
        else ensemble.HistGradientBoostingRegressor
    )
    options = {
        "max_iter": int(SETTINGS["trees"].value),
        "max_leaf_nodes": int(SETTINGS["leaves"].value),
        "min_samples_leaf": int(SETTINGS["leaf_rows"].value),
        "learning_rate": SETTINGS["rate"].value,
        "early_stopping": False,
        "random_state": seed,
    }
    trees: list[Any] = []
    with threads_for(len(rows)):
        for f in (*range(folds), ALL):
            used = of[row] != f
            same = len(np.unique(value[used])) < 2
            trees.append(
                float(value[used].mean())
                if same
                else learner(**options).fit(rows[used], value[used])
            )
    details = {"model": "gradient boosting", "first": first.details, "rows": part.m, **options}
    return BoostedModel(first, tuple(trees), clicks, details)


def last_clicks(reward: Floats) -> Ints:
    """Return the place of the last reward other than zero above each slot (m, K), -1 where there is
    none.

    >>> last_clicks(np.array([[0.0, 1.0, 0.0, 1.0]])).tolist()
    [[-1, -1, 1, 1]]
    """
    K = reward.shape[1]
    place = np.where(reward != 0.0, np.arange(K), -1)
    out = np.full(reward.shape, -1, dtype=np.int64)
    out[:, 1:] = np.maximum.accumulate(place, axis=1)[:, :-1]
    return out


def _sample(m: int, seed: int) -> Ints:
    most = int(SETTINGS["rows"].value)
    if m <= most:
        return np.arange(m)
    return np.sort(
        np.random.default_rng([seed, STREAMS["boosting rows"]]).choice(m, most, replace=False)
    )
