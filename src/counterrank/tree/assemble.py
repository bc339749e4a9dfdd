"""Grown trees as one forest: thresholds instead of bins, candidates instead of distinct models."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from counterrank.tree.forest import Forest
from counterrank.tree.ground import Ground
from counterrank.tree.grower import Grower
from counterrank.tree.random_growth import RandomTree

Floats = NDArray[np.float64]


def assemble(growers: Sequence[Grower], ground: Ground, *, mse: str, notes: tuple[str, ...] = ()) -> Forest:
    """Return the forest of trees grown for each position (or for all)."""
    bins = ground.bins
    sizes = [g.count for g in growers]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    total = int(sum(sizes))
    nodes = np.full((total, 4), -1, dtype=np.int64)
    nodes[:, 3] = 0
    threshold, missing = np.full(total, np.nan), np.zeros(total, dtype=bool)
    model, facts = np.zeros(total, dtype=np.int64), np.full((total, 5), np.nan)
    sets: list[NDArray[np.bool_]] = []
    for g, slot, first in zip(growers, ground.slots, roots, strict=True):
        part = slice(int(first), int(first) + g.count)
        model[part] = slot.models[g.tree[3, : g.count]]
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
        candidates=ground.candidates,
        context_names=ground.log.context_names,
        categories=ground.log.categories,
        roots=roots,
        nodes=nodes,
        threshold=threshold,
        missing_left=missing,
        sets=_stacked(sets),
        model=model,
        facts=facts,
        mse=mse,
        n_grown=growers[0].objective.n_grow,
        with_missing=ground.with_missing,
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


def assemble_random(trees: Sequence[RandomTree], ground: Ground, *, notes: tuple[str, ...]) -> Forest:
    """Return the forest of trees grown by Algorithm 1."""
    sizes = [len(t.model) for t in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    nodes = np.full((int(sum(sizes)), 4), -1, dtype=np.int64)
    nodes[:, 3] = 0
    for t, first in zip(trees, roots, strict=True):
        part = slice(int(first), int(first) + len(t.model))
        split = np.array(t.feature) >= 0
        nodes[part, 0] = t.feature
        nodes[part, 1] = np.where(split, first + np.array(t.left), -1)
        nodes[part, 2] = np.where(split, first + np.array(t.right), -1)
    model = np.concatenate([slot.models[t.model] for t, slot in zip(trees, ground.slots, strict=True)])
    # A value equal to the threshold goes right there and left here.
    threshold = np.nextafter(np.concatenate([t.threshold for t in trees]), -np.inf)
    return Forest(
        candidates=ground.candidates,
        context_names=ground.log.context_names,
        categories=ground.log.categories,
        mse="oracle",
        n_grown=ground.log.n,
        notes=notes,
        roots=roots,
        nodes=nodes,
        model=model,
        threshold=threshold,
        missing_left=np.zeros(len(nodes), dtype=bool),
        sets=np.zeros((0, 0), dtype=bool),
        facts=np.full((len(nodes), 5), np.nan),
    )
