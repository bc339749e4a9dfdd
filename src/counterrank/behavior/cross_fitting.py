"""The cross-fitted tree: grown on some units, applied to the others.

Growth is on a sample in memory, or on a log that does not fit: then one pass a level, histograms
added over batches, every tree of every fold in the same passes. Bins are fixed beforehand from the
sample; the result is that of growth in memory on all rows with the same bins.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior import words
from counterrank.behavior.behavior_tree import BehaviorTree
from counterrank.behavior.forest import Forest, assemble, joined
from counterrank.behavior.growing import Grower, Rows, choose, confirm, finish, rows_of
from counterrank.behavior.masks import Candidate
from counterrank.behavior.objective import MSEEstimate, Objective, mse_estimate
from counterrank.behavior.settings import FOLDS, SAMPLE_ROWS, SAMPLE_STREAM, STABILITY_ROWS, Limits
from counterrank.behavior.training import (
    Bins,
    Codes,
    Position,
    TrainingSet,
    TreeModels,
    contributions,
    held_out,
    models_of,
)
from counterrank.data.log import RankingLog
from counterrank.data.source import Source
from counterrank.errors import BehaviorError, ConfigError
from counterrank.weights.ratios import Ratios, ratios_of

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """F forests; a row of fold f = bucket mod F gets the forest grown without that fold.

    `stability` is the share of (ranking, position) pairs to which all forests give the same model.
    """

    trees: tuple[Forest, ...]
    together: Forest
    stability: float = 1.0
    notes: tuple[str, ...] = ()

    def weights(self, batch: RankingLog, ratios: Ratios) -> Floats:
        """Return importance weights (n, K), each row's by the forest that has not seen its unit."""
        return self.together.weights(batch.context, ratios, batch.bucket)

    def describe(self) -> dict[str, Any]:
        """Return the forests as plain values for JSON, with stability and mean importance of each
        feature.
        """
        folds = [words.describe(forest) for forest in self.trees]
        names = self.trees[0].context_names
        return {
            "cross_fitted": len(self.trees) > 1,
            "stability": self.stability,
            "importance": {
                name: float(np.mean([fold["importance"][name] for fold in folds])) for name in names
            },
            "notes": list(self.notes),
            "folds": folds,
        }


def fit_cross_fitted(
    source: Source,
    target: str,
    *,
    seed: int,
    tree: BehaviorTree | None = None,
    folds: int = FOLDS.value,
    rows: int = SAMPLE_ROWS.value,
    grow_on: str = "sample",
) -> CrossFitted:
    """Return forests, one for each fold left out, grown on a sample of `rows` rankings or on the
    whole stream.

    `grow_on` "sample" holds the sample in memory; "stream" passes over the source once a level,
    with bins fixed by the sample. Variances are those of the whole log either way.
    """
    if grow_on not in ("sample", "stream"):
        raise ConfigError(f"grow_on is '{grow_on}'; use 'sample' or 'stream'")
    plan = BehaviorTree() if tree is None else tree
    log = source.sample(rows, np.random.default_rng([seed, SAMPLE_STREAM]))
    # Bins come from all folds' contexts, no rewards among them: nothing to overfit with.
    data, notes = plan.training_set(log, target, seed=seed)
    n_apply = source.n or log.n
    parts = [log.bucket % folds != f for f in range(folds)]
    if not all(part.any() for part in parts):
        # One unit, or very few: nothing is left to grow on when they are taken out.
        notes = (*notes, "not cross-fitted: too few units; the choice of behaviour is optimistic")
        folds, parts = 1, [np.ones(log.n, dtype=bool)]
    if grow_on == "stream":
        trees = _streamed(plan, data, source, notes, folds=folds, n_apply=n_apply)
    else:
        fresh = np.zeros(data.fresh, dtype=bool)
        kept = [np.concatenate([part, fresh]) for part in parts]
        trees = plan.grow(data, kept, n_apply=n_apply, seed=seed, notes=notes)
    return CrossFitted(tuple(trees), joined(trees), _stability(trees, data), notes)


def _streamed(
    plan: BehaviorTree,
    data: TrainingSet,
    source: Source,
    notes: tuple[str, ...],
    *,
    folds: int,
    n_apply: int,
) -> list[Forest]:
    if not plan.per_position:
        raise ConfigError(
            "grow_on='stream' grows one tree a position; use grow_on='sample' with "
            "per_position=False"
        )
    estimate = mse_estimate(plan.mse)
    stream = Stream(
        source=source,
        target=data.target,
        candidates=data.candidates,
        bins=data.bins,
        limits=plan.limits,
        tails=data.tails,
        folds=folds,
    )
    return [
        assemble(growers, data, mse=estimate.name, notes=notes)
        for growers in grow_streamed(stream, estimate, n_apply=n_apply)
    ]


def _stability(trees: Sequence[Forest], data: TrainingSet) -> float:
    context = data.context[: min(data.log.n, STABILITY_ROWS.value)]
    models = [forest.assign(context, len(context)) for forest in trees]
    same = np.all([m == models[0] for m in models], axis=0)
    return float(same.mean())


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
    _grow_levels(stream, growers)
    if stream.limits.prune > 0:
        last = _collected(stream, growers, _confirmations, "confirm")
        for (grower, sums), trio in zip(last, _flat(objectives), strict=True):
            confirm(grower, trio[1], sums[1])
            # A pruned node's own sums are there already: every node has those of all its rows.
            choose(grower, trio[2], sums[0] + sums[1])
    for grower in _flat(growers):
        finish(grower)
    return growers


def _grow_levels(stream: Stream, growers: Sequence[Sequence[Grower]]) -> None:
    """Grow every tree to its end: a pass for the roots, and one for each level."""
    # All folds and positions grow in the same passes: reading costs more than summing.
    for grower, sums in _collected(stream, growers, _roots, "root"):
        grower.start(sums)
    while any(len(g.wants) for g in _flat(growers)):
        for grower, sums in _collected(stream, growers, _histograms, "level"):
            if len(grower.wants):
                grower.split(sums)


def _flat(rows: Sequence[Sequence[T]]) -> list[T]:
    return [item for row in rows for item in row]


Collect = Callable[[Grower, Rows, tuple[Bools, Bools]], Floats]


def _collected(
    stream: Stream, growers: Sequence[Sequence[Grower]], collect: Collect, step: str
) -> list[tuple[Grower, Floats]]:
    """Return each tree with what one pass over the source collects for it."""

    def partial(batch: RankingLog) -> Sums:
        y, _ = contributions(ratios_of(batch, stream.target), stream.candidates)
        codes, one = stream.codes(batch), np.ones(batch.n)
        every = [rows_of(g.objective, y[k], one, codes) for k, g in enumerate(growers[0])]
        parts = [stream.parts(batch, fold) for fold in range(stream.folds)]
        return Sums(
            tuple(
                collect(grower, every[k], parts[fold])
                for fold, row in enumerate(growers)
                for k, grower in enumerate(row)
            )
        )

    found = stream.source.reduce(partial, label=f"behaviour tree: {step}")
    return list(zip(_flat(growers), found.arrays, strict=True))


def _roots(grower: Grower, rows: Rows, parts: tuple[Bools, Bools]) -> Floats:
    return rows._replace(chosen=np.flatnonzero(parts[0])).totals()


def _histograms(grower: Grower, rows: Rows, parts: tuple[Bools, Bools]) -> Floats:
    # A finished tree reads no row, but keeps its place among the sums. The others walk down from
    # the root each time: a stream remembers nobody's node.
    if not len(grower.wants):
        return np.zeros(0)
    return grower.histograms(rows._replace(chosen=np.flatnonzero(parts[0])), grower.wants)


def _confirmations(grower: Grower, rows: Rows, parts: tuple[Bools, Bools]) -> Floats:
    return np.stack(
        [grower.node_sums(rows._replace(chosen=np.flatnonzero(part))) for part in parts]
    )


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
                for k, place in enumerate(places):
                    some = y[k][chosen]
                    out[fold, part, 0, k, place.models] = some.sum(axis=0)
                    out[fold, part, 1, k, place.models] = np.einsum("nm,nm->m", some, some)
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
            # A fold of few units may confirm nothing: zero sums over one row, and no division by
            # zero.
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
