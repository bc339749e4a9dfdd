"""Cross-fitted ridge from additive Grams: a common start, then each position's and own action's
departure from it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.models.designs import Design, Prepared, others, solve
from counterrank.models.grams import Grams
from counterrank.models.settings import POOLED, POOLED_CONTEXT
from counterrank.models.shared_noise import Totals, shared_noise_fits

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ridge:
    """Coefficients (F, K, A, D): fold f's were fitted without fold f. `chosen` (K,) names the
    designs.

    `loss` (K,) is the out-of-fold sum of squared errors, `size` (K,) the number of rewards behind
    it.
    """

    coef: Floats
    chosen: tuple[str, ...]
    loss: Floats
    size: Floats


def fit_ridge(prepared: Prepared, totals: Totals | None = None) -> Ridge:
    """Return the ridge whose start, design and penalty have the least out-of-fold loss, position by
    position.

    Starts: one fit for all own actions (a position's own), or one for all positions (an own
    action's own), the latter also with the noise that a ranking's rewards share (where `totals` are
    given). Each own action and position then has a ridge on what the start leaves over.
    """
    grams, K = prepared.grams, prepared.layout.K
    coef, losses, chosen = np.zeros(grams.cover.shape), np.full(K, np.inf), [""] * K
    tied, tied_name = _best_tied(prepared)
    common, names = [tied], ["pooled", tied_name]
    for fit, name in [] if totals is None else shared_noise_fits(prepared, totals):
        common.append(fit)
        names.append(name)
    for k in range(K):
        starts = np.stack(
            [_pooled(prepared, k), *(fit[:, k] for fit in common)], axis=-1
        )  # (F, A, D, S)
        # A ridge on what the start leaves over shrinks towards the start instead of towards zero:
        # rare own actions borrow what all have in common.
        left = others(grams.cover[:, k])[..., None] - prepared.rest(k) @ starts
        for design in (None, *prepared.candidates[k]):
            fitted = starts if design is None else starts + prepared.solved(k, design, left)
            for s, name in enumerate(names):
                loss = out_of_fold(grams, k, fitted[..., s])
                # Strictly: of equal ones the earlier, that is the smaller, design stays.
                if loss < losses[k]:
                    coef[:, k], losses[k] = fitted[..., s], loss
                    chosen[k] = name if design is None else f"{name}+{design.name}"
    return Ridge(coef, tuple(chosen), losses, grams.gram[..., 0, 0].sum(axis=(0, 2)))


def out_of_fold(grams: Grams, k: int, coef: Floats) -> float:
    """Return sum over the held-out rows of (r_k - z' coef)^2, for coef (F, A, D)."""
    # |r - Z c|^2 = r'r - 2 c'Z'r + c'Z'Z c: the fold's own sums hold all three, no row is read
    # again.
    through = (grams.gram[:, k] @ coef[..., None])[..., 0] - 2 * grams.cover[:, k]
    return float(grams.square[:, k].sum() + (coef * through).sum())


def _best_tied(prepared: Prepared) -> tuple[Floats, str]:
    """Return the tied fit with the least out-of-fold loss over all positions: (F, K, A, D), and its
    name.

    Tied to zero, or to a fit common to all positions and own actions: then only departures from it
    are penalised.
    """
    grams = prepared.grams
    best, least, best_name = np.zeros(grams.cover.shape), np.inf, ""
    for start, name in (
        (np.zeros(grams.cover.shape), "tied"),
        (common_fit(prepared), "common+tied"),
    ):
        right = others(grams.cover)
        for k in range(prepared.layout.K):
            right[:, k] -= (prepared.rest(k) @ start[:, k, ..., None])[..., 0]
        for j, design in enumerate(prepared.candidates[0]):
            if design.columns[0] != "T":
                continue
            fitted = start + tied_fit(prepared, j, right)
            loss = sum(out_of_fold(grams, k, fitted[:, k]) for k in range(prepared.layout.K))
            if loss < least:
                best, least, best_name = fitted, loss, f"{name}-{design.name}"
    return best, best_name


def common_fit(prepared: Prepared) -> Floats:
    """Return one ridge on context and counts for all positions and own actions: (F, K, A, D).

    Each own action at each position has its own intercept, so that only the effect of the others is
    common.
    """
    layout = prepared.layout
    used = [next(d for d in found if d.columns == "T") for found in prepared.candidates]
    # A bordered system: p columns that all share, then K A intercepts, each of which meets only the
    # rows of its own position and action.
    p, K, A = used[0].map.shape[1], layout.K, layout.A
    total, side = np.zeros((layout.F, p + K * A, p + K * A)), np.zeros((layout.F, p + K * A))
    cover = others(prepared.grams.cover)
    for k, design in enumerate(used):
        mapped, own = prepared.mapped(k, design), np.arange(p + k * A, p + (k + 1) * A)
        total[:, :p, :p] += mapped.sum(axis=1)
        total[:, own, :p] = mapped[:, :, 0]
        total[:, :p, own] = mapped[:, :, 0].swapaxes(1, 2)
        total[:, own, own] = mapped[:, :, 0, 0]
        side[:, :p] += cover[:, k].sum(axis=1) @ design.map
        side[:, own] = cover[:, k, :, 0]
    penalty = np.concatenate([used[0].penalty, np.full(K * A, POOLED)])
    solved = solve(total, side[..., None], penalty)[..., 0]
    out = np.stack([np.repeat((solved[:, :p] @ d.map.T)[:, None], A, axis=1) for d in used], axis=1)
    out[..., 0] += solved[:, p:].reshape(layout.F, K, A)
    return out


def tied_fit(prepared: Prepared, j: int, right: Floats) -> Floats:
    """Return design j fitted once per own action for all positions, with an intercept for each: (F,
    K, A, D).

    `right` (F, K, A, D) are the right-hand sides in raw columns: rewards, or the means that weights
    must match.
    """
    layout = prepared.layout
    used = [found[j] for found in prepared.candidates]
    p, K = used[0].map.shape[1], layout.K
    # The same border, now within each own action: p shared columns, then K intercepts. They and the
    # design's own column 0 are collinear; the penalties decide between them.
    total, side = (
        np.zeros((layout.F, layout.A, p + K, p + K)),
        np.zeros((layout.F, layout.A, p + K)),
    )
    for k, design in enumerate(used):
        mapped = prepared.mapped(k, design)
        total[:, :, :p, :p] += mapped
        total[:, :, p + k, :p] = total[:, :, :p, p + k] = mapped[
            :, :, 0
        ]  # column 0 is the intercept
        total[:, :, p + k, p + k] = mapped[:, :, 0, 0]
        side[:, :, :p] += right[:, k] @ design.map
        side[:, :, p + k] = right[:, k, :, 0]
    penalty = np.concatenate([used[0].penalty, np.full(K, POOLED)])
    solved = solve(total, side[..., None], penalty)[..., 0]
    out = np.stack([solved[:, :, :p] @ design.map.T for design in used], axis=1)
    out[..., 0] += solved[:, :, p:].swapaxes(1, 2)
    return out


def _pooled(prepared: Prepared, k: int) -> Floats:
    """Return one ridge for all own actions, with an intercept for each: (F, A, D)."""
    layout, design = prepared.layout, _widest(prepared, k)
    mapped, cover = prepared.mapped(k, design), others(prepared.grams.cover[:, k])
    p, A = design.map.shape[1], layout.A
    total = np.zeros((layout.F, p + A, p + A))
    total[:, :p, :p] = mapped.sum(axis=1)
    total[:, p:, :p] = mapped[:, :, 0]
    total[:, :p, p:] = total[:, p:, :p].swapaxes(1, 2)
    own = np.arange(p, p + A)
    total[:, own, own] = mapped[:, :, 0, 0]
    right = np.concatenate([cover.sum(axis=1) @ design.map, cover[:, :, 0]], axis=1)
    penalty = np.full((layout.F, p + A), POOLED)
    rows = mapped[:, :, 0, 0].sum(axis=1)
    # In proportion to the rows, so next to nothing at any size, but not zero: column 0 and the A
    # own intercepts are collinear.
    penalty[:, : layout.d + 1] = np.maximum(POOLED_CONTEXT * rows, 1e-9)[:, None]
    solved = solve(total, right[..., None], penalty)[..., 0]
    out: Floats = np.repeat((solved[:, :p] @ design.map.T)[:, None], A, axis=1)
    out[:, :, 0] += solved[:, p:]
    return out


def _widest(prepared: Prepared, k: int) -> Design:
    """Return each position's own indicators where there are enough rows for them, else counts."""
    wanted = "P" if prepared.pairs else "T"
    return next(design for design in prepared.candidates[k] if design.columns == wanted)
