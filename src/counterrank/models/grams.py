"""Gram matrices of the closed-form model: sums of z z', z r and r^2 by fold, group, position and own action.

One pass sums them. Every fit, penalty and left-out fold is then computed from these sums.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from counterrank.common.arrays import Floats, Ints, Summed
from counterrank.data.log import RankingLog
from counterrank.data.source import Source
from counterrank.models.columns import Layout, blocks_of, columns_of, indicators
from counterrank.models.rankings import Memo


@dataclass(frozen=True, slots=True, eq=False)
class Grams(Summed):
    """Sums over the rows of fold f and group b with a_k = u.

    gram (F, B, K, A, D, D) of z z'; cover (F, B, K, A, D) of z r_k; square (F, B, K, A) of r_k^2;
    rows (F B,).
    """

    gram: Floats
    cover: Floats
    square: Floats
    rows: Floats


def grams_of(batch: RankingLog, layout: Layout) -> Grams:
    """Return the Grams of a batch."""
    arrays, K, A, width = layout.arrays(batch), layout.K, layout.A, layout.width
    # F x B x K x A matrices rather than one: a fold is left out by subtraction, and each own action has
    # effects of its own, because what a neighbour does depends on the item it stands next to.
    F, B = layout.F, layout.B
    products = np.zeros((F, K, B * A, width + 1, width + 1))
    for f, rows in blocks_of(arrays.fit // B):
        group = arrays.take(rows)
        columns, shown = np.empty((width + 1, len(rows))), indicators(group.action, A)
        for k in columns_of(layout, group, shown, range(K), columns[:width]):
            columns[width] = batch.reward[rows, k]
            cell = np.where(group.action[:, k] < 0, -1, group.fit % B * A + group.action[:, k])
            for number, mine in by_cell(cell, columns):
                # BLAS sees that both factors are the same, and takes half the products.
                products[f, k, number] += mine @ mine.T
    products = products.reshape(F, K, B, A, width + 1, width + 1).swapaxes(1, 2)
    gram, cover = products[..., :width, :width], products[..., width, :width]
    count = np.bincount(arrays.fit, minlength=F * B).astype(np.float64)
    return Grams(gram.copy(), cover.copy(), products[..., width, width].copy(), count)


def by_cell(cell: Ints, columns: Floats) -> Iterator[tuple[int, Floats]]:
    """Return the columns of each cell (n,); rankings that end above have none (-1)."""
    # Sixteen bits are sorted by counting; cells are far fewer where Grams fit into memory.
    order = np.argsort(cell.astype(np.int16), kind="stable")
    ordered = columns.take(order, axis=1)
    last = np.cumsum(np.bincount(cell + 1))
    for number in range(len(last) - 1):
        if last[number] < last[number + 1]:
            yield number, ordered[:, last[number] : last[number + 1]]


@dataclass(frozen=True, eq=False)
class Training(Memo):
    """The training rows of one log, shared by all its models: their sums and columns.

    `pairs` says whether each other position has indicators of its own; `rows` is the number of rows of
    the whole log, where known.
    """

    grams: Grams
    layout: Layout
    pairs: bool
    source: Source
    rows: int | None = None
    memo: dict[Hashable, Any] = field(init=False, default_factory=dict)

    @cached_property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        # r^2 = r for such rewards: the sums rule out most other logs before any row is read again.
        total, squares = self.grams.cover[..., 0].sum(), self.grams.square.sum()
        if not np.isclose(total, squares, rtol=1e-9, atol=0.0):
            return False

        def others_than_0_and_1(batch: RankingLog) -> int:
            return int((~np.isin(batch.reward[batch.action >= 0], (0.0, 1.0))).sum())

        return not self.source.reduce(others_than_0_and_1, label="rewards")
