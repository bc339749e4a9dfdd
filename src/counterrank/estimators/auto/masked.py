"""Masks x orders as members of `auto`: their names, their steps, and the members they stand in for."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.masks import mask
from counterrank.estimators.auto.routes import CANDIDATES, WHOLE

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Kernels have sums of products up to this order, and the whole product.
HIGHEST = 3
#: Longer rankings have no masked members: K x K masks would outgrow the sums.
_LONGEST = 1024


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member with weights of order `order` inside `mask`; its `twin` has weights of this order in whole rankings.

    The twin is what the member stands in for: it sees the same interactions and those outside the mask.
    """

    name: str
    mask: str
    order: int
    twin: str


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """The candidates of rankings of K positions, and the steps of their masks for `kernels.mask_orders`."""

    candidates: tuple[Candidate, ...]
    pairs: Ints
    added: Ints
    fresh: Bools

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names, in the order of their columns."""
        return tuple(candidate.name for candidate in self.candidates)


@lru_cache(maxsize=16)
def inside(K: int) -> Inside:
    """Return the candidates that differ from each other and from whole rankings.

    >>> inside(3).names
    ('dr-C-order-2', 'dr-rips', 'dr-N1-order-2', 'dr-N1')
    >>> inside(2).names, inside(1).names
    (('dr-rips',), ())
    """
    masks: dict[str, Bools] = {}
    found: dict[tuple[str, int], Candidate] = {}
    for name, order in CANDIDATES if K <= _LONGEST else ():
        matrix = mask(name, K)
        largest = int(matrix.sum(axis=1).max())
        if largest == 1 or matrix.all():
            continue
        masks[name] = matrix
        order = largest if order == WHOLE else min(order, largest)
        called = f"dr-{name}-order-{order}" if order < largest else "dr-rips" if name == "C" else f"dr-{name}"
        twin = f"dr-order-{order}" if order < K else "dr-ips"
        found.setdefault((name, order), Candidate(called, name, order, twin))
    numbers = {name: m for m, name in enumerate(masks)}
    pairs = np.array([(numbers[name], order if order <= HIGHEST else WHOLE) for name, order in found], dtype=np.int64)
    added, fresh = steps(list(masks.values()), K)
    return Inside(tuple(found.values()), pairs.reshape(-1, 2), added, fresh)


def steps(masks: list[Bools], K: int) -> tuple[Ints, Bools]:
    """Return which positions join the others of each k (M, K, W), and where the sums must start anew (M, K).

    >>> added, fresh = steps([mask("C", 3)], 3)
    >>> added[0, :, 0].tolist(), fresh[0].tolist()
    ([-1, 0, 1], [True, False, False])
    """
    joined, fresh = [], np.zeros((len(masks), K), dtype=np.bool_)
    for m, matrix in enumerate(masks):
        others = matrix & ~np.eye(K, dtype=bool)
        before = np.zeros(K, dtype=bool)
        for k in range(K):
            fresh[m, k] = k == 0 or bool((before & ~others[k]).any())
            joined.append(np.flatnonzero(others[k] if fresh[m, k] else others[k] & ~before))
            before = others[k]
    width = max((len(row) for row in joined), default=0)
    added = np.full((len(masks), K, max(width, 1)), -1, dtype=np.int64)
    for row, positions in zip(added.reshape(-1, added.shape[2]), joined, strict=True):
        row[: len(positions)] = positions
    return added, fresh
