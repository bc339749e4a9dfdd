"""The grown forest: one tree a position (or one for all) as flat arrays, that assigns a model to each row."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Bools, Floats, Ints
from counterrank.behavior.blending import Blend, share_of
from counterrank.behavior.growing import Grower
from counterrank.behavior.masks import Candidate
from counterrank.behavior.pairs import PairEstimate
from counterrank.behavior.training import TrainingSet
from counterrank.errors import BehaviorError
from counterrank.records import Record
from counterrank.weights.ratios import Ratios


@dataclass(frozen=True, slots=True)
class Doubt(Record):
    """How far an estimate may be off because its models were chosen on its own rows.

    `gap` is the distance of the models' estimate to the value from all pairs of items
    (`PairEstimate`), for which no model was chosen; `triples` the size of what triples add to that
    value, less their noise: so large is what is left out, be it the triples themselves or, where
    these were counted, effects of more items. `stderr` is the standard error of that value.
    """

    gap: float
    triples: float
    stderr: float

    def flaw(self) -> tuple[str, str] | None:
        """Return a part that is no size."""
        return next(((name, "a number, 0 or more") for name in self if not self[name] >= 0), None)

    def allowance(self, share: float) -> float:
        """Return the bias to allow for where a share of the value from pairs is in the estimate.

        V_2 - V = (1 - share) (V_2 - V_c).
        """
        return (1.0 - share) * self.gap + self.triples


def doubt_of(own: Floats, data: TrainingSet) -> Doubt:
    """Return the doubt about the sum over trees, of which `own` (n, T) are the rows."""
    alpha, n = data.weights_of_trees, max(data.log.n, 1)
    # With the spread that the tails of pairs have: few logs hold their extreme rows.
    error = float((data.stretched @ alpha).std()) / math.sqrt(n)
    if not math.isfinite(error):
        error = float((data.all_pairs @ alpha).std()) / math.sqrt(n)
    triples = data.more @ alpha
    # E mean^2 = effect^2 + variance of the mean.
    square = float(triples.mean()) ** 2 - float(triples.var()) / n
    gap = abs(float(((own - data.all_pairs) @ alpha).mean()))
    return Doubt(gap, math.sqrt(max(square, 0.0)), error)


@dataclass(frozen=True, eq=False, kw_only=True)
class Forest:
    """Trees over the context, each leaf a behaviour model.

    `roots` (T,) with T = K, or 1 when one model serves all positions; `nodes` (N, 4): feature (-1
    in a leaf), left, right, row of `sets` + 1 for a categorical split; `model` (N,) index into
    `candidates`. `facts` (N, 5) tells about each node: share of rows, objective, estimate, standard
    error, gain; all from the rows it was grown on.
    """

    candidates: tuple[Candidate, ...]
    context_names: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    roots: Ints
    nodes: Ints
    threshold: Floats
    missing_left: Bools
    sets: Bools
    model: Ints
    facts: Floats
    mse: str
    n_grown: int
    #: Context columns that had missing values where the forest was grown.
    with_missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doubt: Doubt | None = None
    #: The share of the value from pairs in the estimate of `aips-pairs`.
    blend: Blend | None = None

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the papers
        """Number of positions."""
        return len(self.candidates[0].mask)

    @property
    def per_position(self) -> bool:
        """Whether every position has a tree of its own."""
        return len(self.roots) > 1 or self.K == 1

    def leaves(self, context: "ArrayLike | None", n: int | None = None) -> Ints:
        """Return each row's leaf in each tree (n, T)."""
        every = np.arange(len(self.nodes))
        return self._assigned(self._context(context, n), every)

    def choice(self, context: "ArrayLike | None", n: int | None = None) -> Ints:
        """Return the model of each row and position (n, K)."""
        chosen = self._assigned(self._context(context, n), self.model)
        return chosen if self.per_position else np.repeat(chosen, self.K, axis=1)

    def assign(self, context: "ArrayLike | None", n: int | None = None) -> Ints:
        """Return the model of each row and position, an index into `candidates`: (n, K), or (n,) with one tree."""
        chosen = self._assigned(self._context(context, n), self.model)
        return chosen if self.per_position else chosen[:, 0]

    def rows_of(self, growers: Sequence[Grower], data: TrainingSet) -> Floats:
        """Return what each row of the log contributes in each tree (n, T) under its model."""
        column = np.concatenate([g.tree[3, : g.count] for g in growers])
        chosen = self._assigned(data.context[: data.log.n], column)
        out, rows = np.empty((len(growers), data.log.n)), np.arange(data.log.n)
        for t, at in enumerate(chosen.T):
            one = self._used[t]
            # Where all leaves have one model there is nothing to pick.
            out[t] = data.y[t][: data.log.n, at[0]] if len(one) == 1 else data.y[t][rows, at]
        return out.T

    def weights(self, context: "ArrayLike | None", ratios: Ratios) -> Floats:
        """Return w (n, K): at row i and position k the weight of the model assigned there."""
        if ratios.kind == "policy":  # subset probabilities of all positions share their work
            choice = self.choice(context, len(ratios.rho))
            return ratios.by_choice(np.stack([c.mask for c in self.candidates]), choice)
        values = self._context(context, len(ratios.rho))
        for m in {m for used in self._used for m in used}:
            ratios.need_model(self.candidates[m].mask, None)
        rows = Contexts(values)
        out, w = np.empty((self.K, rows.n)), np.empty(rows.n)
        for tree, used in enumerate(self._used):
            # Where all leaves have one model there is nothing to ask the context.
            where = self._by_model(rows, int(self.roots[tree]), used[1:])
            for k in (tree,) if self.per_position else range(self.K):
                self._fill(out[k], k, used[0], ratios)
                for m, some in where.items():
                    self._fill(w, k, m, ratios)
                    out[k][some] = w.take(some)
        return out.T

    def _by_model(self, rows: "Contexts", root: int, models: list[int]) -> dict[int, Ints]:
        """Return the numbers of the rows that have each of some models in the tree of a root."""
        found: dict[int, list[Bools]] = {m: [] for m in models}
        for leaf, reached in self._reached(rows, root) if models else ():
            if self.model[leaf] in found:
                found[int(self.model[leaf])].append(reached)
        # Copying by number takes a third of copying by mask, which has a branch for each row.
        return {m: np.flatnonzero(np.logical_or.reduce(parts)) for m, parts in found.items()}

    def _fill(self, out: Floats, k: int, m: int, ratios: Ratios) -> None:
        ratios.at_position(k, self.candidates[m].mask, None, out)

    @cached_property
    def _used(self) -> list[list[int]]:
        """The models at the leaves of each tree."""
        # The nodes of a tree stand together, behind its root.
        tree_of = np.searchsorted(np.sort(self.roots), np.arange(len(self.nodes)), side="right") - 1
        tree_of = np.argsort(self.roots)[tree_of]
        leaf = self.nodes[:, 0] < 0
        return [
            np.unique(self.model[leaf & (tree_of == t)]).tolist() for t in range(len(self.roots))
        ]

    def _assigned(self, context: Floats, label: Ints) -> Ints:
        """Return the label of each row's leaf in each tree (n, T)."""
        rows = Contexts(context)
        out = np.empty((len(self.roots), rows.n), dtype=np.int64)
        for root, found in zip(self.roots.tolist(), out, strict=True):
            for leaf, reached in self._reached(rows, root):
                np.copyto(found, label[leaf], where=reached)
        return out.T

    def _reached(self, rows: "Contexts", root: int) -> Iterator[tuple[int, Bools]]:
        """Yield each leaf of a tree, and the rows (n,) that come to it.

        Node by node rather than row by row: a comparison with one threshold runs over consecutive
        rows, where a walk waits for every branch that it did not foresee.
        """
        waiting = [(root, np.ones(rows.n, dtype=bool))]
        while waiting:
            at, reached = waiting.pop()
            if self.nodes[at, 0] < 0:
                yield at, reached
                continue
            left = reached & self._goes_left(at, rows)
            waiting += [(int(self.nodes[at, 1]), left), (int(self.nodes[at, 2]), reached ^ left)]

    def _goes_left(self, at: int, rows: "Contexts") -> Bools:
        """Return which rows (n,) go left at a node: a number that is at most the threshold, a category in its set.

        Missing and unknown ones by `missing_left`.
        """
        values, missing = rows.column(int(self.nodes[at, 0])), self.missing_left[at]
        if self.nodes[at, 3] == 0:
            # A missing value compares as false.
            limit = self.threshold[at]
            left: Bools = ~(values > limit) if missing else values <= limit
            return left
        members = self.sets[self.nodes[at, 3] - 1]
        known = (values > -1) & (values < len(members))
        return np.append(members, missing)[np.where(known, values, len(members)).astype(np.intp)]

    def _context(self, context: "ArrayLike | None", n: int | None) -> Floats:
        width = len(self.context_names)
        if context is None:
            if (self.nodes[:, 0] >= 0).any():
                raise BehaviorError(
                    f"this tree asks for context ({', '.join(self.context_names)}); none was given"
                )
            return np.empty((n or 0, width))
        values = np.ascontiguousarray(context, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != width:
            raise BehaviorError(
                f"the tree was grown on {width} context columns ({', '.join(self.context_names)}); "
                f"got an array of shape {values.shape}"
            )
        return values


class Contexts:
    """Contexts (n, d) by column, each made contiguous once when it is asked for."""

    def __init__(self, values: Floats) -> None:
        self._values, self.n = values, len(values)
        self._columns: dict[int, Floats] = {}

    def column(self, feature: int) -> Floats:
        """Return the values of one feature (n,)."""
        if feature not in self._columns:
            self._columns[feature] = np.ascontiguousarray(self._values[:, feature])
        return self._columns[feature]


def assemble(
    growers: Sequence[Grower],
    data: TrainingSet,
    *,
    mse: str,
    notes: tuple[str, ...] = (),
) -> Forest:
    """Return the forest of trees grown for each position (or for all)."""
    bins = data.bins
    sizes = [g.count for g in growers]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    total = int(sum(sizes))
    nodes = np.full((total, 4), -1, dtype=np.int64)
    nodes[:, 3] = 0
    threshold, missing = np.full(total, np.nan), np.zeros(total, dtype=bool)
    model, facts = np.zeros(total, dtype=np.int64), np.full((total, 5), np.nan)
    sets: list[Bools] = []
    for g, place, first in zip(growers, data.trees, roots, strict=True):
        part = slice(int(first), int(first) + g.count)
        model[part] = place.models[g.tree[3, : g.count]]
        facts[part] = facts_of(g)
        for node in np.flatnonzero(g.tree[0, : g.count] >= 0):
            at, feature = int(first) + int(node), int(g.tree[0, node])
            # All trees share one table: children are numbered from the tree's first node.
            nodes[at, :3] = feature, first + g.tree[1, node], first + g.tree[2, node]
            missing[at] = g.goes_left[node, 0]
            chosen = np.flatnonzero(g.goes_left[node, 1:])
            if bins.categorical[feature]:
                sets.append(_category_set(bins.edges[feature][chosen]))
                nodes[at, 3] = len(sets)
            else:
                threshold[at] = _threshold(bins.edges[feature], chosen)
    forest = Forest(
        candidates=data.candidates,
        context_names=data.log.context_names,
        categories=data.log.categories,
        roots=roots,
        nodes=nodes,
        threshold=threshold,
        missing_left=missing,
        sets=_stacked(sets),
        model=model,
        facts=facts,
        mse=mse,
        n_grown=growers[0].objective.n_grow,
        with_missing=data.with_missing,
        notes=notes,
    )
    own = forest.rows_of(growers, data)
    share = share_of(
        own,
        data.all_pairs - own,
        data.stretched - own,
        data.weights_of_trees,
        growers[0].objective.n_apply,
    )
    blend = Blend(share, PairEstimate(data.pairs.centre, 1.0, data.pairs.triples))
    return replace(forest, doubt=doubt_of(own, data), blend=blend)


def facts_of(g: Grower) -> Floats:
    """Return share of rows, objective, estimate, standard error and gain of each node (nodes, 5).

    Estimate and error are of the rows' own value in the group: mean of w r and its standard error.
    """
    stats, model = g.stats[: g.count], g.tree[3, : g.count]
    rows = np.maximum(stats[:, 0], 1)
    every = np.arange(g.count)
    mean = stats[every, 1 + model] / rows
    second = stats[every, 1 + g.objective.models + model] / rows
    # n / (n - 1) of a sample's variance and 1 / n of its mean's, in one.
    error = np.sqrt(np.maximum(second - mean**2, 0) / np.maximum(rows - 1, 1))
    facts = np.empty((g.count, 5))
    facts[:, 0], facts[:, 1] = stats[:, 0] / stats[0, 0], g.scores[: g.count]
    facts[:, 2], facts[:, 3], facts[:, 4] = mean, error, g.gains[: g.count]
    return facts


def _threshold(edges: Floats, chosen: Ints) -> float:
    """Bins 1..b go left: values up to edge b. None goes left (only missing do): -inf; all: inf."""
    if len(chosen) == 0:
        return -np.inf
    return float(edges[len(chosen) - 1]) if len(chosen) <= len(edges) else np.inf


def _category_set(codes: Floats) -> Bools:
    out = np.zeros(int(codes.max(initial=0)) + 1, dtype=bool)
    out[codes.astype(np.int64)] = True
    return out


def _stacked(sets: list[Bools]) -> Bools:
    out = np.zeros((len(sets), max((len(s) for s in sets), default=0)), dtype=bool)
    for row, members in zip(out, sets, strict=True):
        row[: len(members)] = members
    return out
