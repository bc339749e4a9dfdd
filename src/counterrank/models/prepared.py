"""Training Grams mapped to candidate designs once, for the ridge and the projected weights alike."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from counterrank.models.designs import Design, designs
from counterrank.models.grams import Grams
from counterrank.models.layout import Layout

Floats = NDArray[np.float64]


def others(values: Floats) -> Floats:
    """Return for each fold the sum over the other folds.

    >>> others(np.array([1.0, 2.0, 4.0])).tolist()
    [6.0, 5.0, 3.0]
    """
    rest: Floats = values.sum(axis=0) - values
    return rest


def solve(matrix: Floats, right: Floats, penalty: Floats) -> Floats:
    """Return (matrix + diag(penalty))^-1 right for stacks of matrices (..., p, p) and right sides (..., p, s)."""
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
        if key not in self._mapped:
            self._mapped[key] = design.map.T @ self.rest(k) @ design.map
        return self._mapped[key]

    def solved(self, k: int, design: Design, right: Floats) -> Floats:
        """Return ridge coefficients in raw columns (F, A, D, s) for raw right sides (F, A, D, s)."""
        inside = np.swapaxes(np.swapaxes(right, -1, -2) @ design.map, -1, -2)
        return design.map @ solve(self.mapped(k, design), inside, design.penalty)
