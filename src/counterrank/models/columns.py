"""The columns of the closed-form model, for shown rankings and for what independent positions expect.

For position k the columns are, in this order:

    1, x_1..x_d                   the (standardised) context
    x_i x_j                       its curves: squares and, of few columns, products
    x_j N_b                       context times the count of action b among the other positions ("cross")
    N_b N_c                       products of counts, b <= c ("squares" 1; 2: b = c alone; 0: none)
    1{a_l = b} by block           indicators of the other positions, summed over a block

N_b counts action b among the other positions. Nothing is centred by what the logger does: the mean effect
of other items is a curved function of the context, which centred columns would leave to an own effect
that is linear. Curves take up what own effects have of it, else x_j N_b would stand for them.

Arrays of a block are stored column by column (columns, rows), so that NumPy has long loops and products
are calls of BLAS.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.data.encoding import context_columns
from counterrank.data.log import RankingLog
from counterrank.kernels.jit import vector_jit
from counterrank.models import settings

#: Rows of one block: its columns fit into the cache, and calls cost little beside the arithmetic.
_ROWS = 4096


class Arrays(NamedTuple):
    """The arrays from which columns are made: x (n, 1+d+C) with its C curves, and the fit of each row (n,)."""

    action: Ints
    lengths: Ints
    fit: Ints
    x: Floats

    def take(self, rows: Ints) -> "Arrays":
        """Return some rows."""
        return Arrays._make(column[rows] for column in self)


@dataclass(frozen=True, eq=False)
class Grouping:
    """Groups of requests that one standardised context column tells apart: group b is above b of the cuts."""

    column: int
    cuts: Floats

    @property
    def count(self) -> int:
        """Number of groups B."""
        return len(self.cuts) + 1

    def assign(self, x: Floats) -> Ints:
        """Return the group (n,) of requests with columns x (n, 1+d+C)."""
        return np.digitize(x[:, 1 + self.column], self.cuts, right=True).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Layout:
    """Shape of a linear model: K positions, A actions, F folds, d context columns, and its column groups.

    `slots` (K, K) names the block of position l in the model of position k: `pair_slots` gives each
    other position a block, `count_slots` one to all above and one to all below.
    """

    K: int
    A: int
    F: int
    slots: Ints
    #: Means and standard deviations of the context columns (d,).
    mean: Floats
    sd: Floats
    cross: bool = False
    #: Products of counts: 0 none, 1 all, 2 squares of single counts.
    squares: int = 0
    #: Whether products of the context are columns.
    curved: bool = False
    #: Requests of different groups may have fits of their own.
    groups: Grouping | None = None

    @property
    def d(self) -> int:
        """Number of context columns."""
        return len(self.mean)

    @property
    def B(self) -> int:  # noqa: N802 - the letter of the formulas
        """Number of groups of requests."""
        return 1 if self.groups is None else self.groups.count

    @cached_property
    def blocks(self) -> int:
        """Number of indicator blocks."""
        return int(self.slots.max()) + 1

    @cached_property
    def starts(self) -> tuple[int, int, int, int]:
        """First columns of the curve, cross, square and block groups."""
        curves = self.d + 1
        cross = curves + len(self.curves[0])
        squares = cross + (self.d * self.A if self.cross else 0)
        return curves, cross, squares, squares + len(self.products[0])

    @property
    def width(self) -> int:
        """Number of columns D."""
        return self.starts[3] + self.blocks * self.A

    @property
    def key(self) -> tuple[Hashable, ...]:
        """What tells the layout from others of the same rows."""
        groups = None if self.groups is None else (self.groups.column, self.groups.cuts.tobytes())
        shape = self.K, self.A, self.F, self.cross, self.squares, self.curved
        return *shape, groups, *(a.tobytes() for a in (self.slots, self.mean, self.sd))

    @cached_property
    def plain(self) -> tuple["Layout", Ints]:
        """The layout without curves, cross and square columns, and which columns it keeps."""
        curves, _, _, blocks = self.starts
        slim = replace(self, cross=False, squares=0, curved=False, groups=None)
        return slim, np.r_[0:curves, blocks : self.width]

    @cached_property
    def curves(self) -> tuple[Ints, Ints]:
        """Context columns i <= j whose products are columns."""
        single = np.arange(self.d if self.curved else 0)
        return np.triu_indices(len(single)) if self.d <= settings.FEW_CURVES else (single, single)

    @cached_property
    def products(self) -> tuple[Ints, Ints]:
        """Actions b <= c whose counts are multiplied."""
        single = np.arange(self.A if self.squares else 0)
        return np.triu_indices(self.A) if self.squares == 1 else (single, single)

    def arrays(self, batch: RankingLog) -> Arrays:
        """Return the arrays of a batch; the fit of a row is that of its fold and group."""
        x = self.requests(context_columns(batch))
        return Arrays(batch.action, batch.lengths, self.fits(batch.bucket % self.F, x), x)

    def fits(self, fold: Ints, x: Floats) -> Ints:
        """Return which fit belongs to requests of a fold (n,): those of a fold follow each other by group."""
        return fold if self.groups is None else fold * self.B + self.groups.assign(x)

    def requests(self, context: Floats) -> Floats:
        """Return standardised requests with their curves (n, 1+d+C)."""
        x = self.standardised(context)
        if not self.curved:
            return x
        # Products of far values would carry a fit beyond the rows that it was made from.
        near, (i, j) = np.clip(x[:, 1:], -settings.CURVED, settings.CURVED), self.curves
        return np.concatenate([x, near[:, i] * near[:, j] - (i == j)], axis=1)

    def standardised(self, context: Floats) -> Floats:
        """Return [1, (x - mean) / sd] (n, d + 1); a missing value becomes the mean."""
        out = np.ones((len(context), self.d + 1))
        scaled = np.divide(context - self.mean, self.sd, out=out[:, 1:])
        scaled[np.isnan(scaled)] = 0.0
        return out


def blocks_of(fit: Ints) -> Iterator[tuple[int, Ints]]:
    """Return blocks of rows of one fit, which share their coefficients, with the fit's number."""
    for f in range(int(fit.max(initial=-1)) + 1):
        mine = np.flatnonzero(fit == f)
        for first in range(0, len(mine), _ROWS):
            yield f, mine[first : first + _ROWS]


def indicators(action: Ints, A: int) -> Floats:
    """Return 1{a_l = b} (K, A, n), zero in the padding."""
    return np.asarray(action.T[:, None] == np.arange(A)[:, None], dtype=np.float64)


def expected(distribution: Floats, lengths: Ints, K: int) -> Floats:
    """Return a distribution (n, 1 or K, A) as (K, A, n), zero in the padding.

    (1, A, n) where all positions have the same and none is padded.
    """
    columns = np.ascontiguousarray(distribution.transpose(1, 2, 0))
    if not (lengths == K).all():
        columns = columns * (np.arange(K)[:, None, None] < lengths)
    return np.asarray(columns)


def columns_of(
    layout: Layout, arrays: Arrays, shown: Floats, positions: Iterable[int], out: Floats
) -> Iterator[int]:
    """Fill out (D, n) with the columns of each of the positions `positions`, and yield the position.

    `shown` (K or 1, A, n) are indicators of actions, or a distribution of independent positions. Columns
    are linear in it, except for products of counts, whose means contain covariances.
    """
    _, cross, squares, blocks = layout.starts
    (b, c), x = layout.products, np.ascontiguousarray(arrays.x.T)
    out[:cross] = x
    # Covariances p(b) (1{b = c} - p(c)) of independent positions add up; those of indicators are zero.
    sums = [shown]
    if len(b):
        sums.append(shown[:, b] * ((b == c)[:, None] - shown[:, c]))
    # One distribution stands for all positions.
    totals = [block.sum(axis=0) * (layout.K if len(block) == 1 else 1) for block in sums]
    for k in positions:
        count, *spread = (
            total - block[min(k, len(block) - 1)] for total, block in zip(totals, sums, strict=True)
        )
        if layout.cross:
            crossed = out[cross:squares].reshape(layout.d, layout.A, -1)
            np.multiply(x[1 : layout.d + 1, None], count, out=crossed)
        if spread:
            np.add(count[b] * count[c], spread[0], out=out[squares:blocks])
        members = (layout.slots[k] == np.arange(layout.blocks)[:, None]).astype(np.float64)
        members[:, k] = 0.0
        if len(shown) == 1:
            members = members.sum(axis=1, keepdims=True)
        np.matmul(
            members, shown.reshape(len(shown), -1), out=out[blocks:].reshape(layout.blocks, -1)
        )
        yield k


def logged_values(layout: Layout, arrays: Arrays, coef: Floats, row: Ints | None = None) -> Floats:
    """Return z' coef[fit, k, a_k] (m, K) for coefficients (fits, K, A, D), zero in the padding.

    With `row` (m,) actions and fits are those of m rankings of the requests `row`.
    """
    row = np.arange(len(arrays.action)) if row is None else row
    products, crossed = layout.products, layout.d if layout.cross else 0
    A, out = layout.A, np.zeros(arrays.action.shape[::-1])
    columns, count = np.empty((A, coef.shape[3])), np.zeros((2, A), np.int64)
    values_of(
        layout.slots,
        products,
        crossed,
        arrays.action,
        row,
        arrays.fit,
        arrays.x,
        coef,
        columns,
        count,
        out,
    )
    return out.T


@vector_jit
def values_of(  # noqa: C901, PLR0913 - a kernel in one piece
    slots: Ints,
    products: tuple[Ints, Ints],
    crossed: int,
    action: Ints,
    row: Ints,
    fit: Ints,
    x: Floats,
    coef: Floats,
    z: Floats,
    counts: Ints,
    out: Floats,
) -> None:
    """Fill out (K, m), zeros, with z' coef[fit, k, a_k] of rankings of the requests `row` (m,).

    `crossed` context columns are multiplied by counts; z (A, D) and counts (2, A), zeros, are to work with.
    """
    b, c = products
    (m, K), A, p = action.shape, coef.shape[2], x.shape[1]
    dense = p + len(b) + A * crossed
    count, computed_for = counts[0], counts[1]
    # Slots with the same action share their columns.
    for i in range(m):
        r, f, length = row[i], fit[i], 0
        for a in range(A):
            count[a] = 0
        while length < K and action[i, length] >= 0:
            count[action[i, length]] += 1
            length += 1
        for k in range(length):
            u = action[i, k]
            if computed_for[u] != i + 1:
                computed_for[u] = i + 1
                count[u] -= 1
                for j in range(p):
                    z[u, j] = x[r, j]
                start = p
                for j in range(1, crossed + 1):
                    for a in range(A):
                        z[u, start + a] = x[r, j] * count[a]
                    start += A
                for j in range(len(b)):
                    z[u, start + j] = count[b[j]] * count[c[j]]
                count[u] += 1
            value = 0.0
            for j in range(dense):
                value += z[u, j] * coef[f, k, u, j]
            for neighbour in range(length):
                if neighbour != k:
                    value += coef[f, k, u, dense + slots[k, neighbour] * A + action[i, neighbour]]
            out[k, i] = value


def pair_slots(K: int) -> Ints:
    """Return one block for each other position (K, K); the diagonal is never read.

    >>> pair_slots(3).tolist()
    [[0, 0, 1], [0, 0, 1], [0, 1, 1]]
    """
    positions = np.arange(K)
    return np.where(positions < positions[:, None], positions, np.maximum(positions - 1, 0)).astype(
        np.int64
    )


def count_slots(K: int) -> Ints:
    """Return block 0 for positions above and block 1 for those below (K, K)."""
    return np.triu(np.ones((K, K), dtype=np.int64), 1)
