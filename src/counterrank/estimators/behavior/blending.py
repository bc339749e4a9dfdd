"""The estimate between the tree's models and the pairs: how far it moves from one to the other.

V_c is the estimate of the chosen models, V_2 the value from all pairs (`pairs`), D = V_2 - V_c their
difference at each position. V = V_c + share D, summed over positions, has the MSE

    Var(V_c) + 2 share Cov(V_c, D) + share^2 Var(D) + (1 - share)^2 B^2

where B is the bias of V_c if that of V_2 is small. B^2 is not known. Its estimate is e Var(D), with

    e = max(t^2 - 1 - s, 0),  t^2 = mean over positions of D_k^2 / Var(D_k).

Without effects t^2 has mean 1 and standard deviation s = sqrt(2 sum of R_kl^2) / K, R the correlations
of the D_k: e is what the log shows beyond chance by more than one standard deviation. The minimum is

    share = (e - Cov(V_c, D) / Var(D)) / (e + 1),

cut to 0 and 1. No number in it was tuned.
"""

from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Floats
from counterrank.estimators.behavior.pairs import pair_weights
from counterrank.estimators.weights.ratios import Ratios
from counterrank.records import Record


@dataclass(frozen=True, slots=True)
class Blend(Record):
    """A share of the value from pairs in the estimate, and what makes that value (`pairs`)."""

    share: float
    triples: float
    centre: tuple[float, ...]

    def flaw(self) -> tuple[str, str] | None:
        """Return a share that is none."""
        for name in ("share", "triples"):
            if not 0 <= self[name] <= 1:
                return name, "one of the numbers from 0 to 1"
        return None if np.isfinite(self.centre).all() else ("centre", "a list of numbers")

    def contributions(self, ratios: Ratios, own: Floats, reward: Floats) -> tuple[Floats, Floats]:
        """Return contributions and weights (n, K), given the weights `own` (n, K) of the models."""
        # m + mean of w (r - m) for the pairs: E w = 1, so the centre changes nothing but the noise.
        pairs, centre = pair_weights(ratios, self.triples), self.share * np.array(self.centre)
        weights: Floats = self.share * pairs + (1.0 - self.share) * own
        return centre * (1.0 - pairs) + weights * reward, weights


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
        centred = stretched - stretched.mean(axis=0)
        covariance = centred.T @ centred / n
        spread = float(alpha @ covariance @ alpha)
        together = float((own @ alpha) @ (centred @ alpha)) / n
    if not (spread > 0 and np.isfinite(covariance).all() and np.isfinite(together)):
        return 0.0
    counted = alpha != 0
    beyond = beyond_chance(
        difference.mean(axis=0)[counted], covariance[np.ix_(counted, counted)] / n
    )
    smaller = n / n_apply
    return float(np.clip((beyond - smaller * together / spread) / (beyond + smaller), 0.0, 1.0))


def beyond_chance(means: Floats, covariance: Floats) -> float:
    """Return e: how far means (T,) with this covariance (T, T) are from zero, beyond chance."""
    error = np.sqrt(np.diag(covariance))
    known = error > 0
    if not known.any():
        return 0.0
    error = error[known]
    correlation = covariance[np.ix_(known, known)] / np.outer(error, error)
    t = float(np.mean((means[known] / error) ** 2))
    # Squares of normal numbers with correlation R have the covariance 2 R^2.
    chance = float(np.sqrt(2.0 * (correlation**2).sum())) / len(error)
    return max(t - 1.0 - chance, 0.0)
