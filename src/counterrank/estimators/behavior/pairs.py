"""The value of a policy from effects of single items, of pairs and of triples: steady where products are not.

    V_k = m_k + mean of b_k (r_k - m_k) (1 + trust sum over the other items l of (rho_l - 1))

b_k is the weight of the item itself, rho_k; where positions depend on those above, that of the items
down to k, and then only items below have an effect of their own. rho_l - 1 has mean zero, and
b_k (r_k - m_k) (rho_l - 1) too unless item l matters at k: it is the effect of l on the reward at k. A
constant taken off the reward, `centre` m (K,), changes nothing but the noise. With a `trust` of one and
no centres this is the estimate of interaction order 2, with none that of single items. `triples` is the
same for effects of three items, where positions are independent.
"""

from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Floats
from counterrank.estimators.behavior.settings import PAIRS_EVIDENCE, PAIRS_STEEPNESS
from counterrank.estimators.behavior.tails import effect_inflation
from counterrank.estimators.weights.ratios import Ratios


def pair_weights(ratios: Ratios, triples: float) -> Floats:
    """Return the weights (n, K) with every effect of pairs and a share of those of triples."""
    out = others(ratios)
    out += 1.0
    out *= base_weights(ratios)
    if triples > 0:
        out += triples * of_three(ratios)
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
        every: Floats = np.subtract(rest.sum(axis=1, keepdims=True), rest, out=rest)
        return every
    if ratios.kind in ("prefix", "policy"):
        below: Floats = rest.sum(axis=1, keepdims=True) - np.cumsum(rest, axis=1)
        return below
    return np.zeros_like(rest)


def of_three(ratios: Ratios) -> Floats:
    """Return what triples of items add to the weights of pairs (n, K); zeros where positions depend on each other."""
    if ratios.kind != "factored":
        return np.zeros(ratios.rho.shape)
    rest = ratios.rho - 1.0
    total, squares = rest.sum(axis=1, keepdims=True), np.einsum("nk,nk->n", rest, rest)[:, None]
    # Products of two of the others, e_2 = ((t - x)^2 - (q - x^2)) / 2 with the sums t and q over all
    # items x: x (x - t) + (t^2 - q) / 2.
    out: Floats = rest - total
    out *= rest
    out += (total**2 - squares) / 2.0
    out *= ratios.rho
    return out


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """The terms of the value row by row (n, K): single items with the centre, pairs, triples.

    Of pairs and triples (2, K) each: `mean`, `second` moment, and `inflation`, the factor by which the
    log understates that moment (`tails`).
    """

    centre: Floats
    single: Floats
    pairs: Floats
    triples: Floats
    mean: Floats
    second: Floats
    inflation: Floats

    @property
    def variances(self) -> Floats:
        """Variances of the rows of pairs and triples (2, K), their tails corrected."""
        found: Floats = np.maximum(self.inflation * self.second - self.mean**2, 0.0)
        return found

    def shares(self) -> tuple[float, float]:
        """Return the trust in pairs and in triples that suits these rows.

        The evidence t^2 is the mean over positions of (effect of all other items / its error)^2,
        about one where there are no effects. The trust rises from zero at t^2 = c to one beyond
        it, as 1 - (c / t^2)^p; that in triples by the evidence for their effects, of which pairs
        may show nothing.
        """
        errors = self.variances / max(len(self.pairs), 1)
        trust, triples = (_trust(m, e) for m, e in zip(self.mean, errors, strict=True))
        # Where three items matter together, so may two of them: what is left out would be their
        # bias.
        return max(trust, triples), triples

    def summed(self, trust: float, triples: float) -> Floats:
        """Return the contributions (n, K) of the estimate with these shares of pairs and triples."""
        return self._added(np.full_like(self.centre, trust), np.full_like(self.centre, triples))

    def stretched(self, triples: float) -> Floats:
        """Return contributions (n, K) with every pair, their deviations as large as the corrected variances say."""
        plain = np.maximum(self.second - self.mean**2, 0.0)
        # A corrected variance of NaN stays NaN.
        factor = np.sqrt(np.divide(self.variances, plain, out=np.ones_like(plain), where=plain > 0))
        return self._added(factor[0], triples * factor[1])

    def _added(self, pairs: Floats, triples: Floats) -> Floats:
        out: Floats = self.pairs * pairs
        out += self.single
        if triples.any():
            out += self.triples * triples
        return out


def pair_rows(ratios: Ratios, v: Floats | None = None) -> PairRows:
    """Return the terms of the estimate from pairs; v is the known `tails.excess` of the ratios, if any."""
    # Position by position in memory, as the ratios are.
    base, reward = base_weights(ratios), np.asfortranarray(ratios.batch.reward)
    weight = base.sum(axis=0)
    centre = np.divide(
        np.einsum("nk,nk->k", base, reward), weight, out=np.zeros(len(weight)), where=weight > 0
    )
    rest = reward - centre
    # Effects beyond all numbers are not known: no variance, and no trust.
    with np.errstate(over="ignore", invalid="ignore"):
        two, three = base * others(ratios), of_three(ratios)
        seen = np.stack([_mean_square(two), _mean_square(three)])
        two *= rest
        three *= rest
        if not np.isfinite(seen).all():
            three = np.nan_to_num(three, nan=0.0, posinf=0.0, neginf=0.0)
        return PairRows(
            centre,
            base * rest + centre,
            two,
            three,
            np.stack([two.mean(axis=0), three.mean(axis=0)]),
            np.stack([_mean_square(two), _mean_square(three)]),
            effect_inflation(v, seen),
        )


def _mean_square(rows: Floats) -> Floats:
    found: Floats = np.einsum("nk,nk->k", rows, rows) / max(len(rows), 1)
    return found


def _trust(effect: Floats, variance: Floats) -> float:
    """Return how far effects (K,) with these variances are to be believed; not where no variance is known."""
    known = (variance > 0) & np.isfinite(variance) & np.isfinite(effect)
    evidence = float((effect[known] ** 2 / variance[known]).mean()) if known.any() else 0.0
    if evidence <= PAIRS_EVIDENCE:
        return 0.0
    return 1.0 - float((PAIRS_EVIDENCE / evidence) ** PAIRS_STEEPNESS)
