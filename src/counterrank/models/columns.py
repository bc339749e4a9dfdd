"""Which columns a linear reward model has, and their values for rankings shown or expected.

For position k the columns are, in this order:

    1, x_1..x_d                   the (standardised) context
    c_1..c_A                      the logger's mean distribution: indicators are centred by it
    x_j (N_b - M_b)               context times centred count of action b among the other
                                  positions ("cross")
    N_b N_c - E0[N_b N_c]         centred products of counts, b <= c ("squares" 1; 2: b = c
                                  alone; 0: none)
    1{a_l = b} by block           indicators of the other positions, summed over a block

N_b counts action b among the other positions, M_b is its mean under the logger. Arrays of a block are
stored column by column (columns, rows), so that NumPy has long loops and products are calls of BLAS.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.encoding import ContextMoments, context_columns
from counterrank.data.log import LOGGING, RankingLog
from counterrank.kernels.jit import vector_jit
from counterrank.policies import Policy

#: Rows of one block: its columns fit into the cache, and calls cost little beside the arithmetic.
_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays from which columns are made: x (n, d+1), centre (n, A), logging (n, 1 or K, A), fold (n,).

    With `row` (m,) there are m rankings, with their fold and length, of the requests `row`.
    """

    action: Ints
    lengths: Ints
    fold: Ints
    x: Floats
    centre: Floats
    logging: Floats
    row: Ints | None = None

    def take(self, rows: Ints) -> "Arrays":
        """Return some rows."""
        return Arrays(
            self.action[rows],
            self.lengths[rows],
            self.fold[rows],
            self.x[rows],
            self.centre[rows],
            self.logging[rows],
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """Shape of a linear model: K positions, A actions, d context columns, F folds, and its column groups.

    `slots` (K, K) names the block of position l in the model of position k: `pair_slots` gives each
    other position a block, `count_slots` one to all above and one to all below.
    """

    K: int
    A: int
    d: int
    F: int
    slots: Ints
    scale: ContextMoments
    cross: bool = False
    #: Products of counts: 0 none, 1 all, 2 squares of single counts.
    squares: int = 0

    @property
    def blocks(self) -> int:
        """Number of indicator blocks."""
        return int(self.slots.max()) + 1

    @property
    def starts(self) -> tuple[int, int, int, int]:
        """First columns of the centre, cross, square and block groups."""
        centre = self.d + 1
        cross = centre + self.A
        squares = cross + (self.d * self.A if self.cross else 0)
        return (
            centre,
            cross,
            squares,
            squares + (0, self.A * (self.A + 1) // 2, self.A)[self.squares],
        )

    @property
    def width(self) -> int:
        """Number of columns D."""
        return self.starts[3] + self.blocks * self.A

    @property
    def plain(self) -> tuple["Layout", Ints]:
        """The layout without cross and square columns, and which columns it keeps."""
        _, cross, _, blocks = self.starts
        return replace(self, cross=False, squares=0), np.r_[0:cross, blocks : self.width]

    @property
    def products(self) -> tuple[Ints, Ints]:
        """Actions b <= c whose counts are multiplied."""
        if self.squares == 1:
            return np.triu_indices(self.A)
        return np.arange(self.A), np.arange(self.A)

    def arrays(self, batch: RankingLog) -> Arrays:
        """Return the arrays of a batch."""
        logging = whole_distribution(batch, LOGGING)
        if logging is None:
            # Without the logger's distribution indicators are not centred.
            logging = np.zeros((batch.n, 1, self.A))
        centre = (
            logging[:, 0] if logging.shape[1] == 1 else np.ascontiguousarray(logging.mean(axis=1))
        )
        x = self.scale.standardised(context_columns(batch))
        return Arrays(batch.action, batch.lengths, batch.bucket % self.F, x, centre, logging)


def blocks_of(fold: Ints) -> Iterator[tuple[int, Ints]]:
    """Return blocks of rows of one fold, which share their coefficients, with the fold's number."""
    for f in range(int(fold.max(initial=-1)) + 1):
        mine = np.flatnonzero(fold == f)
        for first in range(0, len(mine), _ROWS):
            yield f, mine[first : first + _ROWS]


def indicators(action: Ints, A: int) -> Floats:
    """Return 1{a_l = b} (K, A, n), zero in the padding."""
    return np.asarray(action.T[:, None] == np.arange(A)[:, None], dtype=np.float64)


def expected(wanted: Floats, lengths: Ints, K: int) -> Floats:
    """Return a distribution (n, 1 or K, A) as (K, A, n), zero in the padding.

    (1, A, n) where all positions have the same and none is padded.
    """
    columns = np.ascontiguousarray(wanted.transpose(1, 2, 0))
    if not (lengths == K).all():
        columns = columns * (np.arange(K)[:, None, None] < lengths)
    return np.asarray(columns)


class Block:
    """Rows as columns: the context, and the actions at each position or their chances.

    `shown` (K or 1, A, n) are indicators of actions, or a distribution of independent positions. Columns
    are linear in it, except for products of counts, whose means contain covariances.
    """

    def __init__(self, layout: Layout, given: Arrays, shown: Floats, *, sure: bool) -> None:
        self.layout, self.shown = layout, shown
        self._x, self._centre = np.ascontiguousarray(given.x.T), given.centre.T
        self._rich = bool(layout.cross or layout.squares)
        if not self._rich:
            return
        logging = expected(given.logging, given.lengths, layout.K)
        self._counts, self._means = _all_but(shown, layout.K), _all_but(logging, layout.K)
        if layout.squares:
            self._spread = _all_but(_covariances(layout, logging), layout.K)
            self._extra = None if sure else _all_but(_covariances(layout, shown), layout.K)

    def columns(self, k: int, out: Floats) -> None:
        """Fill out (D, n) with the columns of position k."""
        layout = self.layout
        centre, cross, squares, blocks = layout.starts
        out[:centre], out[centre:cross] = self._x, self._centre
        if self._rich:
            count, mean = self._counts(k), self._means(k)
            _cross(layout, self._x, count - mean, out[cross:squares])
        if layout.squares:
            b, c = layout.products
            extra = 0.0 if self._extra is None else self._extra(k)
            second = mean[b] * mean[c] + self._spread(k) - extra
            np.subtract(count[b] * count[c], second, out=out[squares:blocks])
        for block in range(layout.blocks):
            members = [m for m in range(layout.K) if m != k and layout.slots[k, m] == block]
            first = blocks + block * layout.A
            out[first : first + layout.A] = self._summed(members)

    def _summed(self, members: list[int]) -> Floats | float:
        if not members:
            return 0.0
        if len(self.shown) == 1:
            return np.asarray(len(members) * self.shown[0])
        return np.asarray(sum((self.shown[m] for m in members[1:]), start=self.shown[members[0]]))


def _cross(layout: Layout, x: Floats, centred: Floats, out: Floats) -> None:
    if layout.cross:
        np.multiply(x[1:, None], centred, out=out.reshape(layout.d, layout.A, -1))


def _covariances(layout: Layout, chance: Floats) -> Floats:
    """Return p(b) (1{b = c} - p(c)) by position; independent positions add up."""
    b, c = layout.products
    return np.asarray(chance[:, b] * ((b == c)[:, None] - chance[:, c]))


def logged_values(layout: Layout, given: Arrays, coef: Floats) -> Floats:
    """Return z' coef[fold, k, a_k] (n, K) for coefficients (F, K, A, D), zero in the padding."""
    b, c = layout.products if layout.squares else (np.empty(0, np.int64),) * 2
    shape, out = Shape(layout.slots, b, c, layout.cross), np.empty(given.action.shape)
    requests = given.x, given.centre, given.logging
    row = np.arange(len(out)) if given.row is None else given.row
    fill_values(shape, given.action, row, given.fold, requests, coef, out)
    return out


class Shape(NamedTuple):
    """What the kernel reads of a layout: slots (K, K), actions whose counts are multiplied, cross columns."""

    slots: Ints
    b: Ints
    c: Ints
    cross: bool


@vector_jit
def fill_values(  # noqa: C901
    shape: Shape, action: Ints, row: Ints, fold: Ints, given: tuple[Floats, Floats, Floats],
    coef: Floats, out: Floats,
) -> None:  # fmt: skip
    """Fill out (m, K) with z' coef[fold, k, a_k] of rankings of the requests `row` (m,), zero in the padding."""
    (slots, b, c, cross), (x, centre, logging) = shape, given
    (m, K), A, d, places = action.shape, coef.shape[2], x.shape[1], logging.shape[1]
    dense = d + A + len(b) + (A * (d - 1) if cross else 0)
    count, mean, second, made = np.empty(A), np.empty(A), np.empty(len(b)), np.full(A, -1)
    # Slots with the same action share their columns where all positions have one distribution.
    z = np.empty((A, dense))
    for i in range(m):
        r, f, length = row[i], fold[i], 0
        for a in range(A):
            count[a] = 0.0
        for k in range(K):
            out[i, k] = 0.0
            if action[i, k] >= 0:
                count[action[i, k]] += 1.0
                length += 1
        for k in range(length):
            u = action[i, k]
            if places > 1 or made[u] != i:
                made[u] = i
                count[u] -= 1.0
                for a in range(A):
                    mean[a] = 0.0
                for j in range(len(b)):
                    second[j] = 0.0
                for other in range(min(length, places)):
                    times = length - 1.0 if places == 1 else (0.0 if other == k else 1.0)
                    for a in range(A):
                        mean[a] += times * logging[r, other, a]
                    for j in range(len(b)):
                        same = 1.0 if b[j] == c[j] else 0.0
                        own = times * logging[r, other, b[j]]
                        second[j] += own * (same - logging[r, other, c[j]])
                for j in range(d):
                    z[u, j] = x[r, j]
                for a in range(A):
                    z[u, d + a] = centre[r, a]
                at = d + A
                for j in range(1, d if cross else 0):
                    for a in range(A):
                        z[u, at + a] = x[r, j] * (count[a] - mean[a])
                    at += A
                for j in range(len(b)):
                    product = count[b[j]] * count[c[j]] - mean[b[j]] * mean[c[j]]
                    z[u, at + j] = product - second[j]
                count[u] += 1.0
            value = 0.0
            for j in range(dense):
                value += z[u, j] * coef[f, k, u, j]
            for other in range(length):
                if other != k:
                    value += coef[f, k, u, dense + slots[k, other] * A + action[i, other]]
            out[i, k] = value


def _all_but(values: Floats, K: int) -> Callable[[int], Floats]:
    """Return the function that gives the sum over all positions but one; one row of values serves all K."""
    if len(values) == 1:
        rest = np.asarray((K - 1) * values[0])
        return lambda k: rest
    total = values.sum(axis=0)
    return lambda k: np.asarray(total - values[k])


def pair_slots(K: int) -> Ints:
    """Return one block for each other position (K, K); the diagonal is never read.

    >>> pair_slots(3).tolist()
    [[0, 0, 1], [0, 0, 1], [0, 1, 1]]
    """
    other = np.arange(K)
    return np.where(other < other[:, None], other, np.maximum(other - 1, 0)).astype(np.int64)


def count_slots(K: int) -> Ints:
    """Return block 0 for positions above and block 1 for those below (K, K)."""
    return np.triu(np.ones((K, K), dtype=np.int64), 1)


def whole_distribution(batch: RankingLog, name: str) -> Floats | None:
    """Return a policy's distribution as (n, 1 or K, A), contiguous, or None when the log does not have it."""
    table = batch.distribution(name)
    if table is None:
        return None
    return np.ascontiguousarray(table if table.ndim == 3 else table[:, None, :])


def can_average(batch: RankingLog, target: str) -> bool:
    """Return whether a model's mean under the target can be formed: from its distribution, or from draws."""
    if batch.distribution(target) is not None:
        return True
    policy = batch.targets.get(target)
    return isinstance(policy, Policy) and "sample" in policy.capabilities


def choose_folds(A: int) -> int:
    """Return the number of folds: fewer where each own action has few rows."""
    if A <= 4:
        return 4
    return 3 if A <= 10 else 2
