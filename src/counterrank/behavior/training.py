"""The rows that trees of one log and target are grown on: binned contexts, and what each behaviour model contributes.

Contexts become small integers: quantile bins of numbers, codes of categories, 0 for missing.
Contributions are w r of every model the log supports; `tails` corrects their second moments.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Bools, Floats, Ints
from counterrank.behavior import settings
from counterrank.behavior.masks import Candidate
from counterrank.behavior.pairs import PairEstimate, pair_rows
from counterrank.behavior.tails import excess, inflation
from counterrank.data.log import RankingLog
from counterrank.errors import BehaviorError
from counterrank.weights.ratios import Ratios, capability_of, ratios_of

Codes = NDArray[np.uint8]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bins:
    """How each feature is binned: edges of numbers; for categories the code of each bin."""

    edges: tuple[Floats, ...]
    categorical: Bools  # (d,)

    @property
    def counts(self) -> Ints:
        """Number of bins of each feature (d,), the one for missing values included."""
        sizes = [
            len(e) + (1 if cat else 2) for e, cat in zip(self.edges, self.categorical, strict=True)
        ]
        return np.array(sizes, dtype=np.int64)

    def codes(self, context: Floats) -> Codes:
        """Return bin numbers (n, d): 0 missing, then 1, 2, ... in rising order."""
        out = np.empty(context.shape[::-1], dtype=np.uint8)
        for f, edges in enumerate(self.edges):
            values = np.ascontiguousarray(context[:, f])
            if self.categorical[f]:
                place = np.searchsorted(edges, values)
                known = edges[np.minimum(place, len(edges) - 1)] == values
                out[f] = np.where(known, place + 1, 0)
            else:
                for first in range(0, len(values), _CODED_ROWS):
                    rows = slice(first, first + _CODED_ROWS)
                    _count_below(edges, values[rows], out[f, rows])
        return out.T


#: Values whose bins are counted at a time: they stay in the cache for all edges.
_CODED_ROWS = 32_768


def _count_below(edges: Floats, values: Floats, out: Codes) -> None:
    """Fill out (n,) with one more than the number of edges below each value; 0 for missing ones."""
    # A third of the time of a binary search: comparisons with one number run in vectors.
    below = np.equal(values, values)
    count = below.view(np.uint8)
    out[:] = count
    for edge in edges.tolist():
        np.greater(values, edge, out=below)
        out += count


def make_bins(context: Floats, categorical: Bools, *, most: int, rng: np.random.Generator) -> Bins:
    """Return quantile bins (at most `most` a feature); of categories the most frequent, the rest count as missing.

    >>> make_bins(np.array([[1.0], [2.0], [4.0], [8.0], [np.nan]]), np.array([False]), most=2,
    ...           rng=np.random.default_rng(0)).edges[0].tolist()
    [3.0]
    """
    if len(context) > settings.QUANTILE_ROWS:
        context = context[rng.choice(len(context), size=settings.QUANTILE_ROWS, replace=False)]
    edges = []
    for f in range(context.shape[1]):
        values = context[:, f]
        values = values[~np.isnan(values)]
        edges.append(_common(values, most) if categorical[f] else _quantile_edges(values, most))
    return Bins(tuple(edges), categorical)


def _common(values: Floats, most: int) -> Floats:
    seen, count = np.unique(values, return_counts=True)
    # One code where every value is missing: `codes` compares each value with a neighbour.
    return np.sort(seen[np.argsort(-count, kind="stable")[:most]]) if len(seen) else np.zeros(1)


def _quantile_edges(values: Floats, most: int) -> Floats:
    """Return increasing edges between values that occur, so that no value lies on an edge by accident."""
    wanted = (np.arange(1, most) * len(values)) // most
    if len(values) >= 2 * most:
        # Where every quantile lies between two different values, only these need their place.
        some = np.partition(values, np.concatenate([wanted - 1, wanted]))
        below, above = some[wanted - 1], some[wanted]
        if (above > below).all():
            quantiles: Floats = (below + above) / 2
            return quantiles
    ordered = np.sort(values)
    rises = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1  # where a new value begins
    if len(rises) >= most:
        # A quantile in the middle of a value repeated many times is moved to where the next value
        # begins.
        rises = np.unique(rises[np.minimum(np.searchsorted(rises, wanted), len(rises) - 1)])
    return (ordered[rises - 1] + ordered[rises]) / 2


@dataclass(frozen=True, slots=True)
class TreeModels:
    """The distinct models of one tree, and which candidate each of them is."""

    models: Ints  # (M,) index into the candidates
    densest: int
    sparsest: int


def supported(
    given: "list[Candidate]", ratios: Ratios
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Return the candidates that the log's propensities can weigh, and a note about the others."""
    good = [c for c in given if capability_of(c.mask) in ratios.supports]
    if not good:
        raise BehaviorError(
            f"'{ratios.kind}' propensities support none of the candidates "
            f"{', '.join(c.name for c in given)}; add S (whole ranking), C (items above) or I "
            "(own item), whichever the propensities describe"
        )
    dropped = [c.name for c in given if not any(c is kept for kept in good)]
    note = (
        f"candidates: '{ratios.kind}' propensities cannot give weights for "
        f"{', '.join(dropped)}; left out"
    )
    return tuple(good), ((note,) if dropped else ())


def models_of(candidates: tuple[Candidate, ...], *, per_position: bool) -> list[TreeModels]:
    """Return the models of each position's tree, or of the one tree; models that coincide there are one."""
    # What decides is hashable, and every target asks for the same.
    return list(_models_of(tuple(c.mask.tobytes() for c in candidates), per_position))


@lru_cache(maxsize=64)
def _models_of(key: tuple[bytes, ...], per_position: bool) -> tuple[TreeModels, ...]:
    K = math.isqrt(len(key[0]))
    masks = np.stack([np.frombuffer(one, dtype=bool).reshape(K, K) for one in key])  # (M, K, K)
    total = masks.sum(axis=(1, 2))
    if not per_position:
        return (_distinct(masks.reshape(len(masks), -1), total),)
    return tuple(_distinct(masks[:, k], total) for k in range(K))


def _distinct(relevant: Bools, total: Ints) -> TreeModels:
    """Return the distinct models among relevant (M, items), with entries of the whole mask (M,)."""
    first: dict[bytes, int] = {}
    for m, row in enumerate(relevant):
        key = row.tobytes()
        # C and I are one model at the first position: it goes by the simpler name.
        if key not in first or total[m] < total[first[key]]:
            first[key] = m
    chosen = np.array(list(first.values()), dtype=np.int64)
    by_size = np.argsort(-relevant[chosen].sum(axis=1), kind="stable")
    return TreeModels(chosen, int(by_size[0]), int(by_size[-1]))


#: Rows whose contributions are filled at a time.
_PART_ROWS = 16_384


def contributions(
    ratios: Ratios, candidates: tuple[Candidate, ...], *, per_position: bool = True
) -> tuple[list[Floats], Floats]:
    """Return w r of every tree's models, (n, M) each, and the mean of w^2 (K, candidates).

    Trees are those of `models_of`: one a position, or one for the sum over positions.
    """
    log, models = ratios.batch, models_of(candidates, per_position=per_position)
    # The tree that each position belongs to.
    trees = range(log.K) if per_position else [0] * log.K
    alpha = np.ones(log.K) if per_position else log.position_weights
    # Position-major: a column is written at a time, and read by sums over rows.
    out = [np.zeros((len(tree.models), log.n)) for tree in models]
    seen = np.ones((log.K, len(candidates)))
    for k, tree in enumerate(trees):
        seen[k, models[tree].models] = 0.0
    # In parts that stay in the cache.
    size = log.n if ratios.kind == "policy" else _PART_ROWS
    for first in range(0, log.n, size):
        rows = slice(first, min(first + size, log.n))
        part = ratios if size >= log.n else ratios.part(rows)
        fill, w = _weights_at(part, candidates), np.empty(part.batch.n)
        for k, tree in enumerate(trees):
            reward = alpha[k] * part.batch.reward[:, k]
            # Models that coincide in a tree are one: rounding would choose between equals.
            for place, m in enumerate(models[tree].models):
                fill(k, int(m), w)
                with np.errstate(over="ignore"):  # told below
                    # No BLAS: its threads cost more than a sum this short.
                    seen[k, m] += np.einsum("i,i->", w, w) / log.n
                own = out[tree][place, rows]
                if per_position:
                    np.multiply(w, reward, out=own)
                else:
                    own += w * reward
    if not np.isfinite(seen).all():
        k = int(np.argmax(~np.isfinite(seen).all(axis=1)))
        raise BehaviorError(
            f"no tree can be grown: squares of the weights at position {k + 1} overflow. Look for "
            "logging propensities near zero"
        )
    return [table.T for table in out], seen


def _weights_at(
    ratios: Ratios, candidates: tuple[Candidate, ...]
) -> Callable[[int, int, Floats], None]:
    """Return the function that fills out (n,) with the weights of candidate m at position k."""
    if ratios.kind == "policy":  # subset probabilities of all positions share their work
        every = [ratios.masked(c.mask) for c in candidates]
        return lambda k, m, out: np.copyto(out, every[m][:, k])
    for c in candidates:
        ratios.need_model(c.mask, None)
    return lambda k, m, out: ratios.at_position(k, candidates[m].mask, None, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One position (or all as one): M models and what MSE estimates may need to know about them.

    `densest` has the most items, the reference for bias; `sparsest` the fewest.
    `tails` (M,) are factors by which the log understates second moments. `pair_value()` gives the
    value from pairs (`PairEstimate`). `memory` has the rows.
    """

    index: int
    densest: int
    sparsest: int
    tails: Floats
    n_grow: int
    n_apply: int
    pair_value: Callable[[], float]
    memory: "PositionRows"
    seed: int = 0

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.tails)


class TreePart(NamedTuple):
    """Some rows (n,) of a training set, and the numbers (r,) and codes (r, d) of these and of all fresh ones."""

    rows: Bools
    numbers: Ints
    codes: Codes


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
    y: list[Floats]  # of each tree (n, M)
    pairs: PairEstimate
    by_pairs: Floats  # (n, T), whose means are the trees' values from pairs; of the log's rows
    all_pairs: Floats  # (n, T), the same with every effect of pairs, whatever the evidence for it
    stretched: Floats  # (n, T), `all_pairs` with the spread that the tails of pairs have
    more: Floats  # (n, T) what all effects of triples add, whatever the evidence for them
    tails: Floats  # (K, M)
    context: Floats  # (n, d)
    ratios: Ratios
    per_position: bool
    fresh: int = 0
    shared: dict[tuple[str, bytes], object] = field(default_factory=dict)
    _weight: Floats | None = None

    @property
    def with_missing(self) -> tuple[str, ...]:
        """Names of the context columns that have missing values."""
        gaps = (self.codes == 0).any(axis=0)
        return tuple(name for name, gap in zip(self.log.context_names, gaps, strict=True) if gap)

    def part(self, rows: Bools) -> "TreePart":
        """Return some rows of the log (n,), and all the fresh ones."""
        index = np.flatnonzero(rows | (self.is_logged() == 0) if self.fresh else rows)
        return TreePart(rows, index, self.codes.T.take(index, axis=1).T)

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
            densest=place.densest,
            sparsest=place.sparsest,
            tails=tails,
            n_grow=max(int(np.count_nonzero(rows)), 1),
            n_apply=n_apply,
            pair_value=memory.pair_value,
            memory=memory,
            seed=seed,
        )

    @property
    def weights_of_trees(self) -> Floats:
        """How the trees' values add up to that of the ranking (T,)."""
        return self.log.position_weights if self.per_position else np.ones(1)

    def is_logged(self) -> Floats:
        """Return 1 for rows of the log, 0 for fresh ones (n,)."""
        return padded(np.ones(self.log.n), self.fresh)

    def held_out(self, share: float) -> Bools:
        """Return which rows (n,) confirm splits: whole units, the same for every position."""
        return np.concatenate([held_out(self.log, share), np.zeros(self.fresh, dtype=bool)])

    def whole_weights(self) -> Floats:
        """Return the weights of whole rankings (n,), ones where the log has no joint probability."""
        if self._weight is None:
            ratios = self.ratios
            whole = ratios.full()[:, 0] if "joint" in ratios.supports else np.ones(self.log.n)
            self._weight = padded(np.ascontiguousarray(whole), self.fresh)
        return self._weight


@dataclass(frozen=True, slots=True)
class PositionRows:
    """Some rows of a training set as one position sees them; arrays are made when asked for."""

    data: TrainingSet
    tree: int
    rows: Bools

    @property
    def y(self) -> Floats:
        """Contributions (n, M)."""
        return self.data.y[self.tree]

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

    def pair_value(self) -> float:
        """Return the value from pairs over the rows."""
        return float(self.once("pairs", self._pair_values)[self.tree])

    def _pair_values(self) -> Floats:
        """Return the values from pairs of all trees (T,)."""
        by_pairs = self.data.by_pairs
        some = self.rows[: len(by_pairs)]
        with np.errstate(over="ignore", invalid="ignore"):
            found: Floats = some.astype(np.float64) @ by_pairs / max(int(np.count_nonzero(some)), 1)
        # Zero times a row beyond all numbers is no number: such rows are then left out one by one.
        return found if np.isfinite(found).all() else by_pairs[some].mean(axis=0)


def prepare(
    log: RankingLog,
    target: str,
    candidates: tuple[Candidate, ...],
    limits: settings.TreeLimits,
    *,
    per_position: bool,
    rng: np.random.Generator,
    fresh: RankingLog | None = None,
) -> TrainingSet:
    """Return binned contexts and contributions of a log."""
    context = _context(log)
    categorical = np.array([name in log.categories for name in log.context_names], dtype=bool)
    # Of the log's rows alone: fresh rows are the oracle's, and must not move a threshold.
    bins = make_bins(context, categorical, most=limits.bins_for(log.n), rng=rng)
    ratios = ratios_of(log, target)
    y, seen = contributions(ratios, candidates, per_position=per_position)
    if fresh is not None:
        context = np.concatenate([context, _context(fresh)])
        more, _ = contributions(ratios_of(fresh, target), candidates, per_position=per_position)
        y = [np.concatenate(both) for both in zip(y, more, strict=True)]
    v = excess(log, target, ratios)
    rows = pair_rows(ratios, v)
    pairs = rows.estimate()

    def by_tree(values: Floats) -> Floats:
        return values if per_position else values @ log.position_weights[:, None]

    return TrainingSet(
        log=log,
        target=target,
        candidates=candidates,
        trees=models_of(candidates, per_position=per_position),
        bins=bins,
        codes=bins.codes(context),
        y=y,
        pairs=pairs,
        by_pairs=by_tree(rows.summed(pairs.trust, pairs.triples)),
        all_pairs=by_tree(rows.summed(1.0, pairs.triples)),
        stretched=by_tree(rows.stretched(pairs.triples)),
        more=by_tree(rows.triples),
        tails=inflation(v, candidates, seen),
        context=context,
        ratios=ratios,
        per_position=per_position,
        fresh=0 if fresh is None else fresh.n,
    )


def held_out(batch: RankingLog, share: float) -> Bools:
    """Return which rows (n,) of a batch confirm splits: whole units."""
    # Others take the bucket's last digits: the quotient is another division of the units.
    part: Bools = (batch.bucket // 8) % 16 < round(16 * share)
    return part


def _context(log: RankingLog) -> Floats:
    return np.empty((log.n, 0)) if log.context is None else log.context


def padded(values: Floats, extra: int) -> Floats:
    """Return the values followed by `extra` zeros."""
    return values if extra == 0 else np.concatenate([values, np.zeros(extra)])
