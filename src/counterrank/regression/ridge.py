"""Cross-fitted ridge from additive Grams: a pooled fit, then each own action's departure from it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.regression.designs import Design, designs
from counterrank.regression.grams import Grams
from counterrank.regression.layout import Layout

Floats = NDArray[np.float64]

#: Penalty of the pooled fit's indicators, and per row of its context columns.
_POOLED, _POOLED_CONTEXT = 3.0, 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Ridge:
    """Coefficients (F, K, A, D): fold f's were fitted without fold f. `chosen` (K,) names the designs.

    `loss` (K,) is the out-of-fold sum of squared errors, `size` (K,) the number of rewards behind it.
    """

    coef: Floats
    chosen: tuple[str, ...]
    loss: Floats
    size: Floats


def fit_ridge(grams: Grams, layout: Layout, *, pairs: bool) -> Ridge:
    """Return the ridge whose design and penalty have the least out-of-fold loss, position by position."""
    coef = np.zeros(grams.cover.shape)
    chosen, losses = [], np.zeros(layout.K)
    for k in range(layout.K):
        candidates = designs(layout, k, pairs=pairs)
        start = _pooled(grams, layout, k, candidates[3 if pairs else 1])
        best, losses[k], name = start, out_of_fold(grams, k, start), "pooled"
        for design in candidates:
            fitted = start + _residual(grams, k, start, design)
            loss = out_of_fold(grams, k, fitted)
            if loss < losses[k]:
                best, losses[k], name = fitted, loss, design.name
        coef[:, k] = best
        chosen.append(name)
    return Ridge(coef, tuple(chosen), losses, grams.gram[..., 0, 0].sum(axis=(0, 2)))


def out_of_fold(grams: Grams, k: int, coef: Floats) -> float:
    """Return sum over the held-out rows of (r_k - z' coef)^2, for coef (F, A, D)."""
    fit = np.einsum("fad,fade,fae->fa", coef, grams.gram[:, k], coef, optimize=True)
    cross = np.einsum("fad,fad->fa", coef, grams.cover[:, k])
    return float((grams.square[:, k] - 2 * cross + fit).sum())


def others(values: Floats) -> Floats:
    """Return for each fold the sum over the other folds."""
    rest: Floats = values.sum(axis=0) - values
    return rest


def solve(matrix: Floats, right: Floats, penalty: Floats) -> Floats:
    """Return (matrix + diag(penalty))^-1 right for stacks of matrices (..., p, p) and vectors (..., p)."""
    p = matrix.shape[-1]
    full = matrix.copy()
    full[..., np.arange(p), np.arange(p)] += penalty
    out: Floats = np.linalg.solve(full, right[..., None])[..., 0]
    return out


def _residual(grams: Grams, k: int, start: Floats, design: Design) -> Floats:
    """Return each own action's ridge on what `start` (F, A, D) leaves over, in raw columns (F, A, D)."""
    gram, cover = others(grams.gram[:, k]), others(grams.cover[:, k])
    left = cover - np.matmul(gram, start[..., None])[..., 0]
    mapped = design.map.T @ gram @ design.map
    return solve(mapped, left @ design.map, design.penalty) @ design.map.T


def _pooled(grams: Grams, layout: Layout, k: int, design: Design) -> Floats:
    """Return one ridge for all own actions, with an intercept for each: (F, A, D)."""
    gram, cover = others(grams.gram[:, k]), others(grams.cover[:, k])  # (F, A, D, D), (F, A, D)
    p, A = design.map.shape[1], layout.A
    total = np.zeros((layout.F, p + A, p + A))
    total[:, :p, :p] = design.map.T @ gram.sum(axis=1) @ design.map
    total[:, p:, :p] = gram[:, :, 0] @ design.map
    total[:, :p, p:] = total[:, p:, :p].swapaxes(1, 2)
    own = np.arange(p, p + A)
    total[:, own, own] = gram[:, :, 0, 0]
    right = np.concatenate([cover.sum(axis=1) @ design.map, cover[:, :, 0]], axis=1)
    rows = gram[:, :, 0, 0].sum(axis=1)
    penalty = np.full((layout.F, p + A), _POOLED)
    penalty[:, : layout.d + 1] = np.maximum(_POOLED_CONTEXT * rows, 1e-9)[:, None]
    solved = solve(total, right, penalty)
    out: Floats = np.repeat((solved[:, :p] @ design.map.T)[:, None], A, axis=1)
    out[:, :, 0] += solved[:, p:]
    return out
