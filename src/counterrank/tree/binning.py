"""Context features as small integers: quantile bins of numbers, codes of categories, 0 for missing."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.tree import settings

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Bins:
    """How each feature is binned: edges of numbers; for categories the code of each bin."""

    edges: tuple[Floats, ...]
    categorical: Bools  # (d,)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of bins of each feature (d,), the one for missing values included."""
        sizes = [
            len(e) + (1 if cat else 2) for e, cat in zip(self.edges, self.categorical, strict=True)
        ]
        return np.array(sizes, dtype=np.int64)

    def codes(self, context: Floats) -> Codes:
        """Return bin numbers (n, d): 0 missing, then 1, 2, ... in rising order."""
        from counterrank.tree.kernels.statistics import bin_numbers

        out = np.zeros(context.shape, dtype=np.uint8)
        column = np.empty(len(context), dtype=np.uint8)
        for f, edges in enumerate(self.edges):
            values = np.ascontiguousarray(context[:, f])
            if self.categorical[f]:
                place = np.searchsorted(edges, values)
                known = edges[np.minimum(place, len(edges) - 1)] == values
                out[:, f] = np.where(known, place + 1, 0)
            else:
                bin_numbers(values, edges, column)
                out[:, f] = column
        return out


def make_bins(context: Floats, categorical: Bools, *, most: int, rng: np.random.Generator) -> Bins:
    """Return quantile bins (at most `most` a feature); of categories the most frequent, the rest
    count as missing.

    >>> make_bins(np.array([[1.0], [2.0], [4.0], [8.0], [np.nan]]), np.array([False]), most=2,
    ...           rng=np.random.default_rng(0)).edges[0].tolist()
    [3.0]
    """
    if len(context) > settings.QUANTILE_ROWS.value:
        context = context[
            rng.choice(len(context), size=settings.QUANTILE_ROWS.value, replace=False)
        ]
    edges = []
    for f in range(context.shape[1]):
        values = context[:, f]
        values = values[~np.isnan(values)]
        edges.append(_common(values, most) if categorical[f] else _quantile_edges(values, most))
    return Bins(tuple(edges), categorical)


def _common(values: Floats, most: int) -> Floats:
    seen, count = np.unique(values, return_counts=True)
    return np.sort(seen[np.argsort(-count, kind="stable")[:most]]) if len(seen) else np.zeros(1)


def _quantile_edges(values: Floats, most: int) -> Floats:
    """Return increasing edges between values that occur, so that no value lies on an edge by
    accident.
    """
    ordered = np.sort(values)
    rises = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1  # where a new value begins
    if len(rises) >= most:
        # A quantile in the middle of a value repeated many times is moved to where the next value
        # begins.
        wanted = (np.arange(1, most) * len(ordered)) // most
        rises = np.unique(rises[np.minimum(np.searchsorted(rises, wanted), len(rises) - 1)])
    return (ordered[rises - 1] + ordered[rises]) / 2
