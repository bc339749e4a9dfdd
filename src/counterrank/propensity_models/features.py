"""Context columns as a design matrix: scaled numbers, one column a category, one for what is missing."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog

Floats = NDArray[np.float64]
#: Categories beyond this many share a column.
MAX_CATEGORIES = 50


@dataclass(frozen=True, slots=True)
class Features:
    """How to turn context into features: means, scales and the categorical columns, learnt once."""

    mean: Floats
    scale: Floats
    categories: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]

    @classmethod
    def learn(cls, log: RankingLog) -> Self:
        """Return the features of a log's context; none but a constant when there is no context."""
        context = np.empty((log.n, 0)) if log.context is None else log.context
        gaps = np.isnan(context)
        filled = np.where(gaps, 0.0, context)
        count = np.maximum((~gaps).sum(axis=0), 1)
        mean = filled.sum(axis=0) / count
        scale = np.sqrt(np.where(gaps, 0.0, (context - mean) ** 2).sum(axis=0) / count)
        categories = tuple(
            (j, min(len(log.categories[name]), MAX_CATEGORIES))
            for j, name in enumerate(log.context_names)
            if name in log.categories
        )
        return cls(mean, np.where(scale > 0, scale, 1.0), categories, tuple(np.flatnonzero(gaps.any(axis=0)).tolist()))

    def of(self, log: RankingLog) -> Floats:
        """Return (n, d) features, the first of which is 1."""
        context = np.empty((log.n, 0)) if log.context is None else log.context
        gaps = np.isnan(context)
        scaled = np.where(gaps, 0.0, (context - self.mean) / self.scale)
        coded = {j for j, _ in self.categories}
        columns = [np.ones((log.n, 1)), scaled[:, [j for j in range(context.shape[1]) if j not in coded]]]
        for j, size in self.categories:
            codes = np.where(gaps[:, j], -1, np.minimum(np.nan_to_num(context[:, j]), size - 1))
            columns.append((codes[:, None] == np.arange(size)).astype(np.float64))
        columns.append(gaps[:, list(self.missing)].astype(np.float64))
        return np.concatenate(columns, axis=1)
