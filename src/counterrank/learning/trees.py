"""Trees of LightGBM's text format, read as data and walked here.

A policy file may come from anywhere, and LightGBM trusts its text: damaged numbers crash the process or
make it hang. The text is therefore read into arrays here, every link and number is checked, and a
kernel walks the trees. Serving a policy then does not need LightGBM.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PolicyError
from counterrank.kernels.jit import jit

#: What `decision_type` means: 2 sends a missing value to the left, 8 says that some were missing in
#: the fit. Other bits are categories, and zeros taken for missing.
_LEFT, _MISSING = 2, 8
_OBJECTIVES = ("regression", "binary")


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Trees whose leaves add up: all nodes in one list, those of tree t from `first[t]` on.

    Node i asks whether column `column[i]` is at most `threshold[i]`, and leads to `left[i]` or
    `right[i]`; ~leaf where that is a leaf of `leaf`. A missing value goes left where `missing[i]`.
    `first[t]` is ~leaf of a tree of one leaf. `sigmoid` is the slope of the chance of 1; 0 where
    numbers are predicted as they are.
    """

    text: str
    columns: int
    sigmoid: float
    first: Ints
    column: Ints
    threshold: Floats
    missing: Bools
    left: Ints
    right: Ints
    leaf: Floats

    @classmethod
    def from_text(cls, text: str) -> "Trees":
        """Return the trees of LightGBM's own text format; anything else raises a PolicyError."""
        try:
            return _parsed(text)
        except (ValueError, TypeError, AttributeError, OverflowError) as problem:
            raise PolicyError(f"the policy file's trees are damaged: {problem}") from None

    def predict(self, rows: Floats) -> Floats:
        """Return what is expected of slots (N, p)."""
        if rows.shape[1] != self.columns:
            raise PolicyError(
                f"the policy file's trees read {self.columns} columns, its scorer gives "
                f"{rows.shape[1]}"
            )
        out = np.zeros(len(rows))
        _walk(
            np.ascontiguousarray(rows, dtype=np.float64),
            self.first,
            self.column,
            self.threshold,
            self.missing,
            self.left,
            self.right,
            self.leaf,
            out,
        )
        if self.sigmoid:
            # Far out exp is infinite and the chance 0, which it is to rounding.
            with np.errstate(over="ignore"):
                out = 1.0 / (1.0 + np.exp(-self.sigmoid * out))
        return out


@jit
def _walk(  # noqa: PLR0913 - the fields of Trees
    rows: Floats,
    first: Ints,
    column: Ints,
    threshold: Floats,
    missing: Bools,
    left: Ints,
    right: Ints,
    leaf: Floats,
    out: Floats,
) -> None:
    """Add the leaf of each tree that a row ends in, tree by tree as LightGBM does."""
    for i in range(rows.shape[0]):
        total = 0.0
        for t in range(first.shape[0]):
            node = first[t]
            while node >= 0:
                value = rows[i, column[node]]
                goes = missing[node] if math.isnan(value) else value <= threshold[node]
                node = left[node] if goes else right[node]
            total += leaf[-1 - node]
        out[i] = total


def _parsed(text: str) -> Trees:
    if not isinstance(text, str) or not text.startswith("tree\n"):
        raise ValueError("this is no text of LightGBM")
    body, end, _ = text.partition("\nend of trees")
    if not end:
        raise ValueError("the text ends before its trees do")
    head, *blocks = body.split("\nTree=")
    about = _entries(head)
    if any(line == "average_output" for line in head.splitlines()):
        raise ValueError("trees that are averaged are none of ours")
    if about.get("num_class") != "1" or about.get("num_tree_per_iteration") != "1":
        raise ValueError("one number is predicted, so num_class is 1")
    columns = int(about["max_feature_idx"]) + 1 if "max_feature_idx" in about else 0
    if not blocks or columns < 1:
        raise ValueError("there are no trees, or no columns that they read")
    parts = [_tree(_entries(block), columns, number) for number, block in enumerate(blocks)]
    if not math.isfinite(sum(float(np.abs(part.leaf).max()) for part in parts)):
        raise ValueError("the leaves add up to infinity")
    nodes = np.cumsum([0, *(len(part.left) for part in parts)])
    leaves = np.cumsum([0, *(len(part.leaf) for part in parts)])
    places = list(zip(parts, nodes[:-1].tolist(), leaves[:-1].tolist(), strict=True))

    def joined(values: list[Any], kind: Any) -> Any:
        return np.concatenate(values).astype(kind)

    return Trees(
        text=text,
        columns=columns,
        sigmoid=_slope(about.get("objective", "")),
        first=np.array([n if len(part.left) else ~one for part, n, one in places], dtype=np.int64),
        column=joined([part.column for part in parts], np.int64),
        threshold=joined([part.threshold for part in parts], np.float64),
        missing=joined([part.missing for part in parts], np.bool_),
        left=joined([_moved(part.left, n, one) for part, n, one in places], np.int64),
        right=joined([_moved(part.right, n, one) for part, n, one in places], np.int64),
        leaf=joined([part.leaf for part in parts], np.float64),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    column: Ints
    threshold: Floats
    missing: Bools
    left: Ints
    right: Ints
    leaf: Floats


def _tree(given: Mapping[str, str], columns: int, number: int) -> _Tree:
    """Return one tree, whose every link and number has been looked at."""
    what = f"tree {number}"
    if given.get("num_cat", "0") != "0" or given.get("is_linear", "0") != "0":
        raise ValueError(f"{what} has categories or linear leaves, which are none of ours")
    leaf = _finite(given.get("leaf_value", ""), f"{what}, leaf_value")
    if given.get("num_leaves") != str(len(leaf)) or not len(leaf):
        raise ValueError(f"{what} has another number of leaves than it says")
    inner = len(leaf) - 1
    found = {
        name: _numbers(given.get(name, ""), f"{what}, {name}")
        for name in ("split_feature", "threshold", "decision_type", "left_child", "right_child")
    }
    for name, values in found.items():
        if len(values) != inner:
            raise ValueError(f"{what}: {name} has {len(values)} entries, not {inner}")
    column, decision, left, right = (
        _whole(found[name], f"{what}, {name}")
        for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    if inner and not (0 <= column.min() and column.max() < columns):
        raise ValueError(f"{what} reads a column that there is not")
    if not np.isin(decision, (0, _LEFT, _MISSING, _LEFT | _MISSING)).all():
        raise ValueError(f"{what} asks other questions than <=")
    _refuse_knots(left, right, inner, what)
    told = (decision & _MISSING) > 0
    # Where none was missing in the fit a missing value counts as zero.
    missing = np.where(told, (decision & _LEFT) > 0, found["threshold"] >= 0.0)
    return _Tree(column, found["threshold"], missing, left, right, leaf)


def _refuse_knots(left: Ints, right: Ints, inner: int, what: str) -> None:
    """Raise where links do not make a tree.

    Each node but the first, and each leaf, hangs on one node, and a node on one before it. Then
    every walk ends.
    """
    links = np.concatenate([left, right])
    above = np.concatenate([np.arange(inner), np.arange(inner)])
    nodes, leaves = links[links >= 0], -1 - links[links < 0]
    whole = np.array_equal(np.sort(nodes), np.arange(1, inner))
    if inner and not (whole and np.array_equal(np.sort(leaves), np.arange(inner + 1))):
        raise ValueError(f"{what} has links that make no tree")
    if (links[links >= 0] <= above[links >= 0]).any():
        raise ValueError(f"{what} has links that go in a circle")


def _moved(links: Ints, nodes: int, leaves: int) -> Ints:
    """Return links of one tree as links into the list of all."""
    return np.where(links >= 0, links + nodes, links - leaves)


def _entries(block: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in block.splitlines())
    return {name: value for name, sign, value in pairs if sign}


def _numbers(text: str, what: str) -> Floats:
    """Return numbers of a list; a threshold may be infinite, where only missing values go apart."""
    found = np.array([float(part) for part in text.split()], dtype=np.float64)
    if np.isnan(found).any():
        raise ValueError(f"{what} holds something that is no number")
    return found


def _finite(text: str, what: str) -> Floats:
    found = _numbers(text, what)
    if not np.isfinite(found).all():
        raise ValueError(f"{what} holds a number that is not finite")
    return found


def _whole(values: Floats, what: str) -> Ints:
    if not (np.abs(values) < 2.0**31).all() or (values != np.round(values)).any():
        raise ValueError(f"{what} holds a number that is not whole")
    return values.astype(np.int64)


def _slope(objective: str) -> float:
    """Return the slope of the chance of 1; 0 where numbers are predicted as they are.

    >>> _slope("binary sigmoid:1"), _slope("regression")
    (1.0, 0.0)
    """
    kind, _, option = objective.partition(" ")
    if objective == "regression":
        return 0.0
    slope = float(option.removeprefix("sigmoid:")) if kind == "binary" else math.nan
    if not 0.0 < slope < math.inf:
        raise ValueError(f"the objective '{objective}' is none of {', '.join(_OBJECTIVES)}")
    return slope
