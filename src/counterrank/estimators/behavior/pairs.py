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
from counterrank.estimators.weights.ratios import Ratios, excess_squares, of_others


def pair_weights(ratios: Ratios, triples: float) -> Floats:
    """Return the weights (n, K) with every effect of pairs and a share of those of triples."""
    out = others(ratios.rho, ratios.kind)
    out += 1.0
    out *= base_weights(ratios)
    if triples > 0:
        out += triples * of_three(ratios.rho, ratios.kind)
    return out


def base_weights(ratios: Ratios) -> Floats:
    """Return b (n, K): the ratio at each position, or the product down to it."""
    if ratios.kind in ("factored", "position"):
        return ratios.rho
    return np.cumprod(ratios.rho, axis=1, dtype=np.float64)


def others(rho: Floats, kind: str) -> Floats:
    """Return the sum of rho_l - 1 over the items that have an effect at each position (n, K)."""
    excess: Floats = rho - 1.0
    if kind == "factored":
        remainder: Floats = np.subtract(excess.sum(axis=1, keepdims=True), excess, out=excess)
        return remainder
    if kind in ("prefix", "policy"):
        below: Floats = excess.sum(axis=1, keepdims=True) - np.cumsum(excess, axis=1)
        return below
    return np.zeros_like(excess)


def of_three(rho: Floats, kind: str) -> Floats:
    """Return what triples of items add to the weights of pairs (n, K); zeros where positions depend on each other."""
    if kind != "factored":
        return np.zeros(rho.shape)
    excess = rho - 1.0
    total, squares = (
        excess.sum(axis=1, keepdims=True),
        np.einsum("nk,nk->n", excess, excess)[:, None],
    )
    # Products of two of the others, e_2 = ((t - x)^2 - (q - x^2)) / 2 with the sums t and q over all
    # items x: x (x - t) + (t^2 - q) / 2.
    out: Floats = excess - total
    out *= excess
    out += (total**2 - squares) / 2.0
    out *= rho
    return out


#: Rows whose terms are made at a time, so that what is read several times stays in the cache.
TERM_ROWS = 8192


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """The terms of the value row by row (n, K): single items with the centre, pairs, triples.

    `items` is the mean of single items (K,). Of pairs and triples (2, K) each: `mean`, `second` moment, and
    `inflation`, the factor by which the log understates that moment (`tails`).
    """

    centre: Floats
    single: Floats
    pairs: Floats
    triples: Floats
    items: Floats
    mean: Floats
    second: Floats
    inflation: Floats

    @property
    def variances(self) -> Floats:
        """Variances of the rows of pairs and triples (2, K), their tails corrected."""
        return np.maximum(self.inflation * self.second - self.mean**2, 0.0)

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

    def values(self, trust: float, triples: float) -> Floats:
        """Return the means (K,) of these contributions."""
        pairs: Floats = self.items + trust * self.mean[0]
        return pairs + triples * self.mean[1] if triples else pairs

    def totals(self, trust: Floats | float, triples: Floats | float, alpha: Floats) -> Floats:
        """Return what these contributions add up to (n,), with `alpha` (K,) for each position."""
        out: Floats = self.single @ alpha + self.pairs @ (trust * alpha)
        if np.any(triples):
            out += self.triples @ (triples * alpha)
        return out

    def tail_shares(self, triples: float) -> tuple[Floats, Floats]:
        """Return shares (K,) of pairs and triples by which deviations are as large as the corrected variances say."""
        plain = np.maximum(self.second - self.mean**2, 0.0)
        # A corrected variance of NaN stays NaN.
        factor = np.sqrt(np.divide(self.variances, plain, out=np.ones_like(plain), where=plain > 0))
        return factor[0], triples * factor[1]


def pair_rows(ratios: Ratios, v: Floats | None = None) -> PairRows:
    """Return the terms of the estimate from pairs; v is the known `tails.excess` of the ratios, if any."""
    # Position by position in memory, as the ratios are.
    base, reward = base_weights(ratios), np.asfortranarray(ratios.batch.reward)
    single, pairs, triples = (np.empty(base.shape[::-1]).T for _ in range(3))
    weight = base.sum(axis=0)
    centre = np.divide(
        np.einsum("nk,nk->k", base, reward), weight, out=np.zeros(len(weight)), where=weight > 0
    )
    sums = np.zeros((3, 2, base.shape[1]))  # of squared weights, of terms, and of their squares
    # Effects beyond all numbers are not known: no variance, and no trust.
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, len(base), TERM_ROWS):
            rows = slice(first, first + TERM_ROWS)
            rho, centred = ratios.rho[rows], reward[rows] - centre
            effects = base[rows] * others(rho, ratios.kind), of_three(rho, ratios.kind)
            sums[0] += [_square(weights) for weights in effects]
            finite = np.isfinite(sums[0]).all()
            for number, (effect, terms) in enumerate(zip(effects, (pairs, triples), strict=True)):
                effect *= centred
                if number and not finite:
                    np.nan_to_num(effect, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
                terms[rows] = effect
                sums[1, number] += effect.sum(axis=0)
                sums[2, number] += _square(effect)
            centred *= base[rows]
            single[rows] = centred + centre
        squares, mean, second = sums / max(len(base), 1)
        items = single.mean(axis=0)
        inflated = effect_inflation(v, squares)
        return PairRows(centre, single, pairs, triples, items, mean, second, inflated)


def _square(rows: Floats) -> Floats:
    squares: Floats = np.einsum("nk,nk->k", rows, rows)
    return squares


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
        return np.maximum(_square(ratios.rho)[None] / log.n - 1.0, 0.0)
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
    # A product over the relevant items of 1 + v, which is no number where v is none.
    masks = np.stack([candidate.mask for candidate in candidates])  # (M, K, K)
    logs = np.log1p(np.minimum(v, _MOST)) @ masks.reshape(-1, v.shape[1]).T
    with np.errstate(over="ignore"):
        moments = np.exp(logs).mean(axis=0).reshape(masks.shape[:2])
    return _upwards(moments.T, squares)


def effect_inflation(v: Floats | None, squares: Floats) -> Floats:
    """Return the same for the weights of effects of pairs and of triples (2, K), given the means of `squares`."""
    if v is None:
        return np.ones_like(squares)
    expected = ((1.0 + v) * np.stack(of_others(v))).mean(axis=1)
    return _upwards(expected, squares)


#: Larger second moments make no difference, and have no logarithm.
_MOST = 1e300


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

    modelled (n, T) are rows of V_c, difference (m, T) rows whose mean is that of D, and stretched (n, T)
    rows of D with the spread that its tails have; alpha (T,) weighs their means. The evidence is that of
    n rows, the variances are those of an estimate on `n_apply`.
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
