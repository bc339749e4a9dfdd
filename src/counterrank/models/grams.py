"""Gram matrices of the closed-form model: sums of z z', z r and r^2 by fold, group, position and own action.

One pass sums them. Every fit, penalty and left-out fold is then computed from these sums.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from counterrank.common.arrays import Floats, Ints, Summed
from counterrank.data.log import RankingLog
from counterrank.data.source import Source
from counterrank.kernels.jit import vector_jit
from counterrank.models.columns import Arrays, Layout, blocks_of, columns_of, indicators
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
    rewarded = reward_sums(batch, layout, arrays)
    # F x B x K x A matrices rather than one: a fold is left out by subtraction, and each own action has
    # effects of its own, because what a neighbour does depends on the item it stands next to.
    F, B = layout.F, layout.B
    products = np.zeros((F, K, B * A, width, width))
    for f, rows in blocks_of(arrays.fit // B):
        group = arrays.take(rows)
        columns, shown = np.empty((width, len(rows))), indicators(group.action, A)
        for k in columns_of(layout, group, shown, range(K), columns):
            cell = np.where(group.action[:, k] < 0, -1, group.fit % B * A + group.action[:, k])
            for number, mine in by_cell(cell, columns):
                # BLAS sees that both factors are the same, and takes half the products.
                products[f, k, number] += mine @ mine.T
    gram = products.reshape(F, K, B, A, width, width).swapaxes(1, 2).copy()
    count = np.bincount(arrays.fit, minlength=F * B).astype(np.float64)
    return Grams(gram, rewarded[..., :width], rewarded[..., width], count)


def shared_grams(
    source: Source, layout: Layout, key: Hashable, shared: dict[Hashable, Any] | None
) -> Grams:
    """Return the Grams of a source; `shared` keeps under `key` the sums of other rewards of the same rows."""
    earlier: Grams | None = (shared or {}).get(key)
    if earlier is not None:
        rewarded = source.reduce(lambda batch: reward_sums(batch, layout), label="regression")
        return replace(earlier, cover=rewarded[..., :-1], square=rewarded[..., -1])
    grams = source.reduce(lambda batch: grams_of(batch, layout), label="regression")
    if shared is not None:
        shared[key] = grams
    return grams


def reward_sums(batch: RankingLog, layout: Layout, arrays: Arrays | None = None) -> Floats:
    """Return the sums of z r_k, and of r_k^2 behind them, of a batch (F, B, K, A, D + 1)."""
    arrays = layout.arrays(batch) if arrays is None else arrays
    sums = np.zeros((layout.F * layout.B, layout.K, layout.A, layout.width + 1))
    crossed, count = layout.d if layout.cross else 0, np.zeros(layout.A, np.int64)
    reward = np.ascontiguousarray(batch.reward)
    action, fit, x = arrays.action, arrays.fit, arrays.x
    add_rewards(layout.slots, layout.products, crossed, action, fit, x, reward, count, sums)
    return sums.reshape(layout.F, layout.B, *sums.shape[1:])


@vector_jit
def add_rewards(  # noqa: C901, PLR0913 - a kernel in one piece
    slots: Ints,
    products: tuple[Ints, Ints],
    crossed: int,
    action: Ints,
    fit: Ints,
    x: Floats,
    reward: Floats,
    count: Ints,
    sums: Floats,
) -> None:
    """Add z r_k and r_k^2 to the sums of each row's fit, position and own action; see `columns_of`.

    `crossed` context columns are multiplied by counts; `count` (A,) is to work with.
    """
    (b, c), (n, K), A, p = products, action.shape, len(count), x.shape[1]
    dense = p + A * crossed + len(b)
    for i in range(n):
        for a in range(A):
            count[a] = 0
        for k in range(K):
            if action[i, k] >= 0:
                count[action[i, k]] += 1
        for k in range(K):
            u, r = action[i, k], reward[i, k]
            if u < 0 or r == 0.0:
                continue
            cell = sums[fit[i], k, u]
            count[u] -= 1
            for j in range(p):
                cell[j] += r * x[i, j]
            for j in range(crossed):
                for a in range(A):
                    cell[p + j * A + a] += r * x[i, 1 + j] * count[a]
            for j in range(len(b)):
                cell[dense - len(b) + j] += r * count[b[j]] * count[c[j]]
            for neighbour in range(K):
                if neighbour != k and action[i, neighbour] >= 0:
                    cell[dense + slots[k, neighbour] * A + action[i, neighbour]] += r
            cell[len(cell) - 1] += r * r
            count[u] += 1


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
