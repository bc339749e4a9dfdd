"""How far a log understates the second moments of weights.

A product of K ratios has so heavy a tail that most logs lack the rows that dominate its second
moment, and a search over models picks those whose variance is understated most. For factored
policies the second moment given the context is known. With v_l = sum_a pi(a)^2 / pi0(a) - 1 and e_j
the elementary symmetric polynomials,

- a product over the relevant items l has E[w_k^2 | x] = prod over l of (1 + v_l),
- effects of pairs, rho_k sum over l of (rho_l - 1), have (1 + v_k) e_1(v of the others),
- effects of triples have (1 + v_k) e_2(v of the others).

Without whole distributions v_l is estimated by the mean of rho_l^2 - 1, which has a light tail, as
if it did not depend on the context.
"""

import numpy as np

from counterrank.arrays import Floats
from counterrank.data.log import LOGGING, RankingLog
from counterrank.estimators.behavior import settings
from counterrank.estimators.behavior.masks import Candidate
from counterrank.estimators.weights.kernels import weights
from counterrank.estimators.weights.ratios import Ratios


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
    moment = weights.excess_squares(p0[rows], p1[rows])
    if (moment == moment[:1]).all():  # policies without context
        moment = moment[:1]
    table: Floats = (
        np.broadcast_to(moment[:, None], (len(moment), log.K)) if moment.ndim == 1 else moment
    )
    return np.maximum(table, 0.0)


def inflation(v: Floats | None, candidates: tuple[Candidate, ...], seen: Floats) -> Floats:
    """Return max(1, E[w^2] / mean w^2) for each position and candidate (K, M); ones where v is not known.

    `seen` (K, M) is the mean of w^2 in the log.
    """
    if v is None:
        return np.ones_like(seen)
    # The second moments are the formula of the weights themselves, with 1 + v for each ratio.
    moment = np.ascontiguousarray(1.0 + v.T)
    each = [weights.ordered(moment, c.mask, len(moment)).mean(axis=1) for c in candidates]
    return _upwards(np.column_stack(each), seen)


def effect_inflation(v: Floats | None, seen: Floats) -> Floats:
    """Return the same for the weights of effects of pairs and of triples (2, K), whose means of squares are `seen`."""
    if v is None:
        return np.ones_like(seen)
    expected = ((1.0 + v) * np.stack(weights.of_others(v))).mean(axis=1)
    return _upwards(expected, seen)


def _upwards(expected: Floats, seen: Floats) -> Floats:
    # Upwards only: an understated variance would let chance choose a model; an overstated one only
    # rules a model out. Factors beyond 1e100 make no difference.
    return np.maximum(1.0, expected / np.maximum(seen, 1e-100 * expected + 1e-300))
