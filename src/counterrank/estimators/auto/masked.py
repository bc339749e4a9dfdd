"""Masks x orders as members of `auto`: their names, their steps, and the members they stand in for."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior import contains, mask
from counterrank.estimators.auto.routes import CANDIDATES, WHOLE, WITNESS

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Kernels have sums of products up to this order, and the whole product.
HIGHEST = 3
#: Longer rankings have no masked members: K x K masks would outgrow the sums.
_LONGEST = 1024


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member with weights of order `order` inside `mask`; its `twin` has weights of this order in whole rankings.

    The twin is what the member stands in for: it sees the same interactions and those outside the mask. `larger` are
    the members of this order whose masks contain this one, the twin last. A witness only tells on other masks.
    """

    name: str
    mask: str
    order: int
    twin: str
    larger: tuple[str, ...]
    witness: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """The candidates of rankings of K positions, and the steps of their masks for `kernels.mask_orders`."""

    candidates: tuple[Candidate, ...]
    pairs: Ints
    added: Ints
    base: Ints

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names, in the order of their columns."""
        return tuple(candidate.name for candidate in self.candidates)


@lru_cache(maxsize=16)
def inside(K: int) -> Inside:
    """Return the candidates that differ from each other and from whole rankings.

    >>> inside(3).names
    ('dr-N1-order-2', 'dr-C-order-2', 'dr-N1', 'dr-rips', 'dr-C1')
    >>> inside(2).names, inside(1).names
    (('dr-rips',), ())
    """
    masks: dict[str, Bools] = {}
    found: dict[tuple[str, int], str] = {}
    for name, order in (*CANDIDATES, WITNESS) if K <= _LONGEST else ():
        matrix = mask(name, K)
        largest = int(matrix.sum(axis=1).max())
        if largest == 1 or matrix.all():
            continue
        masks[name] = matrix
        order = largest if order == WHOLE else min(order, largest)
        called = f"dr-{name}-order-{order}" if order < largest else "dr-rips" if name == "C" else f"dr-{name}"
        found.setdefault((name, order), called)
    candidates = []
    for (name, order), called in found.items():
        twin = f"dr-order-{order}" if order < K else "dr-ips"
        larger = [c for (m, o), c in found.items() if m != name and o == order and contains(masks[m], masks[name])]
        candidates.append(Candidate(called, name, order, twin, (*larger, twin), name == WITNESS[0]))
    numbers = {name: m for m, name in enumerate(masks)}
    pairs = np.array([(numbers[name], order if order <= HIGHEST else WHOLE) for name, order in found], dtype=np.int64)
    added, base = steps(list(masks.values()), K)
    return Inside(tuple(candidates), pairs.reshape(-1, 2), added, base)


def steps(masks: list[Bools], K: int) -> tuple[Ints, Ints]:
    """Return which positions join the others of each k (M, K, W), and whose sums they join (M, K): see the kernels.

    >>> added, base = steps([mask("C", 3), mask("C1", 3)], 3)
    >>> added[:, :, 0].tolist(), base.tolist()
    ([[-1, 0, 1], [1, 2, -1]], [[-1, 0, 0], [0, 0, 0]])
    """
    others = np.array(masks, dtype=bool).reshape(-1, K, K) & ~np.eye(K, dtype=bool)
    joined, base = [], np.full((len(masks), K), -1, dtype=np.int64)
    for m in range(len(masks)):
        for k in range(K):
            rows = {earlier: others[earlier, k] for earlier in range(m)} | ({m: others[m, k - 1]} if k else {})
            usable = {b: row.sum() for b, row in rows.items() if contains(others[m, k], row)}
            base[m, k] = max(usable, key=lambda b: int(usable[b]), default=-1)
            known = rows[base[m, k]] if usable else np.zeros(K, dtype=bool)
            joined.append(np.flatnonzero(others[m, k] & ~known))
    width = max((len(row) for row in joined), default=0)
    added = np.full((len(masks), K, max(width, 1)), -1, dtype=np.int64)
    for row, positions in zip(added.reshape(-1, added.shape[2]), joined, strict=True):
        row[: len(positions)] = positions
    return added, base
