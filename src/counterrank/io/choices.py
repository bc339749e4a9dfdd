"""Which score today's ranking followed: Plackett-Luce fits of the shown order on each column of scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints

#: Numbers of the table of pages and candidates that a fit looks at.
_NUMBERS = 1_000_000
#: Halvings of the interval of the slope, and its largest value in standard deviations of the scores.
_HALVINGS, _STEEPEST = 40, 200.0
#: Share of places that hold the best score that is left, from which on a ranking is in the order of the scores.
_ORDERED = 0.99


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a score explains the order on the pages: log-likelihood over chance, slope, share of places in order."""

    gain: float
    slope: float
    in_order: float

    @property
    def is_sorted(self) -> bool:
        """Whether pages stand in the order of the scores."""
        return self.in_order >= _ORDERED

    @property
    def temperature(self) -> float:
        """The temperature that the slope stands for."""
        return 1 / self.slope if self.slope > 0 else 1.0


class Pages:
    """Candidates of pages with their places (NaN where they were not shown)."""

    def __init__(self, page: Ints, place: Floats) -> None:
        # Shown items from the top, then the others.
        self.order = np.lexsort((place, page))
        _, row, counts = np.unique(page[self.order], return_inverse=True, return_counts=True)
        column = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        width = int(counts.max(initial=1))
        fitting = row < max(1, _NUMBERS // width)
        self.order, self.row, self.column = self.order[fitting], row[fitting], column[fitting]
        self.shape = int(self.row.max(initial=-1)) + 1, width
        self.shown = self._table(np.isfinite(place), fill=False)

    def _table(self, values: Any, fill: Any) -> Any:
        table = np.full(self.shape, fill, dtype=np.asarray(values).dtype)
        table[self.row, self.column] = values[self.order]
        return table

    def fit(self, score: Floats) -> Fit:
        """Return how a score explains which item stands where; candidates without one are left out."""
        spread = float(np.nanstd(score)) if np.isfinite(score).any() else 0.0
        if not spread > 0:
            return Fit(0.0, 0.0, 0.0)
        table = self._table((score - np.nanmean(score)) / spread, np.nan)
        scored = np.isfinite(table)
        complete: Bools = (scored | ~self.shown).all(axis=1)
        table, chosen = np.where(scored, table, -np.inf)[complete], self.shown[complete]
        # The last candidate that is left is no choice.
        ahead = np.flip(np.cumsum(np.flip(scored[complete], axis=1), axis=1), axis=1)
        chosen = chosen & (ahead > 1)
        if not chosen.any():
            return Fit(0.0, 0.0, 0.0)
        low, high = 0.0, _STEEPEST
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._rise(table, chosen, middle) > 0 else (low, middle)
        gain = _likelihood(table, chosen, low) - _likelihood(table, chosen, 0.0)
        best = np.flip(np.maximum.accumulate(np.flip(table, axis=1), axis=1), axis=1)
        in_order = float((table >= best)[chosen].mean())
        return Fit(max(gain, 0.0), low / spread, in_order)

    @staticmethod
    def _rise(table: Floats, chosen: Bools, slope: float) -> float:
        """Return the derivative of the log-likelihood."""
        weight, value = _weights(table, slope), np.where(np.isfinite(table), table, 0.0)
        total = _from_the_end(weight)
        mean = _from_the_end(weight * value) / np.maximum(total, 1e-300)
        return float((value - mean)[chosen].sum())


def _weights(table: Floats, slope: float) -> Floats:
    top = table.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(table), np.exp(slope * (table - top)), 0.0)


def _from_the_end(values: Floats) -> Floats:
    return np.flip(np.cumsum(np.flip(values, axis=1), axis=1), axis=1)


def _likelihood(table: Floats, chosen: Bools, slope: float) -> float:
    """Return the log-likelihood of the choices under a Plackett-Luce policy."""
    weight = _weights(table, slope)
    share = weight[chosen] / np.maximum(_from_the_end(weight)[chosen], 1e-300)
    return float(np.log(np.maximum(share, 1e-300)).sum())
