"""From a log to the positions a tree is grown on: candidates the log supports, their contributions, their sums."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior import Candidate
from counterrank.errors import BehaviorError
from counterrank.ratios import Ratios, capability_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Slot:
    """A position as a tree sees it: its distinct models, and which candidate each of them is."""

    models: Ints  # (M,) index into the candidates
    relevant: NDArray[np.bool_]  # (M, K)
    order: Floats  # (M,)
    containing: NDArray[np.bool_]  # (M, M)
    densest: int
    sparsest: int


def supported(given: "list[Candidate]", ratios: Ratios) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Return the candidates that the log's propensities can weigh, and a note about the others."""
    good = [c for c in given if _possible(c, ratios)]
    if not good:
        raise BehaviorError(
            f"'{ratios.kind}' propensities support none of the candidates {', '.join(c.label for c in given)}; "
            "add S (whole ranking), C (items above) or I (own item), whichever the propensities describe"
        )
    dropped = [c.label for c in given if c.order is None and not any(c is kept for kept in good)]
    note = f"candidates: '{ratios.kind}' propensities cannot give weights for {', '.join(dropped)}; left out"
    return tuple(good), ((note,) if dropped else ())


def _possible(candidate: Candidate, ratios: Ratios) -> bool:
    if candidate.order is not None and ratios.kind != "factored":
        return False
    return capability_of(candidate.mask) in ratios.supports


def slots(candidates: tuple[Candidate, ...], *, per_position: bool) -> list[Slot]:
    """Return the trees' positions; models that coincide at a position are one model there."""
    key = (per_position, *((c.mask.tobytes(), c.order) for c in candidates))
    if key not in _SLOTS:
        if len(_SLOTS) > 64:
            _SLOTS.clear()
        _SLOTS[key] = _slots(candidates, per_position=per_position)
    return _SLOTS[key]


#: Slots by candidates: they depend on nothing else, and every fold and target asks for the same ones.
_SLOTS: dict[tuple[object, ...], list[Slot]] = {}


def _slots(candidates: tuple[Candidate, ...], *, per_position: bool) -> list[Slot]:
    if not per_position:
        sizes = [int(c.complexity.max()) for c in candidates]
        return [_slot(candidates, [c.mask.ravel() for c in candidates], sizes)]
    K = len(candidates[0].mask)
    return [
        _slot(candidates, [c.mask[k] for c in candidates], [int(c.mask[k].sum()) for c in candidates]) for k in range(K)
    ]


def _slot(candidates: tuple[Candidate, ...], rows: "list[NDArray[np.bool_]]", sizes: list[int]) -> Slot:
    # A full product over c items is of order c, and no order allows more than that.
    orders = [size if c.order is None else min(c.order, size) for c, size in zip(candidates, sizes, strict=True)]
    first: dict[tuple[bytes, int], int] = {}
    for m in range(len(candidates)):
        key = (rows[m].tobytes(), orders[m])
        # C and I are one model at the first position: it goes by the simpler name.
        if key not in first or candidates[m].mask.sum() < candidates[first[key]].mask.sum():
            first[key] = m
    chosen = list(first.values())
    order = np.array([orders[m] for m in chosen], dtype=np.float64)
    relevant = np.stack([rows[m] for m in chosen])
    inside = (relevant[:, None, :] | ~relevant[None, :, :]).all(axis=2)
    containing = inside & (order[:, None] >= order[None, :])
    by_size = np.lexsort((-order, -relevant.sum(axis=1)))
    return Slot(np.array(chosen, dtype=np.int64), relevant, order, containing, int(by_size[0]), int(by_size[-1]))


def contributions(ratios: Ratios, candidates: tuple[Candidate, ...]) -> tuple[Floats, Floats]:
    """Return w r of every candidate (K, M, n), and the mean of w^2 (K, M)."""
    from counterrank.tree.kernels.histogram_tails import weigh

    log = ratios.batch
    reward = np.ascontiguousarray(log.reward.T)
    out = np.empty((log.K, len(candidates), log.n))
    seen = np.empty((log.K, len(candidates)))
    for m, c in enumerate(candidates):
        w = ratios.masked(c.mask) if c.order is None else ratios.ordered(c.mask, c.order)
        weigh(np.ascontiguousarray(w.T), reward, m, out, seen)
    if not np.isfinite(seen).all():
        k = int(np.argmax(~np.isfinite(seen).all(axis=1)))
        raise BehaviorError(
            f"no tree can be grown: squares of the weights at position {k + 1} overflow. Look for logging propensities "
            "near zero"
        )
    return out, seen
