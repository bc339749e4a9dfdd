"""Boosted trees on top of a fitted reward model, stored as arrays of numbers.

The trees are grown with LightGBM and evaluated here, so that serving a policy does not need LightGBM.
Every link and number of a policy file is checked before a kernel evaluates the trees.

The trees read the first model's log odds of each item, context, features and position, and add the
interactions that the first model lacks. Item ids are not columns. The columns of a row in fold g come
from the model that was fitted without g, in training and in prediction.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from counterrank.common import boosting
from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.common.records import Json
from counterrank.kernels.jit import jit
from counterrank.learning import settings
from counterrank.models import (
    ALL,
    Fold,
    ListModel,
    Rankings,
    Variant,
    by_row,
    fit_list_models,
    rivalry,
)

#: A node tests whether a column is at most the threshold; its links are later nodes or ~leaf.
_NODE = np.dtype(
    [("column", "i8"), ("threshold", "f8"), ("missing", "?"), ("left", "i8"), ("right", "i8")]
)


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Trees whose predictions are added; `nodes` contains the nodes of all trees.

    Tree t starts at `first[t]`. A missing value goes left if `missing` is true. `sigmoid` is the slope
    of the logistic function that is applied to the sum, or 0 for predictions of numbers.
    """

    columns: int
    sigmoid: float
    first: Ints
    nodes: NDArray[np.void]
    leaf: Floats

    def __post_init__(self) -> None:
        n, leaves, column = len(self.nodes), len(self.leaf), self.nodes["column"]
        if not (len(self.first) and self.columns > 0 and 0.0 <= self.sigmoid < math.inf):
            raise ValueError("there are no trees, no columns, or an invalid slope")
        links = np.concatenate([self.first, self.nodes["left"], self.nodes["right"]])
        above = np.concatenate([np.full(len(self.first), -1), np.arange(n), np.arange(n)])
        # Links lead to later nodes or to leaves, so that every walk ends.
        if not ((links < n) & (links >= -leaves) & ((links < 0) | (links > above))).all():
            raise ValueError("a link leads back or nowhere")
        if not ((column >= 0) & (column < self.columns)).all():
            raise ValueError("a node reads a column that there is not")
        # So small that sums over trees stay finite.
        small = (np.abs(self.leaf) < 1e300 / leaves).all()
        if np.isnan(self.nodes["threshold"]).any() or not small:
            raise ValueError("a threshold is no number, or leaves are too large")

    @classmethod
    def from_lightgbm(cls, dumped: Mapping[str, Any]) -> "Trees":
        """Return the trees of LightGBM's `dump_model`."""
        nodes: list[tuple[Any, ...]] = []
        leaves: list[float] = []

        def add(node: Mapping[str, Any]) -> int:
            """Append a node and all nodes below it; return its index, or ~leaf."""
            if "split_feature" not in node:
                leaves.append(node["leaf_value"])
                return -len(leaves)
            # LightGBM treats a missing value as zero if none was missing in training.
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
        """Return the trees of plain data; raise PolicyError if it is not valid."""
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
        """Return the expected reward of slots (N,) with columns (N, p)."""
        if rows.shape[1] != self.columns:
            raise PolicyError(
                f"the policy file's trees read {self.columns} columns, its scorer gives "
                f"{rows.shape[1]}"
            )
        out = np.zeros(len(rows))
        _walk(np.ascontiguousarray(rows, dtype=np.float64), self.first, self.nodes, self.leaf, out)
        return np.asarray(expit(self.sigmoid * out)) if self.sigmoid else out


def _array(values: Any, kind: np.dtype[Any], name: str) -> Any:
    """Return a list of integers, numbers or booleans as an array."""
    array = np.array(values)
    allowed = "if" if kind.kind == "f" else kind.kind
    if array.ndim != 1 or (len(array) and array.dtype.kind not in allowed):
        raise ValueError(f"{name} has values of another type")
    return array.astype(kind)


@jit
def _walk(rows: Floats, first: Ints, nodes: NDArray[np.void], leaf: Floats, out: Floats) -> None:
    """Write the sum over trees of the leaf that each row reaches, in LightGBM's order of trees."""
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
    """Trees for each left-out fold (the last for none) on the columns of `slot_columns`."""

    first: ListModel
    trees: tuple[Trees, ...]
    details: Json = field(default_factory=dict)

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.first.folds

    def expected(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return the expected reward of each slot (m, K)."""
        out = np.zeros(rankings.item.shape)
        folds = by_row(fold, self.folds, rankings.m)
        for rows, block in rankings.parts():
            row, k = np.nonzero(block.item >= 0)
            row_folds, values = folds[rows], out[rows]
            table = with_place(slot_columns(self.first, block, row_folds)[row, k], k)
            for f in np.unique(row_folds):
                in_fold = row_folds[row] == f
                values[row[in_fold], k[in_fold]] = self.trees[f].predict(table[in_fold])
        return out

    def strength(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return the first model's strengths (m, K)."""
        return self.first.strength(rankings, fold)

    def relevance(self, rankings: Rankings, fold: Fold = ALL) -> Floats:
        """Return the expected reward of each item alone in the first position (m, K), -inf for padding."""
        m, C = rankings.item.shape
        features, extra = (
            None if block is None else block.reshape(m * C, 1, -1)
            for block in (rankings.features, rankings.extra)
        )
        item, row = rankings.item.reshape(m * C, 1), np.repeat(rankings.row, C)
        alone = Rankings(item, rankings.x, row=row, features=features, extra=extra)
        value = self.expected(alone, np.repeat(by_row(fold, self.folds, m), C)).reshape(m, C)
        return np.where(rankings.item >= 0, value, -np.inf)


def slot_columns(first: ListModel, rankings: Rankings, fold: Fold) -> Floats:
    """Return the columns of each slot without its position (m, K, p): score, rivals, context, features."""
    key = np.where(rankings.item >= 0, first.relevance(rankings, fold), 0.0)
    rivals = rivalry(first.strength(rankings, fold), rankings.lengths)
    x = np.broadcast_to(
        rankings.x[rankings.row][:, None, :], (rankings.m, rankings.K, rankings.x.shape[1])
    )
    optional_columns = [block for block in (rankings.features, rankings.extra) if block is not None]
    return np.concatenate([key[..., None], rivals, x, *optional_columns], axis=2)


def with_place(columns: Floats, k: Ints) -> Floats:
    """Return the rows of the trees: the position, a column of zeros, and the columns (N, p)."""
    # The column of zeros keeps the numbering of columns in policy files.
    return np.concatenate([k[:, None].astype(float), np.zeros((len(k), 1)), columns], axis=1)


def fit_trees(
    rankings: Rankings, reward: Floats, fold: Ints, *, folds: int, seed: int
) -> BoostedModel:
    """Return cross-fitted trees on top of the plain click model."""
    [first] = fit_list_models(rankings, reward, fold, folds=folds, variants=(Variant(),), seed=seed)
    row, k = np.nonzero(rankings.item >= 0)
    columns = with_place(slot_columns(first, rankings, fold)[row, k], k)
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
        trees.append(Trees.from_lightgbm(grown))
    details = {
        "model": "boosting",
        "first": first.details,
        "trees": settings.TREES,
        **options,
    }
    return BoostedModel(first, tuple(trees), details)
