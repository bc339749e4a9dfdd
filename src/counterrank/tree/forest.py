"""The grown forest: one tree a position (or one for all) as flat arrays, that assigns a model to
each row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.behavior import Candidate
from counterrank.errors import BehaviorError
from counterrank.kernels.jit import jit
from counterrank.ratios import Ratios
from counterrank.tree.growing import Grower
from counterrank.tree.training import TrainingSet

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@jit
def assign(
    context: Floats,
    fold: Ints,
    roots: Ints,
    nodes: Ints,
    threshold: Floats,
    missing_left: Bools,
    sets: Bools,
    label: Ints,
) -> Ints:
    """Return the label (n, T) of each row's leaf in tree t of its fold (n,); roots (F, T).

    nodes (N, 4) = feature (-1 in a leaf), left, right, first row of `sets` + 1 (0 for a number); a
    number goes left when it is at most the threshold, a category when it is in its set; missing and
    unknown ones by `missing_left`.
    """
    out = np.empty((fold.shape[0], roots.shape[1]), np.int64)
    for i in range(out.shape[0]):
        first = roots[fold[i] % roots.shape[0]]
        for t in range(out.shape[1]):
            at = first[t]
            while nodes[at, 0] >= 0:
                value = context[i, nodes[at, 0]]
                go_left = missing_left[at]
                if not np.isnan(value):
                    if nodes[at, 3] == 0:
                        go_left = value <= threshold[at]
                    else:
                        code = int(value)
                        if 0 <= code < sets.shape[1]:
                            go_left = sets[nodes[at, 3] - 1, code]
                at = nodes[at, 1] if go_left else nodes[at, 2]
            out[i, t] = label[at]
    return out


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

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the papers
        """Number of positions."""
        return len(self.candidates[0].mask)

    @property
    def per_position(self) -> bool:
        """Whether every position has a tree of its own."""
        return self.roots.shape[-1] > 1 or self.K == 1

    def leaves(self, context: "ArrayLike | None", n: int | None = None) -> Ints:
        """Return each row's leaf in each tree (n, T)."""
        every = np.arange(len(self.nodes))
        return self._assigned(self._context(context, n), None, every, self.roots[None])

    def choice(
        self, context: "ArrayLike | None", n: int | None = None, fold: Ints | None = None
    ) -> Ints:
        """Return the model of each row and position (n, K); `fold` (n,) chooses among the forests
        of `joined`.
        """
        values = self._context(context, n)
        chosen = self._assigned(values, fold, self.model, np.atleast_2d(self.roots))
        return chosen if self.per_position else np.repeat(chosen, self.K, axis=1)

    def assign(self, context: "ArrayLike | None", n: int | None = None) -> Ints:
        """Return the model of each row and position, an index into `candidates`: (n, K), or (n,)
        with one tree.
        """
        values = self._context(context, n)
        chosen = self._assigned(values, None, self.model, self.roots[None])
        return chosen if self.per_position else chosen[:, 0]

    def weights(
        self, context: "ArrayLike | None", ratios: Ratios, fold: Ints | None = None
    ) -> Floats:
        """Return w (n, K): at row i and position k the weight of the model assigned there.

        `fold` (n,) chooses among the forests of `joined`.
        """
        if ratios.kind == "policy":  # subset probabilities of all positions share their work
            choice = self.choice(context, len(ratios.rho), fold)
            return ratios.by_choice(np.stack([c.mask for c in self.candidates]), choice)
        values = self._context(context, len(ratios.rho))
        for m in {m for used in self._used for m in used}:
            ratios.need_model(self.candidates[m].mask, self.candidates[m].order)
        out = np.empty((self.K, len(values)))
        for tree, used in enumerate(self._used):
            # Where all leaves have one model there is nothing to ask the context.
            label = self._label(values, fold, tree) if len(used) > 1 else None
            for k in (tree,) if self.per_position else range(self.K):
                self._weigh(out[k], k, used, label, ratios)
        return out.T

    def _label(self, context: Floats, fold: Ints | None, tree: int) -> Ints:
        """Return each row's model in one tree (n,)."""
        roots = np.ascontiguousarray(np.atleast_2d(self.roots)[:, tree : tree + 1])
        return self._assigned(context, fold, self.model, roots)[:, 0]

    def _weigh(
        self, out: Floats, k: int, used: list[int], label: Ints | None, ratios: Ratios
    ) -> None:
        """Fill out (n,) with the weights at one position of the models used, as labelled (n,)."""
        self._fill(out, k, used[0], ratios)
        for m in used[1:]:
            w = np.empty_like(out)
            self._fill(w, k, m, ratios)
            np.copyto(out, w, where=label == m)

    def _fill(self, out: Floats, k: int, m: int, ratios: Ratios) -> None:
        model = self.candidates[m]
        ratios.at_position(k, model.mask, model.order, out)

    @cached_property
    def _used(self) -> list[list[int]]:
        """The models at the leaves of each tree, of all folds."""
        roots = np.atleast_2d(self.roots)
        tree_of = np.zeros(len(self.nodes), dtype=np.int64)
        starts = np.argsort(roots, axis=None)
        for flat in starts:  # the nodes of a tree stand together
            tree_of[roots.flat[flat] :] = flat % roots.shape[1]
        leaf = self.nodes[:, 0] < 0
        return [
            np.unique(self.model[leaf & (tree_of == t)]).tolist() for t in range(roots.shape[1])
        ]

    def _assigned(self, context: Floats, fold: Ints | None, label: Ints, roots: Ints) -> Ints:
        """Return the label of each row's leaf (n, T) in the trees roots (F, T) of its fold."""
        which = np.zeros(len(context), dtype=np.int64) if fold is None else fold
        return assign(
            context,
            which,
            roots,
            self.nodes,
            self.threshold,
            self.missing_left,
            self.sets,
            label,
        )

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


def joined(forests: Sequence[Forest]) -> Forest:
    """Return F forests of the same candidates as one with roots (F, T), to be chosen among by fold."""
    starts = np.cumsum([0, *(len(f.nodes) for f in forests)])
    rows = np.cumsum([0, *(len(f.sets) for f in forests)])
    nodes = np.concatenate([f.nodes for f in forests])
    for f, start, row in zip(forests, starts, rows, strict=False):
        part = nodes[start : start + len(f.nodes)]
        split = part[:, 0] >= 0
        part[split, 1:3] += start
        part[part[:, 3] > 0, 3] += row
    widest = max(f.sets.shape[1] for f in forests)
    sets = [np.pad(f.sets, ((0, 0), (0, widest - f.sets.shape[1]))) for f in forests]
    by_node: dict[str, Any] = {
        name: np.concatenate([getattr(f, name) for f in forests])
        for name in ("threshold", "missing_left", "model", "facts")
    }
    return replace(
        forests[0],
        roots=np.stack([f.roots + start for f, start in zip(forests, starts, strict=False)]),
        nodes=nodes,
        sets=np.concatenate(sets),
        **by_node,
    )


def assemble(
    growers: Sequence[Grower], data: TrainingSet, *, mse: str, notes: tuple[str, ...] = ()
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
    return Forest(
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
