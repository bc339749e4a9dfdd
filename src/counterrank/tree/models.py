"""The behaviour models a tree chooses among: those the log supports, what they contribute, how
heavy their tails are.

A product of K ratios has so heavy a tail that most samples miss what dominates its variance, and a
search over models picks those whose variance is understated most. For factored policies the second
moment given the context is known: E[w_k^2 | x] = prod over relevant l of (1 + v_l), v_l = sum_a
pi(a)^2 / pi0(a) - 1; with an interaction order m, (1 + v_k) sum_{j<m} e_j(v of the others), e_j
elementary symmetric polynomials. Without whole distributions, v_l is estimated by the mean of
rho_l^2 - 1, which has a light tail, as if it did not depend on the context.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior import Candidate
from counterrank.errors import BehaviorError
from counterrank.log import LOGGING, RankingLog
from counterrank.ratios import Ratios, capability_of
from counterrank.tree import settings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TreeModels:
    """The distinct models of one tree, and which candidate each of them is.

    `containing` (M, M): [j, m] whether model j is unbiased whenever m is.
    """

    models: Ints  # (M,) index into the candidates
    containing: Bools
    densest: int
    sparsest: int


def supported(
    given: "list[Candidate]", ratios: Ratios
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Return the candidates that the log's propensities can weigh, and a note about the others."""
    good = [c for c in given if _possible(c, ratios)]
    if not good:
        raise BehaviorError(
            f"'{ratios.kind}' propensities support none of the candidates "
            f"{', '.join(c.label for c in given)}; add S (whole ranking), C (items above) or I "
            "(own item), whichever the propensities describe"
        )
    dropped = [c.label for c in given if c.order is None and not any(c is kept for kept in good)]
    note = (
        f"candidates: '{ratios.kind}' propensities cannot give weights for "
        f"{', '.join(dropped)}; left out"
    )
    return tuple(good), ((note,) if dropped else ())


def _possible(candidate: Candidate, ratios: Ratios) -> bool:
    if candidate.order is not None and ratios.kind != "factored":
        return False
    return capability_of(candidate.mask) in ratios.supports


def models_of(candidates: tuple[Candidate, ...], *, per_position: bool) -> list[TreeModels]:
    """Return the models of each position's tree, or of the one tree; models that coincide there are
    one.
    """
    K = len(candidates[0].mask)
    # What decides is hashable, and every fold and target asks for the same.
    key = tuple((c.mask.tobytes(), c.order) for c in candidates)
    return list(_models_of(K, key, per_position))


@lru_cache(maxsize=64)
def _models_of(
    K: int, key: tuple[tuple[bytes, int | None], ...], per_position: bool
) -> tuple[TreeModels, ...]:
    masks = np.stack(
        [np.frombuffer(mask, dtype=bool).reshape(K, K) for mask, _ in key]
    )  # (M, K, K)
    orders = [order for _, order in key]
    total = masks.sum(axis=(1, 2))
    if not per_position:
        return (
            _distinct(masks.reshape(len(masks), -1), masks.sum(axis=2).max(axis=1), orders, total),
        )
    return tuple(_distinct(masks[:, k], masks[:, k].sum(axis=1), orders, total) for k in range(K))


def _distinct(relevant: Bools, sizes: Ints, orders: list[int | None], total: Ints) -> TreeModels:
    """Return the distinct models among relevant (M, items) with sizes (M,), orders and entries of
    the mask (M,).
    """
    # A full product over c items is of order c, and no order allows more than that.
    most = [
        int(size) if order is None else min(order, int(size))
        for size, order in zip(sizes, orders, strict=True)
    ]
    first: dict[tuple[bytes, int], int] = {}
    for m, row in enumerate(relevant):
        key = (row.tobytes(), most[m])
        # C and I are one model at the first position: it goes by the simpler name.
        if key not in first or total[m] < total[first[key]]:
            first[key] = m
    chosen = list(first.values())
    order, kept = np.array([most[m] for m in chosen]), relevant[chosen]
    inside = (kept[:, None, :] | ~kept[None, :, :]).all(axis=2)
    containing = inside & (order[:, None] >= order[None, :])
    by_size = np.lexsort((-order, -kept.sum(axis=1)))
    return TreeModels(
        np.array(chosen, dtype=np.int64), containing, int(by_size[0]), int(by_size[-1])
    )


def contributions(ratios: Ratios, candidates: tuple[Candidate, ...]) -> tuple[Floats, Floats]:
    """Return w r of every candidate (K, M, n), and the mean of w^2 (K, M)."""
    from counterrank.tree.kernels.statistics import weigh

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
            f"no tree can be grown: squares of the weights at position {k + 1} overflow. Look for "
            "logging propensities near zero"
        )
    return out, seen


def inflation(
    log: RankingLog, target: str, ratios: Ratios, candidates: tuple[Candidate, ...], seen: Floats
) -> Floats:
    """Return max(1, E[w^2] / mean w^2) for each position and candidate (K, M); ones unless policies
    are factored.

    `seen` (K, M) is the mean of w^2 in the log. Padded rankings are left as they are: their
    products are shorter.
    """
    from counterrank.tree.kernels.statistics import second_moments

    if ratios.kind != "factored" or (log.lengths < log.K).any():
        return np.ones_like(seen)
    excess = _excess(log, target, ratios)
    expected = np.empty_like(seen)
    masks = np.stack([c.mask for c in candidates])
    orders = np.array([c.order or 0 for c in candidates], dtype=np.int64)
    second_moments(np.ascontiguousarray(excess), masks, orders, expected)
    return np.maximum(1.0, expected / np.maximum(seen, 1e-300))


def _excess(log: RankingLog, target: str, ratios: Ratios) -> Floats:
    """Return v_l(x) (rows, K), from whole distributions where the log has them."""
    p0, p1 = log.distribution(LOGGING), log.distribution(target)
    if p0 is None or p1 is None:
        plain: Floats = (ratios.rho**2).mean(axis=0, keepdims=True) - 1.0
        return np.maximum(plain, 0.0)
    rows = slice(None, None, max(1, -(-log.n // settings.MOMENT_ROWS.value)))
    # A mean over contexts: a sample of the rows gives it.
    few, many = p0[rows], p1[rows]
    safe = np.where(few > 0, few, 1.0)
    # Where the logger never goes, no logged row tells: the moment is over its support.
    moment = np.where(few > 0, many**2 / safe, 0.0).sum(axis=-1) - 1.0
    if (moment == moment[:1]).all():  # policies without context
        moment = moment[:1]
    table: Floats = (
        np.broadcast_to(moment[:, None], (len(moment), log.K)) if moment.ndim == 1 else moment
    )
    return np.maximum(table, 0.0)
