"""A tied ridge that knows the rewards of one ranking share noise: generalised least squares from
additive sums.

Rewards of one ranking go up and down together (a user in a good mood). With equal correlation icc
between positions the inverse noise covariance is I - c 11' with c = icc / (1 + (K-1) icc), so the
weighted Gram is the usual one less c times the Gram of the rankings' summed features.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counterrank.models.designs import Design, Prepared, others, solve
from counterrank.models.layout import Layout
from counterrank.models.settings import JOINT_COLUMNS, JOINT_LEAST, MOST_SHARED, PENALTIES, POOLED

if TYPE_CHECKING:
    from counterrank.log import RankingLog

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Sums by fold of s s' (F, S, S), s R (F, S) and R^2 (F,): s, R are features and rewards summed
    over a ranking.
    """

    gram: Floats
    cover: Floats
    square: Floats

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.gram + other.gram, self.cover + other.cover, self.square + other.square)


def joint_width(layout: Layout) -> int:
    """Return the number of columns of the joint fit."""
    return layout.A * (layout.d + 1 + 2 * layout.A) + layout.K * layout.A


def totals_of(batch: "RankingLog", layout: Layout) -> Totals:
    """Return the totals of a batch."""
    from counterrank.models.kernels.grams import add_totals

    given, size = layout.arrays(batch), joint_width(layout)
    gram, cover, square = (
        np.zeros((layout.F, size, size)),
        np.zeros((layout.F, size)),
        np.zeros(layout.F),
    )
    add_totals(
        given.action,
        given.lengths,
        given.fold,
        batch.reward,
        given.x,
        given.centre,
        gram,
        cover,
        square,
    )
    return Totals(np.tril(gram) + np.tril(gram, -1).swapaxes(1, 2), cover, square)


def worth_it(layout: Layout) -> bool:
    """Return whether the joint fit is small enough, and there is more than one position."""
    return layout.K > 1 and joint_width(layout) <= JOINT_COLUMNS


def shared_noise_fits(prepared: Prepared, totals: Totals) -> list[tuple[Floats, str]]:
    """Return tied fits (F, K, A, D), one for each penalty, or nothing where positions share no
    noise.
    """
    layout = prepared.layout
    used = [next(d for d in found if d.columns == "T") for found in prepared.candidates]
    plain, right = _joint(prepared, used)
    square = others(prepared.grams.square.sum(axis=(1, 2)))
    gram, cover, total = others(totals.gram), others(totals.cover), others(totals.square)
    rough = solve(plain, right[..., None], _penalty(used[0], layout, PENALTIES[-1]))[..., 0]
    # Residuals e of an unweighted fit: the sums of e^2 and of (sum_k e_k)^2 have the ratio 1 + (K -
    # 1) icc in expectation, from which icc follows without a second pass.
    within = square + _quadratic(rough, plain, right)
    between = total + _quadratic(rough, gram, cover)
    icc = np.clip(
        (between / np.maximum(within, 1e-300) - 1.0) / (layout.K - 1), 0.0, MOST_SHARED
    )  # (F,)
    # All folds or none: their fits are compared and must be of one kind.
    if icc.min() < JOINT_LEAST:
        return []
    c = icc / (1.0 + (layout.K - 1) * icc)
    weighted = plain - c[:, None, None] * gram
    side = right - c[:, None] * cover
    out = []
    for value in PENALTIES:
        # The inverse covariance is (I - c 11') / (1 - icc); that factor is left out of the Gram, so
        # the penalty has to carry it to shrink as much as without shared noise.
        penalty = _penalty(used[0], layout, value) * (1.0 - icc.mean())
        solved = solve(weighted, side[..., None], penalty)[..., 0]
        out.append((_raw(solved, used, layout), f"shared-noise-T/{value:g}"))
    return out


def _quadratic(coef: Floats, gram: Floats, cover: Floats) -> Floats:
    through = (gram @ coef[..., None])[..., 0] - 2 * cover
    out: Floats = (coef * through).sum(axis=-1)
    return out


def _penalty(design: Design, layout: Layout, value: float) -> Floats:
    own = np.where(np.arange(len(design.penalty)) <= layout.d, 1.0, value)
    return np.concatenate([np.tile(own, layout.A), np.full(layout.K * layout.A, POOLED)])


def _joint(prepared: Prepared, used: list[Design]) -> tuple[Floats, Floats]:
    """Return the Gram (F, S, S) and right side (F, S) of the unweighted joint fit, from the Grams
    by position.
    """
    layout = prepared.layout
    K, A, p = layout.K, layout.A, used[0].map.shape[1]
    size = A * p + K * A
    gram, right = np.zeros((layout.F, size, size)), np.zeros((layout.F, size))
    cover = others(prepared.grams.cover)
    for k, design in enumerate(used):
        mapped, side = (
            prepared.mapped(k, design),
            cover[:, k] @ design.map,
        )  # (F, A, p, p), (F, A, p)
        for u in range(A):
            block, own = slice(u * p, (u + 1) * p), A * p + k * A + u
            gram[:, block, block] += mapped[:, u]
            gram[:, own, block] = gram[:, block, own] = mapped[:, u, 0]
            gram[:, own, own] = mapped[:, u, 0, 0]
            right[:, block] += side[:, u]
            right[:, own] = side[:, u, 0]
    return gram, right


def _raw(solved: Floats, used: list[Design], layout: Layout) -> Floats:
    K, A, p = layout.K, layout.A, used[0].map.shape[1]
    coef = solved[:, : A * p].reshape(layout.F, A, p)
    out = np.stack([coef @ design.map.T for design in used], axis=1)
    out[..., 0] += solved[:, A * p :].reshape(layout.F, K, A)
    return out
