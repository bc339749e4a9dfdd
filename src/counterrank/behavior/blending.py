"""The estimate between the tree's models and the pairs: how far it moves from one to the other.

V_c is the estimate of the chosen models, V_2 the value from all pairs (`pairs`), D = V_2 - V_c their
difference at each position. V = V_c + share D, summed over positions, has the MSE

    Var(V_c) + 2 share Cov(V_c, D) + share^2 Var(D) + (1 - share)^2 B^2

where B is the bias of V_c if that of V_2 is small. B^2 is not known. Its estimate is what D shows
beyond its noise, (t^2 - 1) Var(D), with t^2 the mean over positions of D_k^2 / Var(D_k), as James
and Stein shrink a vector. The minimum is

    share = (e - Cov(V_c, D) / Var(D)) / (e + 1),  e = max(t^2 - 1, 0),

cut to 0 and 1. No number in it was tuned.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.pairs import PairEstimate, evidence
from counterrank.weights.ratios import Ratios

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Blend:
    """A share of the value from `pairs` in the estimate; the rest is the chosen models'."""

    share: float
    pairs: PairEstimate

    def contributions(self, ratios: Ratios, own: Floats) -> tuple[Floats, Floats]:
        """Return contributions and weights (n, K), given the weights `own` (n, K) of the models."""
        of_pairs = self.pairs.weights(ratios)
        weights = own + self.share * (of_pairs - own)
        # m + mean of w (r - m) for the pairs: E w = 1, so the centre changes nothing but the noise.
        centred = self.share * self.pairs.centre * (1.0 - of_pairs)
        return weights * ratios.batch.reward + centred, weights


def share_of(
    own: Floats, difference: Floats, stretched: Floats, alpha: Floats, n_apply: int
) -> float:
    """Return the share of the value from pairs that minimises the estimated MSE.

    own, difference (n, T) are rows of V_c and of D; `stretched` rows of D with the spread that its
    tails have; alpha (T,) weighs their means. The evidence is that of n rows, the variances are those
    of an estimate on `n_apply`.
    """
    n = len(own)
    if n < 2:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        counted = alpha != 0
        t = evidence(difference.mean(axis=0)[counted], stretched.var(axis=0)[counted] / n)
        total = stretched @ alpha
        spread = float(total.var())
        together = float(np.mean((own @ alpha) * (total - total.mean())))
    if not (spread > 0 and np.isfinite(spread) and np.isfinite(together) and np.isfinite(t)):
        return 0.0
    beyond, smaller = max(t - 1.0, 0.0), n / n_apply
    return float(np.clip((beyond - smaller * together / spread) / (beyond + smaller), 0.0, 1.0))
