"""What a tree minimises: an MSE estimate of the whole assignment, as sums over its leaves.

An MSE estimate turns a `Position` (what is known at one position of the ranking) into an
`Objective`. The grower knows nothing else about it.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from counterrank.tree.kernels.statistics import Goal, Rows
from counterrank.tree.training import Position

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The sums over leaves ("channels") and the scoring rule that `kernels.search` works with.

    `pairs` (P, 2): products of contributions to sum; `compare` (J,) models the assignment is held
    against, each only where `against[j, m]`; or `replicates` (B, n) row weights of `averaged`, with
    `targets` T_b. `overlap` False: a squared difference counts as far as it exceeds `kappa`
    variances; True: intervals of `kappa` standard errors, of the assignment and of each model
    (`widths`), must meet.
    """

    models: int
    n_grow: int
    n_apply: int
    tails: Floats
    compare: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    against: Bools = field(default_factory=lambda: np.empty((0, 0), dtype=bool))
    replicates: Floats = field(default_factory=lambda: np.empty((0, 0)))
    averaged: Floats | None = (
        None  # (n, M) what replicates are sums of, instead of the contributions
    )
    value: Floats | None = None  # (1,) a known value to hold the mean against
    targets: Floats = field(default_factory=lambda: np.empty(0))
    widths: Floats = field(default_factory=lambda: np.empty(0))
    contrast: tuple[int, int] = (0, 0)
    overlap: bool = False
    average: bool = False
    kappa: float = 1.0
    variance_weight: float = 1.0

    @property
    def comparisons(self) -> int:
        """Number of channels D_j."""
        if self.value is not None:
            return 1
        return len(self.replicates) or len(self.compare)

    @property
    def pairs(self) -> Ints:
        """Products of contributions that must be summed (P, 2): squares, then crosses with the
        compared models.
        """
        return _pairs(self.models, tuple(self.compare.tolist()), self.against.tobytes())

    @property
    def width(self) -> int:
        """Length of a row's statistics."""
        return 1 + self.models + len(self.pairs) + len(self.replicates) * self.models

    @property
    def rule(self) -> Floats:
        """Numbers of the scoring rule."""
        numbers = [
            self.overlap,
            self.average,
            self.kappa,
            self.variance_weight,
            1 / self.n_apply,
            1 / self.n_grow,
        ]
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

    def terms(self) -> tuple[Ints, Floats, tuple[int, int]]:
        """Return how a leaf's channels (M, C) follow from its statistics, as a list of terms.

        (3, T) model, channel and statistic of each term; (T,) its coefficient; and the shape (M,
        C).
        """
        kind = (
            "value"
            if self.value is not None
            else "replicates"
            if len(self.replicates)
            else "compare"
        )
        terms, sign, tails, plain = _structure(
            self.models,
            tuple(self.compare.tolist()),
            self.against.tobytes(),
            kind,
            self.comparisons,
        )
        # A second moment of model m is understated by tails[m], a product of m and o by the
        # geometric mean.
        up = np.ones(self.models + 1)
        np.sqrt(self.tails, out=up[:-1])
        coef: Floats = sign * up[tails[0]] * up[tails[1]]
        return (
            terms,
            np.where(plain, coef, coef / self.n_grow),
            (self.models, 2 + 2 * self.comparisons),
        )

    @property
    def goal(self) -> Goal:
        """The objective as the kernels take it."""
        contrast = np.array([1 + m for m in self.contrast], dtype=np.int64)
        return Goal(*self.terms(), self.rule, self.marks, contrast)

    def rows(self, y: Floats, use: Floats) -> Rows:
        """Return the rows behind the statistics, of contributions y (n, M)."""
        by_row = (
            np.ascontiguousarray(self.replicates.T)
            if len(self.replicates)
            else np.empty((len(y), 0))
        )
        return Rows(y, use, self.pairs, by_row, y if self.averaged is None else self.averaged)


@lru_cache(maxsize=256)
def _structure(
    models: int, compare: tuple[int, ...], against: bytes, kind: str, count: int
) -> tuple[Ints, Floats, Ints, Bools]:
    """Return the terms (3, T), their signs (T,), the two models whose tails scale them (2, T), and
    which are plain.

    The number of models stands for "no tail". Plain sums are not divided by the number of rows.
    """
    pairs = _pairs(models, compare, against)
    where = np.frombuffer(against, dtype=bool).reshape(len(compare), models)
    place = {(int(a), int(b)): 1 + models + p for p, (a, b) in enumerate(pairs)}
    none, rows = models, []  # model, channel, statistic, sign, tail, tail, plain
    for m in range(models):
        own = (1 + m, place[m, m])
        rows += [(m, 0, own[0], 1, none, none, 0), (m, 1, own[1], 1, m, m, 0)]
        for j in range(count):
            if kind == "value":
                rows += [(m, 2, own[0], 1, none, none, 0), (m, 3, own[1], 1, m, m, 0)]
            elif kind == "replicates":
                rows.append((m, 2 + j, 1 + models + len(pairs) + j * models + m, 1, none, none, 1))
            elif where[j, m] and m != compare[j]:
                o, square = compare[j], 2 + count + j
                rows += [(m, 2 + j, 1 + m, 1, none, none, 0), (m, 2 + j, 1 + o, -1, none, none, 0)]
                rows += [(m, square, own[1], 1, m, m, 0), (m, square, place[o, o], 1, o, o, 0)]
                rows.append((m, square, place[min(m, o), max(m, o)], -2, m, o, 0))
    table = np.array(rows, dtype=np.int64).T
    return np.ascontiguousarray(table[:3]), table[3].astype(np.float64), table[4:6], table[6] > 0


@lru_cache(maxsize=256)
def _pairs(models: int, compare: tuple[int, ...], against: bytes) -> Ints:
    where = np.frombuffer(against, dtype=bool).reshape(len(compare), models)
    squares = [(m, m) for m in range(models)]
    crosses = {
        (min(m, j), max(m, j))
        for row, j in zip(where, compare, strict=True)
        for m in range(models)
        if row[m] and m != j
    }
    return np.array(squares + sorted(crosses), dtype=np.int64)


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
