"""The parameters of a click model: one flat vector for each fit, and what its parts mean.

The parts stand in this order:

    position (K) | clicked (1) | reading (1) | distance (K - 1) | cell (K K) |
    item after click (I + 1) | constant (1) | context (d) | columns (p) | item (I + 1) |
    item x context ((I + 1) d)

Item number I stands for all items that were not seen: its parameters have no data and stay at their
prior means.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from counterrank.common.arrays import Floats


class Parts(NamedTuple):
    """First entries of the parts; the positions begin at 0.

    `distance` is the entry of a distance of zero, which no slot has.
    """

    clicked: int
    reading: int
    distance: int
    cell: int
    after: int
    constant: int
    context: int
    columns: int
    item: int
    slope: int


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """Parameters (F + 1, P) by fold left out; the last row is the fit of all rows."""

    theta: Floats
    K: int
    items: int
    d: int

    @property
    def parts(self) -> Parts:
        """Where each part of the parameters begins."""
        K, count = self.K, self.items + 1
        after = 2 * K + 1 + K * K
        constant, item = after + count, self.theta.shape[1] - count * (1 + self.d)
        columns = constant + 1 + self.d
        return Parts(
            K, K + 1, K + 1, 2 * K + 1, after, constant, constant + 1, columns, item, item + count
        )

    @staticmethod
    def count(K: int, items: int, d: int, p: int) -> int:
        """Return the number P of parameters of so many positions, items, context columns and columns."""
        return 2 * K + 2 + K * K + d + p + (items + 1) * (2 + d)

    @property
    def examination(self) -> Floats:
        """Logits t_kl of examination (F + 1, K, K + 1); column 0 before any click."""
        K, theta, start = self.K, self.theta, self.parts
        k, last = np.arange(K)[:, None], np.arange(K)
        t = np.empty((len(theta), K, K + 1))
        t[:, :, 0] = theta[:, :K]
        cells = theta[:, start.cell : start.after].reshape(-1, K, K)
        distance = theta[:, start.distance + np.maximum(k - last, 0)]
        t[:, :, 1:] = theta[:, :K, None] + theta[:, start.clicked, None, None] + distance + cells
        return t

    @property
    def power(self) -> Floats:
        """How much skipped items say of having left (F + 1,): 0 nothing, 1 as in Chapelle & Zhang."""
        return np.ascontiguousarray(self.theta[:, self.parts.reading])

    @property
    def after(self) -> Floats:
        """What a click on an item adds to later logits of examination (F + 1, I + 1)."""
        start = self.parts
        return self.theta[:, start.after : start.constant]

    @property
    def table(self) -> Floats:
        """Intercept and slopes of each item (F + 1, I + 1, 1 + d), common part included."""
        start, folds = self.parts, len(self.theta)
        intercepts = self.theta[:, start.item : start.slope, None]
        slopes = self.theta[:, start.slope :].reshape(folds, self.items + 1, self.d)
        common = self.theta[:, None, start.constant : start.columns]
        return np.asarray(np.concatenate([intercepts, slopes], axis=2) + common)

    @property
    def beta(self) -> Floats:
        """Coefficients of the columns (F + 1, p)."""
        start = self.parts
        return np.ascontiguousarray(self.theta[:, start.columns : start.item])


def split(beta: Floats, first: int, crossed: int, context: int) -> tuple[Floats, Floats]:
    """Return the coefficients (F, .) of the columns, and (F, crossed, context) of their products.

    `crossed` columns from `first` on are multiplied by so many columns of context. The coefficients of the
    products stand after those of these columns.
    """
    end, products = first + crossed, crossed * context
    column_effects = np.concatenate([beta[:, :end], beta[:, end + products :]], axis=1)
    return column_effects, beta[:, end : end + products].reshape(len(beta), crossed, context)
