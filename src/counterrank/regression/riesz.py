"""Projected weights: the smallest weights under which a linear design has its target mean.

For own action u at position k they are z' alpha with alpha = (G/n)^-1 E[pi(u|x) E_pi z], the Riesz representer of
"mean under the target" in the design (Chernozhukov et al. 2022). Where the exact order-2 weight must be right for
every pair of actions and every context, these are right for what the regression can see, and are far smaller.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.regression.designs import Design, designs
from counterrank.regression.grams import Grams
from counterrank.regression.layout import Layout
from counterrank.regression.ridge import others, solve

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Riesz:
    """Weight coefficients (F, K, A, D): `base` for the context alone, `pairs` for the chosen design with other
    positions, `cross` with context x counts as well (None when the layout has none).
    """

    base: Floats
    pairs: Floats
    cross: Floats | None
    chosen: tuple[str, ...]


def fit_riesz(grams: Grams, layout: Layout, *, pairs: bool) -> Riesz:
    """Return cross-fitted projected weights; designs with least out-of-fold Riesz loss, position by position."""
    shape = grams.cover.shape
    base, plain, cross = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    names = []
    for k in range(layout.K):
        found = designs(layout, k, pairs=pairs)
        base[:, k] = _alpha(grams, k, found[0])
        plain[:, k], name = _best(grams, k, [d for d in found if d.name[0] in "TP" and d.name[1] == "/"])
        if layout.cross:
            cross[:, k], _ = _best(grams, k, [d for d in found if d.name[1:2] == "X"])
        names.append(name)
    return Riesz(base, plain, cross if layout.cross else None, tuple(names))


def _best(grams: Grams, k: int, candidates: list[Design]) -> tuple[Floats, str]:
    fits = [(_alpha(grams, k, design), design.name) for design in candidates]
    losses = [_loss(grams, k, alpha) for alpha, _ in fits]
    return fits[int(np.argmin(losses))]


def _alpha(grams: Grams, k: int, design: Design) -> Floats:
    """Return n_train (G + penalty)^-1 (mean of pi(u) E_pi z) in raw columns (F, A, D)."""
    gram = others(grams.gram[:, k])
    mean = grams.mean[:, k].sum(axis=0) / grams.rows.sum()
    mapped = design.map.T @ gram @ design.map
    right = others(grams.rows)[:, None, None] * (mean @ design.map)
    return solve(mapped, right, design.penalty) @ design.map.T


def _loss(grams: Grams, k: int, alpha: Floats) -> float:
    """Return the out-of-fold sum of w^2 - 2 E_pi w."""
    size = np.einsum("fad,fade,fae->", alpha, grams.gram[:, k], alpha, optimize=True)
    return float(size - 2 * np.einsum("fad,fad->", alpha, grams.mean[:, k]))
