"""The rows that trees of one log and target are grown on, prepared once and shared by the folds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior import Candidate
from counterrank.errors import BehaviorError
from counterrank.log import RankingLog
from counterrank.ratios import Ratios, ratios_of
from counterrank.tree.binning import Bins, Codes, make_bins
from counterrank.tree.models import TreeModels, contributions, inflation, models_of
from counterrank.tree.settings import Limits

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One position (or all as one): M models and what MSE estimates may need to know about them.

    `containing` (M, M): [j, m] whether model j is unbiased whenever m is. `densest` has the most
    items and the highest order, the reference for bias; `sparsest` the fewest. `tails` (M,) are
    factors by which the log understates second moments. `moments()` gives mean and second moment of
    y (M,) each. `memory` is None when the log is streamed.
    """

    index: int
    containing: Bools
    densest: int
    sparsest: int
    tails: Floats
    n_grow: int
    n_apply: int
    moments: Callable[[], tuple[Floats, Floats]]
    memory: "PositionRows | None" = None
    seed: int = 0

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.tails)

    def variance(self) -> Floats:
        """Return the variance of one contribution (M,), its tail corrected."""
        mean, second = self.moments()
        return np.maximum(self.tails * second - mean**2, 0.0)

    def rows_in_memory(self, name: str) -> "PositionRows":
        """Return the rows, or say that a stream has none."""
        if self.memory is None:
            raise BehaviorError(
                f"mse='{name}' needs rows in memory; grow on a sample (grow_on='sample') or use "
                "mse='gl'"
            )
        return self.memory


@dataclass(slots=True, kw_only=True)
class TrainingSet:
    """Binned contexts and contributions of the rows in memory.

    `log` are the rows of the log; `fresh` simulated rows for an oracle, which stand behind them in
    every array. Trees are counted by position; with one tree for all positions there is tree 0
    alone.
    """

    log: RankingLog
    target: str
    candidates: tuple[Candidate, ...]
    trees: list[TreeModels]
    bins: Bins
    codes: Codes  # (n, d)
    y: Floats  # (K, M, n)
    tails: Floats  # (K, M)
    context: Floats  # (n, d)
    ratios: Ratios
    per_position: bool
    fresh: int = 0
    shared: dict[tuple[str, bytes], object] = field(default_factory=dict)
    _weight: Floats | None = None
    _tree: int = -1
    _models: Floats = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def with_missing(self) -> tuple[str, ...]:
        """Names of the context columns that have missing values."""
        gaps = (self.codes == 0).any(axis=0)
        return tuple(name for name, gap in zip(self.log.context_names, gaps, strict=True) if gap)

    def contributions(self, tree: int) -> Floats:
        """Return the contributions of a tree's models (n, M): at one position, or over all of them."""
        if self._tree != tree:  # one at a time is kept: they are as large as the log
            # Models that coincide at a position are one: a choice between equals would be broken by
            # rounding.
            models = self.trees[tree].models
            if self.per_position:
                self._models = np.ascontiguousarray(self.y[tree, models].T)
            else:
                self._models = np.einsum("k,kmn->nm", self.log.position_weights, self.y[:, models])
            self._tree = tree
        return self._models

    def part(self, rows: Bools) -> "Part":
        """Return some rows of the log (n,), with all the fresh ones."""
        index = (
            np.flatnonzero(rows | (self.is_logged() == 0)) if self.fresh else np.flatnonzero(rows)
        )
        return Part(rows, index, self.codes[index])

    def position(self, tree: int, rows: Bools, *, n_apply: int, seed: int) -> Position:
        """Return what an MSE estimate sees of a tree's rows (n,)."""
        place = self.trees[tree]
        tails = (
            self.tails[tree, place.models]
            if self.per_position
            else self.tails[:, place.models].max(axis=0)
        )
        memory = PositionRows(self, tree, rows)
        return Position(
            index=tree if self.per_position else -1,
            containing=place.containing,
            densest=place.densest,
            sparsest=place.sparsest,
            tails=tails,
            n_grow=max(int(np.count_nonzero(rows)), 1),
            n_apply=n_apply,
            moments=memory.moments,
            memory=memory,
            seed=seed,
        )

    def is_logged(self) -> Floats:
        """Return 1 for rows of the log, 0 for fresh ones (n,)."""
        return padded(np.ones(self.log.n), self.fresh)

    def held_out(self, share: float) -> Bools:
        """Return which rows (n,) confirm splits: whole units, the same for every position and fold."""
        return np.concatenate([held_out(self.log, share), np.zeros(self.fresh, dtype=bool)])

    def whole_weights(self) -> Floats:
        """Return the weights of whole rankings (n,), ones where the log has no joint probability."""
        if self._weight is None:
            ratios = self.ratios
            whole = ratios.full()[:, 0] if "joint" in ratios.supports else np.ones(self.log.n)
            self._weight = padded(np.ascontiguousarray(whole), self.fresh)
        return self._weight


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a training set, their bins next to each other in memory."""

    rows: Bools  # (n,)
    index: Ints
    codes: Codes


@dataclass(frozen=True, slots=True)
class PositionRows:
    """Some rows of a training set as one position sees them; arrays are made when asked for."""

    data: TrainingSet
    tree: int
    rows: Bools

    @property
    def y(self) -> Floats:
        """Contributions (n, M)."""
        return self.data.contributions(self.tree)

    @property
    def weight(self) -> Floats:
        """Weights of whole rankings (n,)."""
        return self.data.whole_weights()

    @property
    def reward(self) -> Floats:
        """Rewards of the position, or of the ranking (n,)."""
        log = self.data.log
        reward = (
            log.reward[:, self.tree]
            if self.data.per_position
            else log.reward @ log.position_weights
        )
        return padded(reward, self.data.fresh)

    @property
    def ratios(self) -> Ratios:
        """Ratios of the two policies on the rows of the log."""
        return self.data.ratios

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The models before those that coincide at a position are joined."""
        return self.data.candidates

    def contributed(self, weights: Floats) -> Floats:
        """Return contributions (n, M) under other weights (K, candidates, n) of the log's rows."""
        log, models = self.data.log, self.data.trees[self.tree].models
        if self.data.per_position:
            return np.ascontiguousarray((weights[self.tree, models] * log.reward[:, self.tree]).T)
        summed: Floats = np.einsum(
            "nk,kmn->nm", log.reward * log.position_weights, weights[:, models]
        )
        return summed

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` gives, computed once for these rows whatever the position."""
        key = (name, self.rows.tobytes())
        if key not in self.data.shared:
            self.data.shared[key] = make()
        return cast("T", self.data.shared[key])

    def moments(self) -> tuple[Floats, Floats]:
        """Return mean and second moment of y (M,) over the rows."""
        some = self.y[self.rows]
        return some.mean(axis=0), np.einsum("nm,nm->m", some, some) / len(some)


def prepare(
    log: RankingLog,
    target: str,
    candidates: tuple[Candidate, ...],
    limits: Limits,
    *,
    per_position: bool,
    rng: np.random.Generator,
    fresh: RankingLog | None = None,
) -> TrainingSet:
    """Return binned contexts and contributions of a log."""
    context = _context(log)
    categorical = np.array([name in log.categories for name in log.context_names], dtype=bool)
    bins = make_bins(context, categorical, most=limits.bins_for(log.n), rng=rng)
    ratios = ratios_of(log, target)
    y, seen = contributions(ratios, candidates)
    if fresh is not None:
        context = np.concatenate([context, _context(fresh)])
        y = np.concatenate([y, contributions(ratios_of(fresh, target), candidates)[0]], axis=2)
    return TrainingSet(
        log=log,
        target=target,
        candidates=candidates,
        trees=models_of(candidates, per_position=per_position),
        bins=bins,
        codes=bins.codes(context),
        y=y,
        tails=inflation(log, target, ratios, candidates, seen),
        context=context,
        ratios=ratios,
        per_position=per_position,
        fresh=0 if fresh is None else fresh.n,
    )


def held_out(batch: RankingLog, share: float) -> Bools:
    """Return which rows (n,) of a batch confirm splits: whole units."""
    # Folds use bucket mod F; the quotient splits each fold's units afresh.
    part: Bools = (batch.bucket // 8) % 16 < round(16 * share)
    return part


def _context(log: RankingLog) -> Floats:
    return np.empty((log.n, 0)) if log.context is None else log.context


def padded(values: Floats, extra: int) -> Floats:
    """Return the values followed by `extra` zeros."""
    return values if extra == 0 else np.concatenate([values, np.zeros(extra)])
