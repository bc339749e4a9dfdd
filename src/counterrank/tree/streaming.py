"""Growth on a log that does not fit in memory: one pass a level, histograms added over batches.

Bins are fixed beforehand (from a sample); every tree of every fold grows in the same passes. The
result is that of growth in memory on all rows with the same bins.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior import Candidate
from counterrank.errors import BehaviorError
from counterrank.log import RankingLog
from counterrank.ratios import ratios_of
from counterrank.source import Source
from counterrank.tree.binning import Bins, Codes
from counterrank.tree.growing import Grower, Scorer, choose_again, finish, node_sums, prune
from counterrank.tree.kernels.statistics import Rows, route
from counterrank.tree.models import TreeModels, contributions, models_of
from counterrank.tree.objective import MSEEstimate, Objective
from counterrank.tree.settings import Limits
from counterrank.tree.training import Position, held_out

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sums:
    """Arrays that add, one by one."""

    arrays: tuple[Floats, ...]

    def __add__(self, other: Self) -> Self:
        return type(self)(tuple(a + b for a, b in zip(self.arrays, other.arrays, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A source with everything that is fixed before the first pass."""

    source: Source
    target: str
    candidates: tuple[Candidate, ...]
    bins: Bins
    limits: Limits
    tails: Floats  # (K, M)
    folds: int

    def parts(self, batch: RankingLog, fold: int) -> tuple[Bools, Bools]:
        """Return the rows of a batch that grow the tree of a fold, and those that confirm it."""
        rows = batch.bucket % self.folds != fold if self.folds > 1 else np.ones(batch.n, dtype=bool)
        held = held_out(batch, self.limits.prune)
        return rows & ~held, rows & held

    def codes(self, batch: RankingLog) -> Codes:
        """Return the bins of a batch's contexts."""
        return self.bins.codes(np.empty((batch.n, 0)) if batch.context is None else batch.context)


def grow_streamed(stream: Stream, estimate: MSEEstimate, *, n_apply: int) -> list[list[Grower]]:
    """Return the trees of each fold and position (folds, K), grown in max_depth + 2 passes."""
    if not estimate.streams:
        raise BehaviorError(
            f"mse='{estimate.name}' needs rows in memory; grow on a sample, or use mse='gl'"
        )
    places = models_of(stream.candidates, per_position=True)
    objectives = _objectives(stream, estimate, places, n_apply)
    counts, kinds = stream.bins.counts, stream.bins.categorical
    growers = [[Grower(o[0], stream.limits, counts, kinds) for o in row] for row in objectives]
    # All folds and positions grow in the same passes: reading costs more than summing.
    first = stream.source.reduce(
        _pass(stream, places, growers, _roots), label="behaviour tree: root"
    )
    for grower, sums in zip(_flat(growers), first.arrays, strict=True):
        grower.start(sums[0])
    while any(len(g.wants) for g in _flat(growers)):
        hist = stream.source.reduce(
            _pass(stream, places, growers, _histograms), label="behaviour tree: level"
        )
        for grower, sums in zip(_flat(growers), hist.arrays, strict=True):
            if len(grower.wants):
                grower.split(sums)
    if stream.limits.prune > 0:
        last = stream.source.reduce(
            _pass(stream, places, growers, _confirmations), label="behaviour tree: confirm"
        )
        for grower, sums, trio in zip(_flat(growers), last.arrays, _flat(objectives), strict=True):
            prune(grower, Scorer(trio[1], sums[1]))
            # A pruned node's own sums are there already: every node has those of all its rows.
            choose_again(grower, Scorer(trio[2], sums[0] + sums[1]))
            grower.stats, grower.objective = sums[0] + sums[1], trio[2]
    for grower in _flat(growers):
        finish(grower)
    return growers


def _flat(rows: Sequence[Sequence[T]]) -> list[T]:
    return [item for row in rows for item in row]


Collect = Callable[[Grower, Rows, Codes, tuple[Bools, Bools]], Floats]


def _pass(
    stream: Stream,
    places: Sequence[TreeModels],
    growers: Sequence[Sequence[Grower]],
    collect: Collect,
) -> Callable[[RankingLog], Sums]:
    """Return the partial that collects one array for each fold and position from a batch."""

    def partial(batch: RankingLog) -> Sums:
        y, _ = contributions(ratios_of(batch, stream.target), stream.candidates)
        codes, one = stream.codes(batch), np.ones(batch.n)
        every = [
            growers[0][k].objective.rows(np.ascontiguousarray(y[k, place.models].T), one)
            for k, place in enumerate(places)
        ]
        parts = [stream.parts(batch, fold) for fold in range(stream.folds)]
        return Sums(
            tuple(
                collect(grower, every[k], codes, parts[fold])
                for fold, row in enumerate(growers)
                for k, grower in enumerate(row)
            )
        )

    return partial


def _roots(grower: Grower, rows: Rows, codes: Codes, parts: tuple[Bools, Bools]) -> Floats:
    return rows.totals(np.where(parts[0], 0, -1).astype(np.int32), 1)


def _histograms(grower: Grower, rows: Rows, codes: Codes, parts: tuple[Bools, Bools]) -> Floats:
    wanted = grower.wants
    node = (
        _nodes(grower, codes, parts[0]) if len(wanted) else np.full(len(codes), -1, dtype=np.int32)
    )
    return grower.histograms(rows, codes, node, wanted)


def _confirmations(grower: Grower, rows: Rows, codes: Codes, parts: tuple[Bools, Bools]) -> Floats:
    index = [np.flatnonzero(part) for part in parts]
    return np.stack([node_sums(grower, rows.subset(i), codes[i]) for i in index])


def _nodes(grower: Grower, codes: Codes, rows: Bools) -> NDArray[np.int32]:
    node = np.where(rows, 0, -1).astype(np.int32)
    for _ in range(grower.level):
        route(codes, node, grower.tree, grower.goes_left)
    return node


def _objectives(
    stream: Stream, estimate: MSEEstimate, places: Sequence[TreeModels], n_apply: int
) -> list[list[tuple[Objective, Objective, Objective]]]:
    """Return the objectives on growing, confirming and all rows for each fold and position, from
    one pass.
    """
    K, M = len(places), len(stream.candidates)

    def partial(batch: RankingLog) -> Sums:
        y, _ = contributions(ratios_of(batch, stream.target), stream.candidates)
        out = np.zeros((stream.folds, 2, 2, K, M))
        rows = np.zeros((stream.folds, 2))
        for fold in range(stream.folds):
            for part, chosen in enumerate(stream.parts(batch, fold)):
                some = y[:, :, chosen]
                out[fold, part] = some.sum(axis=2), np.einsum("kmn,kmn->km", some, some)
                rows[fold, part] = chosen.sum()
        return Sums((out, rows))

    sums, rows = stream.source.reduce(partial, label="behaviour tree: sums").arrays

    def objective(k: int, total: Floats, n: float) -> Objective:
        place = places[k]
        mean, second = total[:, k, place.models] / max(n, 1)
        position = Position(
            index=k,
            containing=place.containing,
            densest=place.densest,
            sparsest=place.sparsest,
            moments=lambda: (mean, second),
            tails=stream.tails[k, place.models],
            n_grow=int(max(n, 1)),
            n_apply=n_apply,
        )
        return estimate.objective(position)

    return [
        [
            (
                objective(k, sums[f, 0], rows[f, 0]),
                objective(k, sums[f, 1], rows[f, 1]),
                objective(k, sums[f].sum(axis=0), rows[f].sum()),
            )
            for k in range(K)
        ]
        for f in range(stream.folds)
    ]
