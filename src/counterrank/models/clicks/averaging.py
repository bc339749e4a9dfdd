"""Several models as one: weights by what each loses on rows it has not seen."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.errors import EstimatorError
from counterrank.models.clicks.base import ALL, History, Kind, ListModel, Variant
from counterrank.models.clicks.rankings import Rankings
from counterrank.models.clicks.settings import SETTINGS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def choose(losses: ArrayLike, unit: ArrayLike | None = None) -> Floats:
    """Return weights (M,) of models from their held-out losses (n, M), as `squared_loss` gives them.

    Losses are compared pairwise on the same rows, summed by `unit` where rows belong together: a model z standard
    errors worse than the best weighs exp(-z^2 / 2). What the rows cannot tell apart is averaged, which costs less than
    picking; what is clearly worse vanishes.

    >>> choose([[1.0, 1.1, 5.0], [2.0, 1.9, 6.1], [1.5, 1.5, 5.2]]).round(3).tolist()
    [0.5, 0.5, 0.0]
    """
    table = np.atleast_2d(np.asarray(losses, dtype=float))
    if not np.isfinite(table).all() or table.shape[0] == 0:
        raise EstimatorError("models are weighed by finite losses on at least one row")
    if unit is not None:
        _, numbers = np.unique(np.asarray(unit), return_inverse=True)
        table = np.stack([np.bincount(numbers, column) for column in table.T], axis=1)
    best = int(table.mean(axis=0).argmin())
    worse = table - table[:, [best]]
    error = worse.std(axis=0) / np.sqrt(len(table))
    gap = worse.mean(axis=0)
    z = np.where(gap > 0, gap / np.maximum(error, 1e-300), 0.0) / SETTINGS["agreement"].value
    weight = np.exp(-0.5 * np.minimum(z, 40.0) ** 2)
    return np.asarray(weight / weight.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Averaged:
    """The weighted mean of models: expectations, values to go and surprises are linear in them."""

    models: tuple[ListModel, ...]
    weights: Floats

    def __post_init__(self) -> None:
        if not self.models or len(self.models) != len(self.weights):
            raise EstimatorError(f"{len(self.models)} models and {len(self.weights)} weights do not make a mean")

    @property
    def kind(self) -> Kind:
        """What the model is made of."""
        return Kind.AVERAGE

    @property
    def variant(self) -> Variant:
        """Columns that any of the models has."""
        used = [model.variant for model in self.models]
        return Variant(any(v.extra for v in used), any(v.competition for v in used))

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.models[0].folds

    @property
    def details(self) -> dict[str, Any]:
        """What was fitted, for people."""
        parts = zip(self.models, self.weights, strict=True)
        return {"model": "average", "models": [{"weight": float(w), **model.details} for model, w in parts]}

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the mean expected reward of each slot (m, K)."""
        return self._mean([model.expected(rankings, fold) for model in self.models])

    def history(self, rankings: Rankings, reward: Floats, fold: int | Ints, alpha: Floats | None = None) -> History:
        """Return the mean history."""
        parts = [model.history(rankings, reward, fold, alpha) for model in self.models]
        means = [self._mean([getattr(part, name) for part in parts]) for name in ("q", "ahead", "delta")]
        return History(*means)

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the mean strength of each slot's item (m, K)."""
        return self._mean([model.strength(rankings, fold) for model in self.models])

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return the mean sort key (m, K), -inf in the padding."""
        shown = rankings.item >= 0
        keys = [np.where(shown, model.relevance(rankings, fold), 0.0) for model in self.models]
        return np.where(shown, self._mean(keys), -np.inf)

    def _mean(self, values: list[Floats]) -> Floats:
        out = np.zeros(values[0].shape)
        for weight, own in zip(self.weights, values, strict=True):
            out += weight * own
        return out
