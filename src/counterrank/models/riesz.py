"""Projected weights: the smallest weights under which a linear design has its target mean.

For own action u at position k they are z' alpha with alpha = (G/n)^-1 E[pi(u|x) E_pi z], the Riesz representer of
"mean under the target" in the design (Chernozhukov et al. 2022). Where the exact order-2 weight must be right for
every pair of actions and every context, these are right for what the regression can see, and are far smaller.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.models.grams import Grams
from counterrank.models.layout import Layout
from counterrank.models.prepared import Prepared, others
from counterrank.models.ridge import tied_fit

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Riesz:
    """Weight coefficients (F, K, A, D), cross-fitted.

    `whole`: the projected weights; `pairs`: only what their interaction columns add to rho_k, which has mean zero
    given x and a_k.
    """

    whole: Floats
    pairs: Floats
    chosen: tuple[str, ...]


def fit_riesz(prepared: Prepared) -> Riesz:
    """Return projected weights; designs with the least out-of-fold Riesz loss, position by position."""
    whole, name = _best(prepared, ("T", "P"))
    return Riesz(whole, _interactions(whole, prepared.layout), name)


def _interactions(coef: Floats, layout: Layout) -> Floats:
    """Return the coefficients without the context's: indicators and their centring stay."""
    out = coef.copy()
    out[..., : layout.d + 1] = 0.0
    return out


def _best(prepared: Prepared, columns: tuple[str, ...]) -> tuple[Floats, tuple[str, ...]]:
    """Return alpha = n_train (G + penalty)^-1 (mean of pi(u) E_pi z) in raw columns (F, K, A, D), and its designs."""
    grams, found = prepared.grams, prepared.candidates
    out, names = np.zeros(grams.cover.shape), []
    right = others(grams.rows)[:, None, None, None] * grams.mean.sum(axis=0) / grams.rows.sum()  # (F, K, A, D)
    candidates = [j for j, design in enumerate(found[0]) if design.columns in columns]
    tied = {j: tied_fit(prepared, j, right) for j in candidates if found[0][j].columns[0] == "T"}
    for k in range(prepared.layout.K):
        fits = [(prepared.solved(k, found[k][j], right[:, k, ..., None])[..., 0], found[k][j].name) for j in candidates]
        fits += [(values[:, k], f"tied-{found[k][j].name}") for j, values in tied.items()]
        losses = [_loss(grams, k, alpha) for alpha, _ in fits]
        best = int(np.argmin(losses))
        out[:, k] = fits[best][0]
        names.append(fits[best][1])
    return out, tuple(names)


def _loss(grams: Grams, k: int, alpha: Floats) -> float:
    """Return the out-of-fold sum of w^2 - 2 E_pi w."""
    through = (grams.gram[:, k] @ alpha[..., None])[..., 0] - 2 * grams.mean[:, k]
    return float((alpha * through).sum())
