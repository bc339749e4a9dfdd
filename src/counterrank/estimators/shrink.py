"""Shrinkage of weights: a smooth form of clipping."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.clip import Tamed
from counterrank.estimators.weights_by_name import name_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shrunk(Tamed):
    """f(w) = lambda w / (w^2 + lambda) with lambda = limit^2 (Su et al. 2020, "optimistic" shrinkage).

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> Shrunk("iips", limit=2.0).estimate(log, [[1, .5], [.5, .5]]).value
    0.9
    """

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the weights in it."""
        return f"shrink-{name_of(self.weights)}"

    def tame(self, limit: float) -> Callable[[Floats], Floats]:
        """Shrink weights, the large ones most."""
        return lambda w: limit**2 * w / (w**2 + limit**2)
