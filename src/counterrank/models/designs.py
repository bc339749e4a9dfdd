"""Candidate designs, linear maps from the raw columns to those a ridge sees, and training Grams
mapped to them.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from counterrank.models.grams import Grams
from counterrank.models.layout import Layout
from counterrank.models.settings import FEW_ACTIONS, PENALTIES

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Columns z' map (D, p) with ridge penalties (p,). `columns` names the map, `name` the penalty
    too.
    """

    name: str
    columns: str
    map: Floats
    penalty: Floats


def designs(layout: Layout, k: int, *, pairs: bool) -> list[Design]:
    """Return the candidates at position k, from the smallest.

    "0": context only; "T": + centred counts above and below; "P": + each other position's centred
    indicators (where `pairs`); "TX", "PX": + context x counts; "TU", "TXU": + products of counts.
    """
    context = _context(layout)
    found = [_design("0", [context], layout, 0.0)]
    groups = {"T": [_counts(layout, k)]}
    if pairs:
        groups["P"] = [_pairs(layout, k)]
    for name, group in list(groups.items()):
        if layout.cross and (name == "T" or layout.A <= FEW_ACTIONS):
            groups[f"{name}X"] = [*group, _span(layout, 1, 2)]
    if layout.squares:
        # Counts of K - 1 items spread like sqrt(K - 1), their products like K - 1: divided by the
        # root they spread like counts, and one penalty serves both.
        scale = 1.0 / np.sqrt(max(layout.K - 1, 1))
        groups["TU"] = [_counts(layout, k), _span(layout, 2, 3) * scale]
        if layout.cross:
            groups["TXU"] = [*groups["TX"], _span(layout, 2, 3) * scale]
    for name, group in groups.items():
        found.extend(_design(name, [context, *group], layout, penalty) for penalty in PENALTIES)
    return found


def _design(name: str, parts: list[Floats], layout: Layout, penalty: float) -> Design:
    joined = np.concatenate(parts, axis=1)
    weights = np.full(joined.shape[1], penalty)
    # The context is standardised: a penalty of one row is next to nothing and keeps the solution
    # unique.
    weights[: layout.d + 1] = 1.0
    return Design(name if penalty == 0 else f"{name}/{penalty:g}", name, joined, weights)


def _context(layout: Layout) -> Floats:
    return np.eye(layout.width)[:, : layout.d + 1]


def _span(layout: Layout, first: int, last: int) -> Floats:
    """Columns of a dense group as they are: they were centred when they were made."""
    starts = layout.starts
    return np.eye(layout.width)[:, starts[first] : starts[last]]


def _pairs(layout: Layout, k: int) -> Floats:
    """Centred indicators by block: 1{.} minus the block's number of positions times the logger's
    mean.
    """
    # 1{a_l = b} - p0(b | x) has mean zero given the context, so these columns are uncorrelated with
    # anything made of context: interactions are shrunk without moving own effects.
    out = np.zeros((layout.width, layout.blocks * layout.A))
    centre, first = layout.starts[0], layout.starts[3]
    others = np.delete(layout.slots[k], k)
    size = np.bincount(others, minlength=layout.blocks)
    for block in range(layout.blocks):
        for b in range(layout.A):
            column = block * layout.A + b
            out[first + column, column] = 1.0
            out[centre + b, column] = -size[block]
    return out


def _counts(layout: Layout, k: int) -> Floats:
    """Centred counts above and below (D, 2A), whatever the blocks are."""
    single = _pairs(layout, k)
    out = np.zeros((layout.width, 2 * layout.A))
    others = [m for m in range(layout.K) if m != k]
    for block in {int(layout.slots[k, m]) for m in others}:
        below = min(m for m in others if layout.slots[k, m] == block) > k
        side = slice(layout.A, 2 * layout.A) if below else slice(0, layout.A)
        out[:, side] += single[:, block * layout.A : (block + 1) * layout.A]
    return out


def others(values: Floats) -> Floats:
    """Return for each fold the sum over the other folds.

    >>> others(np.array([1.0, 2.0, 4.0])).tolist()
    [6.0, 5.0, 3.0]
    """
    rest: Floats = values.sum(axis=0) - values
    return rest


def solve(matrix: Floats, right: Floats, penalty: Floats) -> Floats:
    """Return (matrix + diag(penalty))^-1 right for stacks of matrices (..., p, p) and right sides
    (..., p, s).
    """
    p = matrix.shape[-1]
    full = matrix.copy()
    full[..., np.arange(p), np.arange(p)] += penalty
    return np.asarray(np.linalg.solve(full, right), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Grams of each fold's training rows, seen through the candidate designs of each position."""

    grams: Grams
    layout: Layout
    pairs: bool
    candidates: list[list[Design]] = field(init=False)
    _rest: dict[int, Floats] = field(default_factory=dict)
    _mapped: dict[tuple[int, str], Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = [designs(self.layout, k, pairs=self.pairs) for k in range(self.layout.K)]
        object.__setattr__(self, "candidates", found)

    def rest(self, k: int) -> Floats:
        """Return the training Grams (F, A, D, D) at position k."""
        if k not in self._rest:
            self._rest[k] = others(self.grams.gram[:, k])
        return self._rest[k]

    def mapped(self, k: int, design: Design) -> Floats:
        """Return the training Grams in the design's columns (F, A, p, p)."""
        key = (k, design.columns)
        # The costly product (D^2 p); every penalty of the same columns shares it.
        if key not in self._mapped:
            self._mapped[key] = design.map.T @ self.rest(k) @ design.map
        return self._mapped[key]

    def solved(self, k: int, design: Design, right: Floats) -> Floats:
        """Return ridge coefficients in raw columns (F, A, D, s) for raw right sides (F, A, D, s)."""
        inside = np.swapaxes(np.swapaxes(right, -1, -2) @ design.map, -1, -2)
        return design.map @ solve(self.mapped(k, design), inside, design.penalty)
