"""Boosted trees as arrays, which a policy file holds as lists of numbers and which are walked here.

A policy file may come from anywhere, so every link and number is checked before a kernel walks the
trees. Serving a policy does not need the library that grew them.

They are grown by gradient boosting on top of a fitted reward model. LightGBM's trees read
the first model's log odds of each item, and add what it lacks: products of
context, features and place. Item ids are not columns. The columns of a row in fold g always come from
the model that left g out, in training and in prediction.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from counterrank import boosting
from counterrank.arrays import Floats, Ints
from counterrank.errors import PolicyError
from counterrank.kernels.jit import jit
from counterrank.learning import settings
from counterrank.models import (
    ALL,
    ListModel,
    Rankings,
    Variant,
    by_row,
    fit_list_models,
    rivalry,
)
from counterrank.records import Json

#: A node asks whether a column is at most the threshold, and leads to a later node or to ~leaf.
_NODE = np.dtype(
    [("column", "i8"), ("threshold", "f8"), ("missing", "?"), ("left", "i8"), ("right", "i8")]
)


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Trees whose leaves add up: the `nodes` of all in one list.

    Tree t begins at `first[t]`. A missing value goes left where `missing` is true. `sigmoid` is the slope
    of the chance of 1; 0 where numbers are predicted as they are.
    """

    columns: int
    sigmoid: float
    first: Ints
    nodes: NDArray[np.void]
    leaf: Floats

    def __post_init__(self) -> None:
        n, leaves, column = len(self.nodes), len(self.leaf), self.nodes["column"]
        if not (len(self.first) and self.columns > 0 and 0.0 <= self.sigmoid < math.inf):
            raise ValueError("there are no trees, no columns that they read, or no slope")
        links = np.concatenate([self.first, self.nodes["left"], self.nodes["right"]])
        above = np.concatenate([np.full(len(self.first), -1), np.arange(n), np.arange(n)])
        # A link to a later node or to a leaf: every walk ends.
        if not ((links < n) & (links >= -leaves) & ((links < 0) | (links > above))).all():
            raise ValueError("a link leads back or nowhere")
        if not ((column >= 0) & (column < self.columns)).all():
            raise ValueError("a node reads a column that there is not")
        # So small that sums over trees stay finite.
        small = (np.abs(self.leaf) < 1e300 / leaves).all()
        if np.isnan(self.nodes["threshold"]).any() or not small:
            raise ValueError("a threshold is no number, or leaves are too large")

    @classmethod
    def of(cls, dumped: Mapping[str, Any]) -> "Trees":
        """Return the trees of LightGBM's `dump_model`."""
        nodes: list[tuple[Any, ...]] = []
        leaves: list[float] = []

        def add(node: Mapping[str, Any]) -> int:
            """Return the place of a node, or ~leaf, after everything below it is listed."""
            if "split_feature" not in node:
                leaves.append(node["leaf_value"])
                return -len(leaves)
            # Where none was missing in the fit a missing value counts as zero.
            zero = node["missing_type"] == "None" and node["threshold"] >= 0.0
            missing = node["default_left"] if node["missing_type"] == "NaN" else zero
            place = len(nodes)
            nodes.append(())
            links = add(node["left_child"]), add(node["right_child"])
            nodes[place] = (node["split_feature"], node["threshold"], missing, *links)
            return place

        first = [add(tree["tree_structure"]) for tree in dumped["tree_info"]]
        kind, _, slope = dumped["objective"].partition(" sigmoid:")
        return cls(
            int(dumped["max_feature_idx"]) + 1,
            float(slope or 1.0) if kind == "binary" else 0.0,
            np.array(first, dtype=np.int64),
            np.array(nodes, dtype=_NODE),
            np.array(leaves, dtype=np.float64),
        )

    def to_dict(self) -> Json:
        """Return the trees as plain data."""
        nodes = {name: self.nodes[name].tolist() for name in _NODE.fields or ()}
        ends = {"first": self.first.tolist(), "leaf": self.leaf.tolist()}
        return {"columns": self.columns, "sigmoid": self.sigmoid, **nodes, **ends}

    @classmethod
    def from_dict(cls, data: Any) -> "Trees":
        """Return the trees of plain data; anything else raises a PolicyError."""
        try:
            parts = [_array(data[name], _NODE[name], name) for name in _NODE.fields or ()]
            nodes = np.rec.fromarrays(parts, dtype=_NODE).view(np.ndarray)
            first, leaf = (
                _array(data[name], np.dtype(kind), name)
                for name, kind in (("first", "i8"), ("leaf", "f8"))
            )
            return cls(data["columns"], data["sigmoid"], first, nodes, leaf)
        except (KeyError, ValueError, TypeError, OverflowError) as problem:
            raise PolicyError(
                f"the policy file's trees are damaged or of another version ({problem}); learn the "
                "policy again"
            ) from None

    def predict(self, rows: Floats) -> Floats:
        """Return what is expected of slots (N, p)."""
        if rows.shape[1] != self.columns:
            raise PolicyError(
                f"the policy file's trees read {self.columns} columns, its scorer gives "
                f"{rows.shape[1]}"
            )
        out = np.zeros(len(rows))
        _walk(np.ascontiguousarray(rows, dtype=np.float64), self.first, self.nodes, self.leaf, out)
        return np.asarray(expit(self.sigmoid * out)) if self.sigmoid else out


def _array(values: Any, kind: np.dtype[Any], name: str) -> Any:
    """Return a list of whole numbers, numbers or switches as an array."""
    found = np.array(values)
    allowed = "if" if kind.kind == "f" else kind.kind
    if found.ndim != 1 or (len(found) and found.dtype.kind not in allowed):
        raise ValueError(f"{name} holds something else than it should")
    return found.astype(kind)


@jit
def _walk(rows: Floats, first: Ints, nodes: NDArray[np.void], leaf: Floats, out: Floats) -> None:
    """Add the leaf of each tree that a row ends in, tree by tree as LightGBM does."""
    for i in range(rows.shape[0]):
        total = 0.0
        for t in range(first.shape[0]):
            place = first[t]
            while place >= 0:
                node = nodes[place]
                value = rows[i, node["column"]]
                goes = node["missing"] if math.isnan(value) else value <= node["threshold"]
                place = node["left"] if goes else node["right"]
            total += leaf[-1 - place]
        out[i] = total


@dataclass(frozen=True, slots=True, eq=False)
class BoostedModel(ListModel):
    """Trees by fold left out (the last: all rows) on the columns of `described`."""

    first: ListModel
    trees: tuple[Trees, ...]
    details: Json = field(default_factory=dict)

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.first.folds

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the expected reward of each slot (m, K)."""
        out = np.zeros(rankings.item.shape)
        folds = by_row(fold, self.folds, rankings.m)
        for rows, part in rankings.parts():
            row, k = np.nonzero(part.item >= 0)
            own, values = folds[rows], out[rows]
            table = with_place(described(self.first, part, own)[row, k], k)
            for f in np.unique(own):
                at = own[row] == f
                values[row[at], k[at]] = self.trees[f].predict(table[at])
        return out

    def strength(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return the first model's strengths (m, K)."""
        return self.first.strength(rankings, fold)

    def relevance(self, rankings: Rankings, fold: int | Ints = ALL) -> Floats:
        """Return what the trees expect of each item alone in the first place (m, K), -inf in the padding."""
        m, C = rankings.item.shape
        features, extra = (
            None if part is None else part.reshape(m * C, 1, -1)
            for part in (rankings.features, rankings.extra)
        )
        item, row = rankings.item.reshape(m * C, 1), np.repeat(rankings.row, C)
        alone = Rankings(item, rankings.x, row=row, features=features, extra=extra)
        value = self.expected(alone, np.repeat(by_row(fold, self.folds, m), C)).reshape(m, C)
        return np.where(rankings.item >= 0, value, -np.inf)


def described(first: ListModel, rankings: Rankings, fold: int | Ints) -> Floats:
    """Return the columns of each slot but its place (m, K, p): the first model's key, rivals, context, features."""
    key = np.where(rankings.item >= 0, first.relevance(rankings, fold), 0.0)
    others = rivalry(first.strength(rankings, fold), rankings.lengths)
    x = np.broadcast_to(
        rankings.x[rankings.row][:, None, :], (rankings.m, rankings.K, rankings.x.shape[1])
    )
    given = [part for part in (rankings.features, rankings.extra) if part is not None]
    return np.concatenate([key[..., None], others, x, *given], axis=2)


def with_place(columns: Floats, k: Ints) -> Floats:
    """Return rows for trees: the place, a column of zeros, and the columns (N, p)."""
    # Policy files count the columns of their trees with the empty one.
    return np.concatenate([k[:, None].astype(float), np.zeros((len(k), 1)), columns], axis=1)


def fit_trees(
    rankings: Rankings, reward: Floats, fold: Ints, *, folds: int, seed: int
) -> BoostedModel:
    """Return cross-fitted trees on top of the plain click model."""
    [first] = fit_list_models(rankings, reward, fold, folds=folds, variants=(Variant(),), seed=seed)
    row, k = np.nonzero(rankings.item >= 0)
    columns = with_place(described(first, rankings, fold)[row, k], k)
    value = reward[row, k]
    options = boosting.kept_options(
        value,
        leaves=settings.LEAVES,
        leaf_rows=settings.LEAF_ROWS,
        rate=settings.RATE,
        seed=seed,
    )
    trees = []
    for f in (*range(folds), ALL):
        used = fold[row] != f
        grown = boosting.kept_trees(columns[used], value[used], options, settings.TREES)
        trees.append(Trees.of(grown))
    details = {
        "model": "boosting",
        "first": first.details,
        "trees": settings.TREES,
        **options,
    }
    return BoostedModel(first, tuple(trees), details)
