"""Gradient boosting on top of a fitted reward model.

LightGBM's trees read the first model's log odds of each item, and add what it lacks: products of
context, features and place. Item ids are not columns. The columns of a row in fold g always come from
the model that left g out, in training and in prediction.
"""

from dataclasses import dataclass, field

import numpy as np

from counterrank import boosting
from counterrank.arrays import Floats, Ints
from counterrank.learning import settings
from counterrank.learning.trees import Trees
from counterrank.models import (
    ALL,
    ListModel,
    Rankings,
    Variant,
    by_row,
    fit_list_models,
    rivalry,
)
from counterrank.records import Json

#: Rankings whose slots are predicted at once.
_CHUNK = 8_192


@dataclass(frozen=True, slots=True, eq=False)
class BoostedModel(ListModel):
    """Trees by fold left out (the last: all rows) on the columns of `described`."""

    first: ListModel
    trees: tuple[Trees, ...]
    details: Json = field(default_factory=dict)

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.first.folds

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected reward of each slot (m, K)."""
        out = np.zeros(rankings.item.shape)
        folds = by_row(fold, self.folds, rankings.m)
        for start in range(0, rankings.m, _CHUNK):
            rows = slice(start, start + _CHUNK)
            out[rows] = self._expected(rankings.take(rows), folds[rows])
        return out

    def _expected(self, rankings: Rankings, folds: Ints) -> Floats:
        columns, out = described(self.first, rankings, folds), np.zeros(rankings.item.shape)
        row, k = np.nonzero(rankings.item >= 0)
        table, value = with_place(columns[row, k], k), np.zeros(len(row))
        for f in np.unique(folds):
            own = folds[row] == f
            value[own] = self.trees[f].predict(table[own])
        out[row, k] = value
        return out

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the first model's strengths (m, K)."""
        return self.first.strength(rankings, fold)

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return what the trees expect of each item alone in the first place (m, K), -inf in the padding."""
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


def described(first: ListModel, rankings: Rankings, fold: int | Ints) -> Floats:
    """Return the columns of each slot but its place (m, K, p): the first model's key, rivals, context, features."""
    key = np.where(rankings.item >= 0, first.relevance(rankings, fold), 0.0)
    others = rivalry(first.strength(rankings, fold), rankings.lengths)
    x = np.broadcast_to(
        rankings.x[rankings.row][:, None, :], (rankings.m, rankings.K, rankings.x.shape[1])
    )
    given = [part for part in (rankings.features, rankings.extra) if part is not None]
    return np.concatenate([key[..., None], others, x, *given], axis=2)


def with_place(columns: Floats, k: Ints) -> Floats:
    """Return rows for trees: the place, a column of zeros, and the columns (N, p)."""
    # Policy files count the columns of their trees with the empty one.
    return np.concatenate([k[:, None].astype(float), np.zeros((len(k), 1)), columns], axis=1)


def fit_trees(
    rankings: Rankings, reward: Floats, fold: Ints, *, folds: int, seed: int
) -> BoostedModel:
    """Return cross-fitted trees on top of the plain click model."""
    [first] = fit_list_models(rankings, reward, fold, folds=folds, variants=(Variant(),), seed=seed)
    row, k = np.nonzero(rankings.item >= 0)
    columns = with_place(described(first, rankings, fold)[row, k], k)
    value = reward[row, k]
    options = boosting.kept_options(
        value,
        leaves=settings.LEAVES,
        leaf_rows=settings.LEAF_ROWS,
        rate=settings.RATE,
        seed=seed,
    )
    trees = []
    for f in (*range(folds), ALL):
        used = fold[row] != f
        grown = boosting.kept_trees(columns[used], value[used], options, settings.TREES)
        trees.append(Trees.of(grown))
    details = {
        "model": "boosting",
        "first": first.details,
        "trees": settings.TREES,
        **options,
    }
    return BoostedModel(first, tuple(trees), details)
