"""The value of a policy from effects of single items and of pairs: steady where products are not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.settings import PAIRS_EVIDENCE, PAIRS_STEEPNESS
from counterrank.weights.ratios import Ratios

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PairEstimate:
    """V_k = m_k + mean of b_k (r_k - m_k) (1 + trust sum over the other items l of (rho_l - 1)).

    b_k is the weight of the item itself, rho_k; where positions depend on those above, that of the
    items down to k, and then only items below have an effect of their own. rho_l - 1 has mean
    zero, and b_k (r_k - m_k) (rho_l - 1) too unless item l matters at k: it is the effect of l on
    the reward at k. A constant taken off the reward, `centre` m (K,), changes nothing but the
    noise. With a `trust` of one and no centres this is the estimate of interaction order 2, with
    none that of single items: effects count where the log can tell them from noise.
    """

    centre: Floats
    trust: float

    @property
    def trusted(self) -> "PairEstimate":
        """The estimate that takes all effects as they are: unbiased, at whatever noise."""
        return PairEstimate(self.centre, 1.0)

    def contributions(self, ratios: Ratios) -> Floats:
        """Return what each row adds at each position (n, K)."""
        centred = base_weights(ratios) * (ratios.batch.reward - self.centre)
        out: Floats = centred * (1.0 + self.trust * others(ratios)) + self.centre
        return out


def base_weights(ratios: Ratios) -> Floats:
    """Return b (n, K): the ratio at each position, or the product down to it."""
    if ratios.kind in ("factored", "position"):
        return ratios.rho
    down: Floats = np.cumprod(ratios.rho, axis=1, dtype=np.float64)
    return down


def others(ratios: Ratios) -> Floats:
    """Return the sum of rho_l - 1 over the items that have an effect at each position (n, K)."""
    rest = ratios.rho - 1.0
    if ratios.kind == "factored":
        every: Floats = rest.sum(axis=1, keepdims=True) - rest
        return every
    if ratios.kind in ("prefix", "policy"):
        below: Floats = rest.sum(axis=1, keepdims=True) - np.cumsum(rest, axis=1)
        return below
    return np.zeros_like(rest)


def fit_pairs(ratios: Ratios) -> PairEstimate:
    """Return the estimate whose centres and trust suit these rows.

    The evidence t^2 is the mean over positions of (effect of all other items / its error)^2, about
    one where there are no effects. The trust rises from zero at t^2 = c to one beyond it, as
    1 - (c / t^2)^p.
    """
    base, reward, n = base_weights(ratios), ratios.batch.reward, max(ratios.batch.n, 1)
    weight = base.sum(axis=0)
    centre = np.divide(
        np.einsum("nk,nk->k", base, reward), weight, out=np.zeros(len(weight)), where=weight > 0
    )
    # Effects beyond all numbers are not known, and get no trust.
    with np.errstate(over="ignore", invalid="ignore"):
        effects = base * (reward - centre) * others(ratios)
        error = effects.var(axis=0) / n
        known = (error > 0) & np.isfinite(error)
        evidence = effects.mean(axis=0)[known] ** 2 / error[known]
    clear = float(evidence.mean()) if known.any() else 0.0
    if clear <= PAIRS_EVIDENCE.value:
        return PairEstimate(centre, 0.0)
    return PairEstimate(centre, 1.0 - (PAIRS_EVIDENCE.value / clear) ** PAIRS_STEEPNESS.value)
