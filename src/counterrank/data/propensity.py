"""Logged numbers: what a policy's probability of the shown items is, and what it is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.arrays import Floats
from counterrank.errors import PropensityError
from counterrank.messages import row_name

Rows = slice | NDArray[np.int64]


def rows_of(values: NDArray[Any], rows: Rows) -> NDArray[Any]:
    """Return the selected rows of an array."""
    # `take` gathers rows twice as fast as an index does.
    return values[rows] if isinstance(rows, slice) else values.take(rows, axis=0)


#: What each kind of number can answer. "subset" is the probability of items at any set of
#: positions.
SUPPORTS: dict[str, frozenset[str]] = {
    "factored": frozenset({"joint", "prefix", "position", "subset"}),
    "prefix": frozenset({"joint", "prefix"}),
    "position": frozenset({"position"}),
    "joint": frozenset({"joint"}),
}

MEANING = {
    "factored": "P(a_k|x) per position, positions independent",
    "prefix": "P(a_k|a_1..a_k-1,x) per position",
    "position": "marginal P(a_k at position k|x)",
    "joint": "one number for the whole ranking",
}


@dataclass(frozen=True, slots=True, eq=False)
class Propensity:
    """A policy's probabilities of the logged items, and their kind.

    ========  ==================================  ==============================
    kind      values                              supports
    ========  ==================================  ==============================
    factored  (n, K): P(a_k | x)                  every estimator
    prefix    (n, K): P(a_k | a_1..a_k-1, x)      RIPS, IPS
    position  (n, K): P(a_k at position k | x)    IIPS
    joint     (n,):   P(a_1..a_K | x)             IPS
    ========  ==================================  ==============================

    >>> Propensity(kind="joint", values=[0.25, 0.5]).supports
    frozenset({'joint'})
    """

    kind: str
    values: Floats

    if TYPE_CHECKING:
        # Lists are taken too.
        def __init__(self, kind: str, values: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        if self.kind not in SUPPORTS:
            raise PropensityError(
                f"propensity kind '{self.kind}' is unknown",
                remedy=f"use one of {', '.join(SUPPORTS)}",
            )
        try:
            values = np.ascontiguousarray(self.values, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise PropensityError(f"propensity values must be numbers: {problem}") from problem
        if self.kind == "joint" and values.ndim == 2:
            differ = (values != values[:, :1]).any(axis=1)
            if differ.any():
                row = int(np.argmax(differ))
                raise PropensityError(
                    f"'joint' propensities need one number per ranking, but {row_name(row)} has "
                    f"different ones: {values[row]}"
                )
            values = np.ascontiguousarray(values[:, 0])
        expected = 1 if self.kind == "joint" else 2
        if values.ndim != expected:
            shape = "(n,)" if expected == 1 else "(n, K)"
            raise PropensityError(
                f"'{self.kind}' propensities ({MEANING[self.kind]}) must have shape {shape}, got "
                f"{values.shape}"
            )
        object.__setattr__(self, "values", values)

    @property
    def supports(self) -> frozenset[str]:
        """The questions these numbers answer: joint, prefix, position, subset."""
        return SUPPORTS[self.kind]

    @property
    def n_rows(self) -> int:
        """Number of rankings."""
        return int(self.values.shape[0])

    def take(self, rows: Rows) -> Self:
        """Return the numbers of the selected rows."""
        return type(self)(self.kind, rows_of(self.values, rows))

    def by_position(self, length: int) -> Floats:
        """Return (n, K) factors whose allowed products are probabilities; a joint sits in the first column."""
        if self.kind != "joint":
            return self.values
        factors = np.ones((self.values.shape[0], length))  # (n, K)
        factors[:, 0] = self.values
        return factors
