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

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.encoding import ContextMoments, context_columns
from counterrank.data.log import LOGGING, RankingLog
from counterrank.policies import Policy

#: Rows of one block: its columns fit into the cache, and calls cost little beside the arithmetic.
_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays from which columns are made: x (n, d+1), centre (n, A), logging (n, 1 or K, A), fold (n,)."""

    action: Ints
    lengths: Ints
    fold: Ints
    x: Floats
    centre: Floats
    logging: Floats

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
    for f in np.unique(fold):
        mine = np.flatnonzero(fold == f)
        for first in range(0, len(mine), _ROWS):
            yield int(f), mine[first : first + _ROWS]


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


def whole_columns(layout: Layout, given: Arrays) -> Floats:
    """Return the columns of whole rankings (T, n).

    Counts contain all positions, are centred as for a position's others, and each position has
    indicators of its own. Where there are cross or square columns all positions must have one logging
    distribution.
    """
    shown, (centre, cross, squares, blocks) = indicators(given.action, layout.A), layout.starts
    out = np.empty((blocks + layout.K * layout.A, len(given.action)))
    out[:centre], out[centre:cross] = given.x.T, given.centre.T
    if layout.cross or layout.squares:
        chance, others = given.logging[:, 0].T, given.lengths - 1
        count, mean = shown.sum(axis=0), others * chance
        _cross(layout, out[:centre], count - mean, out[cross:squares])
    if layout.squares:
        b, c = layout.products
        second = mean[b] * mean[c] + others * _covariances(layout, chance[None])[0]
        np.subtract(count[b] * count[c], second, out=out[squares:blocks])
    out[blocks:] = shown.reshape(layout.K * layout.A, -1)
    return out


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
