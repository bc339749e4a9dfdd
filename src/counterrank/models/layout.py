"""Which columns a linear reward model has, and how a batch becomes the arrays the kernels read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterrank.log import LOGGING, RankingLog
from counterrank.models.settings import MOST_LABELS
from counterrank.policies import Policy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scale:
    """Additive first and second moments of the context (d,), to standardise it; NaN counts as
    missing.
    """

    count: Floats
    first: Floats
    second: Floats

    def __add__(self, other: "Scale") -> "Scale":
        return Scale(self.count + other.count, self.first + other.first, self.second + other.second)

    def apply(self, values: Floats) -> Floats:
        """Return [1, (x - mean) / sd] (n, d+1); a missing value becomes the mean."""
        count = np.maximum(self.count, 1.0)
        mean = self.first / count
        spread = np.sqrt(np.maximum(self.second / count - mean**2, 0.0))
        sd = np.where(spread > 1e-12, spread, 1.0)
        out = np.ones((len(values), values.shape[1] + 1))
        out[:, 1:] = np.nan_to_num((values - mean) / sd, nan=0.0)
        return out


def scale_of(batch: RankingLog) -> Scale:
    """Return the context moments of a batch."""
    values = context_columns(batch)
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    return Scale(known.sum(axis=0).astype(float), filled.sum(axis=0), (filled**2).sum(axis=0))


def context_columns(batch: RankingLog) -> Floats:
    """Return the context as numbers (n, d): codes of known categories with few labels become
    indicators.
    """
    if batch.context is None:
        return np.empty((batch.n, 0))
    return encoded_context(batch.context, batch.context_names, batch.categories)


def encoded_context(
    context: Floats, names: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> Floats:
    """Return a context (n, d) of named columns as a model reads it, also away from the log it was
    fitted to.
    """
    columns: list[Floats] = []
    for j, name in enumerate(names):
        labels = categories.get(name, ())
        if 1 < len(labels) <= MOST_LABELS:
            # The first label is the baseline: with all of them columns would add up to the
            # intercept.
            columns.extend((context[:, j] == code).astype(float) for code in range(1, len(labels)))
        else:
            columns.append(context[:, j])
    return np.stack(columns, axis=1) if columns else np.empty((len(context), 0))


@dataclass(frozen=True, slots=True)
class Arrays:
    """A batch as the kernels read it: x (n, d+1), centre (n, A), logging (n, 1 or K, A), fold (n,)."""

    action: Ints
    lengths: Ints
    fold: Ints
    x: Floats
    centre: Floats
    logging: Floats


@dataclass(frozen=True, slots=True)
class Layout:
    """Shape of a linear model: K positions, A actions, d context columns, F folds, and its column
    groups.

    `blocks` (K, K) names the block of position l as seen from k: "pairs" gives each other position
    its own block, "counts" one for all above and one for all below.
    """

    K: int
    A: int
    d: int
    F: int
    slots: Ints
    scale: Scale
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

    def arrays(self, batch: RankingLog) -> Arrays:
        """Return the arrays of a batch."""
        logging = whole_distribution(batch, LOGGING)
        if logging is None:
            # Nothing to centre by: plain indicators, under the logger and under the target alike.
            logging = np.zeros((batch.n, 1, self.A))
        centre = (
            logging[:, 0] if logging.shape[1] == 1 else np.ascontiguousarray(logging.mean(axis=1))
        )
        x = self.scale.apply(context_columns(batch))
        return Arrays(batch.action, batch.lengths, batch.bucket % self.F, x, centre, logging)


def slimmed(layout: Layout, coef: Floats) -> tuple[Layout, Floats]:
    """Return the layout without the column groups that no coefficient (..., D) uses, and the
    coefficients left.
    """
    _, cross, squares, blocks = layout.starts
    use_cross = layout.cross and bool(coef[..., cross:squares].any())
    use_squares = bool(layout.squares) and bool(coef[..., squares:blocks].any())
    kept = np.r_[
        0:cross,
        cross : squares if use_cross else cross,
        squares : blocks if use_squares else squares,
        blocks : layout.width,
    ]
    slim = replace(layout, cross=use_cross, squares=layout.squares if use_squares else 0)
    return slim, np.ascontiguousarray(coef[..., kept])


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
    """Return a policy's distribution as (n, 1 or K, A), contiguous, or None when the log does not
    have it.
    """
    table = batch.distribution(name)
    if table is None:
        return None
    return np.ascontiguousarray(table if table.ndim == 3 else table[:, None, :])


def has_distribution(batch: RankingLog, target: str) -> bool:
    """Return whether the target's mean of a model can be formed exactly: its whole distribution is
    known.
    """
    return batch.distribution(target) is not None


def can_sample(batch: RankingLog, target: str) -> bool:
    """Return whether rankings of the target can be drawn."""
    policy = batch.targets.get(target)
    return isinstance(policy, Policy) and "sample" in policy.capabilities


def choose_folds(A: int) -> int:
    """Return the number of folds: fewer where each own action has few rows."""
    if A <= 4:
        return 4
    return 3 if A <= 10 else 2
