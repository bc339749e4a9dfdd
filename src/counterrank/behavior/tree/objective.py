"""What a tree minimises: an MSE estimate of the whole assignment, as sums over its leaves.

An MSE estimate turns a `Position` (what is known at one position of the ranking) into an `Objective`. The grower
knows nothing else about it.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One position (or all as one): M models, their contributions y_m = w_m r and what estimates may need.

    `rows` y, weight, reward, bucket are None when the log is streamed and only sums are known.
    """

    index: int
    relevant: Bools  # (M, K), or (M, K*K) when one model serves all positions
    order: Floats  # (M,) interaction order; the number of relevant items for the full product
    mean: Floats  # (M,) of y over the growing rows
    second: Floats  # (M,) of y^2
    tails: Floats  # (M,) factors by which the log understates second moments
    n_grow: int
    n_apply: int
    y: Floats | None = None  # (M, n)
    use: Floats | None = None  # (n,) 1 for growing rows
    weight: Floats | None = None  # (n,) of the whole ranking
    reward: Floats | None = None  # (n,)
    bucket: Ints | None = None  # (n,)
    context: Floats | None = None  # (n, d)
    action: Ints | None = None  # (n, K)
    seed: int = 0

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.mean)

    @property
    def variance(self) -> Floats:
        """Variance of one contribution (M,), its tail corrected."""
        return np.maximum(self.tails * self.second - self.mean**2, 0.0)

    @property
    def densest(self) -> int:
        """The model with the most items, of the highest order: the reference for bias."""
        size = self.relevant.sum(axis=1)
        return int(np.lexsort((-self.order, -size))[0])

    @property
    def sparsest(self) -> int:
        """The model with the least variance."""
        return int(np.argmin(self.variance))

    def contains(self, larger: int, smaller: int) -> bool:
        """Whether model `larger` is unbiased whenever `smaller` is."""
        covers = bool((self.relevant[larger] | ~self.relevant[smaller]).all())
        return covers and bool(self.order[larger] >= self.order[smaller])


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The channels and scoring rule that `kernels.splitting` works with.

    `pairs` (P, 2): products of contributions to sum; `compare` (J,) models the assignment is held against, each only
    where `against[j, m]`; or `replicates` (B, n) row weights with `targets` T_b. `mode` 0 soft, 1 Lepski, 2 SLOPE.
    """

    models: int
    n_grow: int
    n_apply: int
    tails: Floats
    compare: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    against: Bools = field(default_factory=lambda: np.empty((0, 0), dtype=bool))
    replicates: Floats = field(default_factory=lambda: np.empty((0, 0)))
    value: Floats | None = None  # (1,) a known value to hold the mean against
    targets: Floats = field(default_factory=lambda: np.empty(0))
    widths: Floats = field(default_factory=lambda: np.empty(0))
    contrast: tuple[int, int] = (0, 0)
    mode: int = 0
    average: bool = False
    kappa: float = 1.0
    variance_weight: float = 1.0
    use: Floats | None = None  # (n,) row weights, when they differ from "every growing row"

    @property
    def comparisons(self) -> int:
        """Number of channels D_j."""
        if self.value is not None:
            return 1
        return len(self.replicates) or len(self.compare)

    @property
    def pairs(self) -> Ints:
        """Products of contributions that must be summed (P, 2): squares, then crosses with the compared models."""
        squares = [(m, m) for m in range(self.models)]
        crosses = {
            (min(m, int(j)), max(m, int(j)))
            for row, j in zip(self.against, self.compare, strict=True)
            for m in range(self.models)
            if row[m] and m != j
        }
        return np.array(squares + sorted(crosses), dtype=np.int64)

    @property
    def width(self) -> int:
        """Length of a row's statistics."""
        return 1 + self.models + len(self.pairs) + len(self.replicates) * self.models

    @property
    def rule(self) -> Floats:
        """Numbers of the scoring rule."""
        numbers = [self.mode, self.average, self.kappa, self.variance_weight, 1 / self.n_apply, 1 / self.n_grow]
        return np.array(numbers, dtype=np.float64)

    @property
    def marks(self) -> Floats:
        """T_j and widths (2, J)."""
        count = self.comparisons
        out = np.zeros((2, count))
        if len(self.targets):
            out[0] = self.targets
        if len(self.widths):
            out[1] = self.widths
        return out

    def channels(self) -> tuple[Ints, Floats]:
        """Return index and coefficient (M, C, 3) that build a leaf's channels from its statistics."""
        M, J = self.models, self.comparisons
        index = np.zeros((M, 2 + 2 * J, 3), dtype=np.int64)
        coef = np.zeros((M, 2 + 2 * J, 3))
        place = {(int(a), int(b)): 1 + M + p for p, (a, b) in enumerate(self.pairs)}
        first = 1 + M + len(self.pairs)
        share = 1 / self.n_grow
        up = np.sqrt(self.tails)
        for m in range(M):
            index[m, 0, 0], coef[m, 0, 0] = 1 + m, share
            index[m, 1, 0], coef[m, 1, 0] = place[m, m], share * self.tails[m]
            for j in range(J):
                if self.value is not None:
                    index[m, 2], coef[m, 2] = index[m, 0], coef[m, 0]
                    index[m, 3], coef[m, 3] = index[m, 1], coef[m, 1]
                elif len(self.replicates):
                    index[m, 2 + j, 0], coef[m, 2 + j, 0] = first + j * M + m, 1.0
                elif self.against[j, m] and m != self.compare[j]:
                    other = int(self.compare[j])
                    cross = place[min(m, other), max(m, other)]
                    index[m, 2 + j], coef[m, 2 + j] = (1 + m, 1 + other, 0), (share, -share, 0.0)
                    index[m, 2 + J + j] = (place[m, m], place[other, other], cross)
                    coef[m, 2 + J + j] = share * up[m] ** 2, share * up[other] ** 2, -2 * share * up[m] * up[other]
        return index, coef

    def statistics(self, y: Floats, use: Floats) -> Floats:
        """Return the rows' statistics (n, L) of contributions y (M, n)."""
        from counterrank.kernels.histogram import row_statistics

        out = np.empty((y.shape[1], self.width))
        replicates = self.replicates if len(self.replicates) else np.empty((0, y.shape[1]))
        row_statistics(y, use if self.use is None else self.use, self.pairs, replicates, out)
        return out


class MSEEstimate(Protocol):
    """A way to estimate the MSE of an assignment."""

    @property
    def name(self) -> str:
        """Name in `BehaviorTree(mse=...)`."""

    @property
    def streams(self) -> bool:
        """Whether it needs sums only, so that the tree can be grown on a streamed log."""

    def objective(self, position: Position) -> Objective:
        """Return what the tree minimises at one position."""
