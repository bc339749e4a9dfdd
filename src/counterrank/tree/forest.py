"""The grown forest: one tree a position (or one for all) as flat arrays, that assigns a model to
each row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.behavior import Candidate
from counterrank.errors import BehaviorError
from counterrank.ratios import Ratios
from counterrank.tree.growing import Grower
from counterrank.tree.kernels.prediction import assign
from counterrank.tree.training import TrainingSet

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
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
    missing_left: NDArray[np.bool_]
    sets: NDArray[np.bool_]
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
        return self._assigned(context, n, None, np.arange(len(self.nodes)))

    def choice(
        self, context: "ArrayLike | None", n: int | None = None, fold: Ints | None = None
    ) -> Ints:
        """Return the model of each row and position (n, K); `fold` (n,) chooses among the forests
        of `joined`.
        """
        chosen = self._assigned(context, n, fold, self.model)
        return chosen if self.per_position else np.repeat(chosen, self.K, axis=1)

    def assign(self, context: "ArrayLike | None", n: int | None = None) -> Ints:
        """Return the model of each row and position, an index into `candidates`: (n, K), or (n,)
        with one tree.
        """
        chosen = self._assigned(context, n, None, self.model)
        return chosen if self.per_position else chosen[:, 0]

    def _assigned(
        self, context: "ArrayLike | None", n: int | None, fold: Ints | None, label: Ints
    ) -> Ints:
        values = self._context(context, n)
        roots = self.roots if self.roots.ndim == 2 else self.roots[None]
        out = np.empty((len(values), roots.shape[1]), dtype=np.int64)
        which = np.zeros(len(values), dtype=np.int64) if fold is None else fold
        assign(
            values,
            which,
            roots,
            self.nodes,
            self.threshold,
            self.missing_left,
            self.sets,
            label,
            out,
        )
        return out

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
    return replace(
        forests[0],
        roots=np.stack([f.roots + start for f, start in zip(forests, starts, strict=False)]),
        nodes=nodes,
        sets=np.concatenate(sets),
        threshold=np.concatenate([f.threshold for f in forests]),
        missing_left=np.concatenate([f.missing_left for f in forests]),
        model=np.concatenate([f.model for f in forests]),
        facts=np.concatenate([f.facts for f in forests]),
    )


def weights_by_choice(forest: Forest, choice: Ints, ratios: Ratios) -> Floats:
    """Return w (n, K): at row i and position k the weight of candidate choice[i, k]."""
    used = np.unique(forest.model[forest.nodes[:, 0] < 0])
    models = [forest.candidates[m] for m in used]
    if len(used) == 1 and models[0].order is None:
        return ratios.masked(models[0].mask)
    out = ratios.by_choice(np.stack([c.mask for c in forest.candidates]), choice)
    for m, c in zip(used, models, strict=True):
        if c.order is not None:
            out = np.where(choice == m, ratios.ordered(c.mask, c.order), out)
    return np.asfortranarray(out)


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
    sets: list[NDArray[np.bool_]] = []
    for g, place, first in zip(growers, data.trees, roots, strict=True):
        part = slice(int(first), int(first) + g.count)
        model[part] = place.models[g.tree[3, : g.count]]
        facts[part] = facts_of(g)
        for node in np.flatnonzero(g.tree[0, : g.count] >= 0):
            at, feature = int(first) + int(node), int(g.tree[0, node])
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
    error = np.sqrt(np.maximum(second - mean**2, 0) / np.maximum(rows - 1, 1))
    facts = np.empty((g.count, 5))
    facts[:, 0], facts[:, 1] = stats[:, 0] / stats[0, 0], g.scores[: g.count]
    facts[:, 2], facts[:, 3], facts[:, 4] = mean, error, g.gains[: g.count]
    return facts


def _threshold(edges: Floats, chosen: NDArray[np.int64]) -> float:
    """Bins 1..b go left: values up to edge b. None goes left (only missing do): -inf; all: inf."""
    if len(chosen) == 0:
        return -np.inf
    return float(edges[len(chosen) - 1]) if len(chosen) <= len(edges) else np.inf


def _category_set(codes: Floats) -> NDArray[np.bool_]:
    out = np.zeros(int(codes.max(initial=0)) + 1, dtype=bool)
    out[codes.astype(np.int64)] = True
    return out


def _stacked(sets: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    out = np.zeros((len(sets), max((len(s) for s in sets), default=0)), dtype=bool)
    for row, members in zip(out, sets, strict=True):
        row[: len(members)] = members
    return out
