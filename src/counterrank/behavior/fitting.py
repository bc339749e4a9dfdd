"""A tree fitted to a log that may not fit into memory.

Growth is on a sample in memory, or on the whole log: then one pass a level, histograms added over
batches, the trees of all positions in the same passes. Bins are fixed beforehand from the sample;
the result is that of growth in memory on all rows with the same bins.

The rows that are averaged are those that choose. Weights have heavy tails: which models are
affordable depends on the extreme rows that this log happens to hold, and other rows do not know
them. What keeps the choice honest is that splits are confirmed on units that took no part in the
search, and that the interval allows for what was chosen (`Doubt`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.behavior.behavior_tree import BehaviorTree
from counterrank.behavior.estimates import mse_estimate
from counterrank.behavior.forest import Forest, assemble
from counterrank.behavior.growing import Grower, Rows, choose, confirm, finish, rows_of
from counterrank.behavior.masks import SET_NAMES, Candidate
from counterrank.behavior.objective import MSEEstimate, Objective
from counterrank.behavior.pairs import PairEstimate
from counterrank.behavior.settings import SAMPLE_ROWS, SAMPLE_STREAM, Limits
from counterrank.behavior.storage import load_candidates
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
from counterrank.weights.ratios import ratios_of

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
T = TypeVar("T")


def fit_source(
    source: Source,
    target: str,
    *,
    seed: int,
    tree: BehaviorTree | None = None,
    rows: int = SAMPLE_ROWS.value,
    grow_on: str = "sample",
) -> BehaviorTree:
    """Return the tree fitted to a source: on a sample of `rows` rankings, or on the whole stream.

    `grow_on` "sample" holds the sample in memory; "stream" passes over the source once a level,
    with bins fixed by the sample. Variances are those of the whole log either way.
    """
    if grow_on not in ("sample", "stream"):
        raise ConfigError(f"grow_on is '{grow_on}'; use 'sample' or 'stream'")
    plan = BehaviorTree() if tree is None else tree
    log = source.sample(rows, np.random.default_rng([seed, SAMPLE_STREAM]))
    data, notes = plan.training_set(log, target, seed=seed)
    n_apply = source.n or log.n
    if grow_on == "stream":
        forest = _streamed(plan, data, source, notes, n_apply=n_apply)
    else:
        forest = plan.grow(data, n_apply=n_apply, seed=seed, notes=notes)
    return replace(plan, forest=forest)


def planned_tree(
    candidates: "str | Sequence[str | ArrayLike | Candidate] | None",
    mse: "str | MSEEstimate | None",
) -> BehaviorTree | None:
    """Return the tree that an evaluation's options ask for; None where they ask for nothing.

    `candidates` may be the name of a set, a file of models, or models.
    """
    if candidates is None and mse is None:
        return None
    plan = BehaviorTree()
    if isinstance(candidates, str) and candidates not in SET_NAMES:
        candidates = load_candidates(candidates)
    if candidates is not None:
        plan = replace(plan, candidates=candidates)
    # An unknown name is an error before anything is read.
    return plan if mse is None else replace(plan, mse=mse_estimate(mse))


def _streamed(
    plan: BehaviorTree,
    data: TrainingSet,
    source: Source,
    notes: tuple[str, ...],
    *,
    n_apply: int,
) -> Forest:
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
        pairs=data.pairs,
    )
    growers, data.pair_values = grow_streamed(stream, estimate, n_apply=n_apply)
    return assemble(growers, data, mse=estimate.name, notes=notes)


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
    pairs: PairEstimate

    def parts(self, batch: RankingLog) -> tuple[Bools, Bools]:
        """Return the rows of a batch that grow the trees, and those that confirm them."""
        held = held_out(batch, self.limits.prune)
        return ~held, held

    def codes(self, batch: RankingLog) -> Codes:
        """Return the bins of a batch's contexts."""
        return self.bins.codes(np.empty((batch.n, 0)) if batch.context is None else batch.context)


def grow_streamed(
    stream: Stream, estimate: MSEEstimate, *, n_apply: int
) -> tuple[list[Grower], Floats]:
    """Return the tree of each position, grown in max_depth + 2 passes, and its value from pairs."""
    if not estimate.streams:
        raise BehaviorError(
            f"mse='{estimate.name}' needs rows in memory; grow on a sample, or use mse='pairs'"
        )
    places = models_of(stream.candidates, per_position=True)
    objectives, values = _objectives(stream, estimate, places, n_apply)
    counts, kinds = stream.bins.counts, stream.bins.categorical
    growers = [Grower(trio[0], stream.limits, counts, kinds) for trio in objectives]
    _grow_levels(stream, growers)
    if stream.limits.prune > 0:
        last = _collected(stream, growers, _confirmations, "confirm")
        for (grower, sums), trio in zip(last, objectives, strict=True):
            confirm(grower, trio[1], sums[1])
            # A pruned node's own sums are there already: every node has those of all its rows.
            choose(grower, trio[2], sums[0] + sums[1])
    for grower in growers:
        finish(grower)
    return growers, values


def _grow_levels(stream: Stream, growers: Sequence[Grower]) -> None:
    """Grow every tree to its end: a pass for the roots, and one for each level."""
    # All positions grow in the same passes: reading costs more than summing.
    for grower, sums in _collected(stream, growers, _roots, "root"):
        grower.start(sums)
    while any(len(g.wants) for g in growers):
        for grower, sums in _collected(stream, growers, _histograms, "level"):
            if len(grower.wants):
                grower.split(sums)


Collect = Callable[[Grower, Rows, tuple[Bools, Bools]], Floats]


def _collected(
    stream: Stream, growers: Sequence[Grower], collect: Collect, step: str
) -> list[tuple[Grower, Floats]]:
    """Return each tree with what one pass over the source collects for it."""

    def partial(batch: RankingLog) -> Sums:
        y, _ = contributions(ratios_of(batch, stream.target), stream.candidates)
        codes, one, parts = stream.codes(batch), np.ones(batch.n), stream.parts(batch)
        rows = (rows_of(g.objective, y[k], one, codes) for k, g in enumerate(growers))
        return Sums(tuple(collect(g, some, parts) for g, some in zip(growers, rows, strict=True)))

    summed = stream.source.reduce(partial, label=f"behaviour tree: {step}")
    return list(zip(growers, summed.arrays, strict=True))


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
) -> tuple[list[tuple[Objective, Objective, Objective]], Floats]:
    """Return the objectives on growing, confirming and all rows for each position, and its value
    from all pairs, from one pass.
    """
    K, M = len(places), len(stream.candidates)

    def partial(batch: RankingLog) -> Sums:
        ratios = ratios_of(batch, stream.target)
        y, _ = contributions(ratios, stream.candidates)
        by_pairs = stream.pairs.contributions(ratios)
        every = stream.pairs.trusted.contributions(ratios).sum(axis=0)
        out, pairs, rows = np.zeros((2, 2, K, M)), np.zeros((2, K)), np.zeros(2)
        for part, chosen in enumerate(stream.parts(batch)):
            for k, place in enumerate(places):
                some = y[k][chosen]
                out[part, 0, k, place.models] = some.sum(axis=0)
                out[part, 1, k, place.models] = np.einsum("nm,nm->m", some, some)
            pairs[part], rows[part] = by_pairs[chosen].sum(axis=0), chosen.sum()
        return Sums((out, pairs, rows, every))

    sums, pairs, rows, every = stream.source.reduce(partial, label="behaviour tree: sums").arrays

    def objective(k: int, total: Floats, by_pairs: float, n: float) -> Objective:
        place = places[k]
        mean, second = total[:, k, place.models] / max(n, 1)
        position = Position(
            index=k,
            containing=place.containing,
            densest=place.densest,
            sparsest=place.sparsest,
            moments=lambda: (mean, second),
            pair_value=lambda: by_pairs / max(n, 1),
            tails=stream.tails[k, place.models],
            # Few units may confirm nothing: zero sums over one row, and no division by zero.
            n_grow=int(max(n, 1)),
            n_apply=n_apply,
        )
        return estimate.objective(position)

    trios = [
        (
            objective(k, sums[0], pairs[0, k], rows[0]),
            objective(k, sums[1], pairs[1, k], rows[1]),
            objective(k, sums.sum(axis=0), pairs[:, k].sum(), rows.sum()),
        )
        for k in range(K)
    ]
    return trios, every / max(rows.sum(), 1)
