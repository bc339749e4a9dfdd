"""The value of a policy from effects of single items and of pairs: steady where products are not."""

from dataclasses import dataclass, replace

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
    none that of single items: effects count where the log can tell them from noise. So do those of
    three items, `triples`, where positions are independent.
    """

    centre: Floats
    trust: float
    triples: float = 0.0

    @property
    def trusted(self) -> "PairEstimate":
        """The estimate that takes effects of pairs as they are, at whatever noise."""
        return replace(self, trust=1.0)

    def contributions(self, ratios: Ratios) -> Floats:
        """Return what each row adds at each position (n, K)."""
        base, reward = base_weights(ratios), ratios.batch.reward - self.centre
        out: Floats = base * (1.0 + self.trust * others(ratios))
        if self.triples > 0:
            out += self.triples * of_three(ratios)
        out *= reward
        out += self.centre
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


def of_three(ratios: Ratios) -> Floats:
    """Return what triples of items add to the weights of pairs (n, K); positions are independent."""
    rest = ratios.rho - 1.0
    one = rest.sum(axis=1, keepdims=True) - rest
    two = (rest**2).sum(axis=1, keepdims=True) - rest**2
    # Products of two of the others: the elementary symmetric polynomial of degree two.
    out: Floats = ratios.rho * (one**2 - two) / 2.0
    return out


def triple_effects(ratios: Ratios, centre: Floats) -> Floats:
    """Return what effects of three items add to the value from pairs, row by row (n, K).

    Zeros where positions depend on each other.
    """
    if ratios.kind != "factored":
        return np.zeros(ratios.rho.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        found = of_three(ratios) * (ratios.batch.reward - centre)
    # Effects beyond all numbers are not known.
    return np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0)


def fit_pairs(ratios: Ratios) -> PairEstimate:
    """Return the estimate whose centres and trust suit these rows.

    The evidence t^2 is the mean over positions of (effect of all other items / its error)^2, about
    one where there are no effects. The trust rises from zero at t^2 = c to one beyond it, as
    1 - (c / t^2)^p; that in triples by the evidence for their effects, of which pairs may show
    nothing.
    """
    base, reward = base_weights(ratios), ratios.batch.reward
    weight = base.sum(axis=0)
    centre = np.divide(
        np.einsum("nk,nk->k", base, reward), weight, out=np.zeros(len(weight)), where=weight > 0
    )
    # Effects beyond all numbers are not known, and get no trust.
    with np.errstate(over="ignore", invalid="ignore"):
        trust = _trust(base * others(ratios) * (reward - centre))
        independent = ratios.kind == "factored"
        triples = _trust(of_three(ratios) * (reward - centre)) if independent else 0.0
    # Where three items matter together, so may two of them: what is left out would be their bias.
    trust = max(trust, triples)
    return PairEstimate(centre, trust, triples)


def _trust(effects: Floats) -> float:
    """Return how far the mean of effects (n, K) is to be believed."""
    error = effects.var(axis=0) / max(len(effects), 1)
    known = (error > 0) & np.isfinite(error)
    evidence = (
        float((effects.mean(axis=0)[known] ** 2 / error[known]).mean()) if known.any() else 0.0
    )
    if evidence <= PAIRS_EVIDENCE:
        return 0.0
    return 1.0 - float((PAIRS_EVIDENCE / evidence) ** PAIRS_STEEPNESS)
