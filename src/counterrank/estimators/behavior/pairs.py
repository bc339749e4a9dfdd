"""The value of a policy from effects of single items, of pairs and of triples: steady where products are not.

    V_k = m_k + mean of b_k (r_k - m_k) (1 + trust sum over the other items l of (rho_l - 1))

b_k is the weight of the item itself, rho_k; where positions depend on those above, that of the items
down to k, and then only items below have an effect of their own. rho_l - 1 has mean zero, and
b_k (r_k - m_k) (rho_l - 1) too unless item l matters at k: it is the effect of l on the reward at k. A
constant taken off the reward, `centre` m (K,), changes nothing but the noise. With a `trust` of one and
no centres this is the estimate of interaction order 2, with none that of single items. `triples` is the
same for effects of three items, where positions are independent.

Tails: how far a log understates the second moments of weights.

A product of K ratios has so heavy a tail that most logs lack the rows that dominate its second
moment, and a search over models picks those whose variance is understated most. For factored
policies the second moment given the context is known. With v_l = sum_a pi(a)^2 / pi0(a) - 1 and e_j
the elementary symmetric polynomials,

- a product over the relevant items l has E[w_k^2 | x] = prod over l of (1 + v_l),
- effects of pairs, rho_k sum over l of (rho_l - 1), have (1 + v_k) e_1(v of the others),
- effects of triples have (1 + v_k) e_2(v of the others).

Without whole distributions v_l is estimated by the mean of rho_l^2 - 1, which has a light tail, as
if it did not depend on the context.

Blending: the estimate between the tree's models and the pairs: how far it moves from one to the other.

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

from counterrank.common.arrays import Floats
from counterrank.common.records import Record
from counterrank.data.log import LOGGING, RankingLog
from counterrank.estimators.behavior import settings
from counterrank.estimators.behavior.masks import Candidate
from counterrank.estimators.weights.ratios import Ratios, excess_squares, of_others, ordered


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
    excess = ratios.rho - 1.0
    if ratios.kind == "factored":
        remainder: Floats = np.subtract(excess.sum(axis=1, keepdims=True), excess, out=excess)
        return remainder
    if ratios.kind in ("prefix", "policy"):
        below: Floats = excess.sum(axis=1, keepdims=True) - np.cumsum(excess, axis=1)
        return below
    return np.zeros_like(excess)


def of_three(ratios: Ratios) -> Floats:
    """Return what triples of items add to the weights of pairs (n, K); zeros where positions depend on each other."""
    if ratios.kind != "factored":
        return np.zeros(ratios.rho.shape)
    excess = ratios.rho - 1.0
    total, squares = (
        excess.sum(axis=1, keepdims=True),
        np.einsum("nk,nk->n", excess, excess)[:, None],
    )
    # Products of two of the others, e_2 = ((t - x)^2 - (q - x^2)) / 2 with the sums t and q over all
    # items x: x (x - t) + (t^2 - q) / 2.
    out: Floats = excess - total
    out *= excess
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
        variance: Floats = np.maximum(self.inflation * self.second - self.mean**2, 0.0)
        return variance

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

    def summed(self, trust: Floats | float, triples: Floats | float) -> Floats:
        """Return the contributions (n, K) of the estimate with these shares of pairs and triples."""
        out: Floats = self.pairs * trust
        out += self.single
        if np.any(triples):
            out += self.triples * triples
        return out

    def stretched(self, triples: float) -> Floats:
        """Return contributions (n, K) with every pair, their deviations as large as the corrected variances say."""
        plain = np.maximum(self.second - self.mean**2, 0.0)
        # A corrected variance of NaN stays NaN.
        factor = np.sqrt(np.divide(self.variances, plain, out=np.ones_like(plain), where=plain > 0))
        return self.summed(factor[0], triples * factor[1])


def pair_rows(ratios: Ratios, v: Floats | None = None) -> PairRows:
    """Return the terms of the estimate from pairs; v is the known `tails.excess` of the ratios, if any."""
    # Position by position in memory, as the ratios are.
    base, reward = base_weights(ratios), np.asfortranarray(ratios.batch.reward)
    weight = base.sum(axis=0)
    centre = np.divide(
        np.einsum("nk,nk->k", base, reward), weight, out=np.zeros(len(weight)), where=weight > 0
    )
    centred = reward - centre
    # Effects beyond all numbers are not known: no variance, and no trust.
    with np.errstate(over="ignore", invalid="ignore"):
        two, three = base * others(ratios), of_three(ratios)
        squares = np.stack([_mean_square(two), _mean_square(three)])
        two *= centred
        three *= centred
        if not np.isfinite(squares).all():
            three = np.nan_to_num(three, nan=0.0, posinf=0.0, neginf=0.0)
        return PairRows(
            centre,
            base * centred + centre,
            two,
            three,
            np.stack([two.mean(axis=0), three.mean(axis=0)]),
            np.stack([_mean_square(two), _mean_square(three)]),
            effect_inflation(v, squares),
        )


def _mean_square(rows: Floats) -> Floats:
    mean_square: Floats = np.einsum("nk,nk->k", rows, rows) / max(len(rows), 1)
    return mean_square


def _trust(effect: Floats, variance: Floats) -> float:
    """Return how far effects (K,) with these variances are to be believed; not where no variance is known."""
    testable = (variance > 0) & np.isfinite(variance) & np.isfinite(effect)
    evidence = float((effect[testable] ** 2 / variance[testable]).mean()) if testable.any() else 0.0
    if evidence <= settings.PAIRS_EVIDENCE:
        return 0.0
    return 1.0 - float((settings.PAIRS_EVIDENCE / evidence) ** settings.PAIRS_STEEPNESS)


def excess(log: RankingLog, target: str, ratios: Ratios) -> Floats | None:
    """Return v_l(x) (rows, K), from whole distributions where the log has them.

    None where positions depend on each other, and for padded rankings, whose products are shorter:
    their second moments are left as they are.
    """
    if ratios.kind != "factored" or (log.lengths < log.K).any():
        return None
    p0, p1 = log.distribution(LOGGING), log.distribution(target)
    if p0 is None or p1 is None:
        plain: Floats = (ratios.rho**2).mean(axis=0, keepdims=True) - 1.0
        return np.maximum(plain, 0.0)
    rows = slice(None, None, max(1, -(-log.n // settings.MOMENT_ROWS)))
    # A mean over contexts: a sample of the rows gives it.
    moment = excess_squares(p0[rows], p1[rows])
    if (moment == moment[:1]).all():  # policies without context
        moment = moment[:1]
    table: Floats = (
        np.broadcast_to(moment[:, None], (len(moment), log.K)) if moment.ndim == 1 else moment
    )
    return np.maximum(table, 0.0)


def inflation(v: Floats | None, candidates: tuple[Candidate, ...], squares: Floats) -> Floats:
    """Return max(1, E[w^2] / mean w^2) for each position and candidate (K, M); ones where v is not known.

    `squares` (K, M) is the mean of w^2 in the log.
    """
    if v is None:
        return np.ones_like(squares)
    # The second moments are the formula of the weights themselves, with 1 + v for each ratio.
    moment = np.ascontiguousarray(1.0 + v.T)
    moments = [ordered(moment, c.mask, len(moment)).mean(axis=1) for c in candidates]
    return _upwards(np.column_stack(moments), squares)


def effect_inflation(v: Floats | None, squares: Floats) -> Floats:
    """Return the same for the weights of effects of pairs and of triples (2, K), given the means of `squares`."""
    if v is None:
        return np.ones_like(squares)
    expected = ((1.0 + v) * np.stack(of_others(v))).mean(axis=1)
    return _upwards(expected, squares)


def _upwards(expected: Floats, squares: Floats) -> Floats:
    # Upwards only: an understated variance would let chance choose a model; an overstated one only
    # rules a model out. Factors beyond 1e100 make no difference.
    return np.maximum(1.0, expected / np.maximum(squares, 1e-100 * expected + 1e-300))


@dataclass(frozen=True, slots=True)
class Blend(Record):
    """A share of the value from pairs in the estimate, and what makes that value (`pairs`).

    `gap` is the distance of the estimate with this share to the value that doubts it (`forest.Doubt`).
    """

    share: float
    triples: float
    centre: tuple[float, ...]
    gap: float = 0.0

    def flaw(self) -> tuple[str, str] | None:
        """Return a share that is none."""
        for name in ("share", "triples"):
            if not 0 <= self[name] <= 1:
                return name, "one of the numbers from 0 to 1"
        if not self.gap >= 0:
            return "gap", "a number, 0 or more"
        return None if np.isfinite(self.centre).all() else ("centre", "a list of numbers")

    def contributions(
        self, ratios: Ratios, model_weights: Floats, reward: Floats
    ) -> tuple[Floats, Floats]:
        """Return contributions and weights (n, K), given the weights `model_weights` (n, K) of the models."""
        # m + mean of w (r - m) for the pairs: E w = 1, so the centre changes nothing but the noise.
        pairs, centre = pair_weights(ratios, self.triples), self.share * np.array(self.centre)
        weights: Floats = self.share * pairs + (1.0 - self.share) * model_weights
        return centre * (1.0 - pairs) + weights * reward, weights


def share_of(
    modelled: Floats, difference: Floats, stretched: Floats, alpha: Floats, n_apply: int
) -> float:
    """Return the share of the value from pairs that minimises the estimated MSE.

    modelled, difference (n, T) are rows of V_c and of D; `stretched` rows of D with the spread that its
    tails have; alpha (T,) weighs their means. The evidence is that of n rows, the variances are those
    of an estimate on `n_apply`.
    """
    n = len(modelled)
    if n < 2:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        centred = stretched - stretched.mean(axis=0)
        covariance = centred.T @ centred / n
        spread = float(alpha @ covariance @ alpha)
        together = float((modelled @ alpha) @ (centred @ alpha)) / n
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
    varying = error > 0
    if not varying.any():
        return 0.0
    error = error[varying]
    correlation = covariance[np.ix_(varying, varying)] / np.outer(error, error)
    t = float(np.mean((means[varying] / error) ** 2))
    # Squares of normal numbers with correlation R have the covariance 2 R^2.
    chance = float(np.sqrt(2.0 * (correlation**2).sum())) / len(error)
    return max(t - 1.0 - chance, 0.0)
