"""Candidate behaviour models for the tree: the papers' sets, a user's own, and generated ones."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.behavior import masks
from counterrank.errors import BehaviorError

Bools = NDArray[np.bool_]

#: Named sets. "paper": section 4.1 of Kiyohara et al. (2023); "published": the code behind its figures (C3, C2 in
#: the place of C2, C1); "real-world": section 5.
SETS: dict[str, tuple[str, ...]] = {
    "paper": ("S", "R6", "R3", "C2", "C1", "I1"),
    "published": ("S", "R6", "R3", "C3", "C2", "I1"),
    "real-world": ("S", "C", "I", "P2"),
    "default": ("S", "C", "I"),
}
#: Interaction orders that "default" adds to its masks: measured, no larger set chose better (docs/mse-estimates.md).
DEFAULT_ORDERS = (2, 3)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A behaviour model: mask (K, K), and an interaction order (None: the full product of ratios).

    >>> Candidate("I", masks.independent(2)).complexity.tolist()
    [1, 1]
    """

    name: str
    mask: Bools
    order: int | None = None

    @property
    def complexity(self) -> NDArray[np.int64]:
        """Items that matter at each position (K,)."""
        counts: NDArray[np.int64] = self.mask.sum(axis=1, dtype=np.int64)
        return counts

    @property
    def label(self) -> str:
        """The name with the interaction order, if any."""
        return self.name if self.order is None else f"{self.name}, order {self.order}"


def candidates(
    K: int,
    kind: "str | Sequence[str | ArrayLike | Candidate]" = "default",
    *,
    orders: Sequence[int] | None = None,
    rng: np.random.Generator | None = None,
) -> list[Candidate]:
    """Return candidate models for K positions: a named set, "generated", or a list of names, masks and candidates.

    "default" is S, C, I and the standard model at interaction orders 2 and 3; "generated" spans neighbours, cascades,
    windows and prefixes of several reaches. `orders` are interaction orders of the standard model to add; they apply
    to factored policies and are passed over otherwise. Models that coincide at this K appear once.

    >>> [c.label for c in candidates(4, "real-world", orders=[2])]
    ['S', 'C', 'I', 'P2', 'S, order 2']
    """
    names = generated(K) if kind == "generated" else SETS.get(kind) if isinstance(kind, str) else tuple(kind)
    if names is None:
        known = ", ".join([*SETS, "generated"])
        raise BehaviorError(f"candidate set '{kind}' is unknown; use one of {known}, or give a list of names or masks")
    found = [_one(given, K, rng) for given in names]
    wanted = (DEFAULT_ORDERS if kind == "default" else ()) if orders is None else tuple(orders)
    if any(order < 1 for order in wanted):
        raise BehaviorError(f"interaction orders start at 1 (the own item only); got {list(wanted)}")
    found += [Candidate("S", masks.standard(K), order) for order in wanted]
    return distinct(found)


def generated(K: int) -> tuple[str, ...]:
    """Return names of standard, cascade, neighbour, window and prefix models with reaches 1, 2, 4, ... below K.

    >>> generated(4)
    ('S', 'C', 'I', 'N1', 'C1', 'W1', 'P1', 'N2', 'C2', 'W2', 'P2')
    """
    reaches = [2**j for j in range(K) if 2**j < K - 1]
    return ("S", "C", "I", *(f"{letter}{h}" for h in reaches for letter in "NCWP"))


def distinct(given: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates without those equal to an earlier one; an order no smaller than K - 1 is none."""
    seen: dict[tuple[bytes, int | None], Candidate] = {}
    for c in given:
        order = None if c.order is not None and c.order >= c.complexity.max() else c.order
        plain = Candidate(c.name, c.mask, order)
        seen.setdefault((plain.mask.tobytes(), plain.order), plain)
    return list(seen.values())


def _one(given: "str | ArrayLike | Candidate", K: int, rng: np.random.Generator | None) -> Candidate:
    if isinstance(given, Candidate):
        masks.as_mask(given.mask, K)
        return given
    if isinstance(given, str):
        return Candidate(given, masks.mask(given, K, rng=rng))
    matrix = masks.as_mask(given, K)
    return Candidate(f"mask {zlib.crc32(matrix.tobytes()) % 10_000:04d}", matrix)
