"""How much a sample understates the second moment of its weights.

A product of K ratios has so heavy a tail that most samples miss what dominates its variance, and a search over
models picks those whose variance is understated most. For factored policies the second moment given the context is
known: E[w_k^2 | x] = prod over relevant l of (1 + v_l), v_l = sum_a pi(a)^2 / pi0(a) - 1; with an interaction order m,
(1 + v_k) sum_{j<m} e_j(v of the others), e_j elementary symmetric polynomials. Without whole distributions, v_l is
estimated by the mean of rho_l^2 - 1, which has a light tail, as if it did not depend on the context.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior import Candidate
from counterrank.log import LOGGING, RankingLog
from counterrank.ratios import Ratios

Floats = NDArray[np.float64]

#: Rows on which the exact moments are averaged.
ROWS = 2_000


def inflation(log: RankingLog, target: str, ratios: Ratios, candidates: tuple[Candidate, ...], seen: Floats) -> Floats:
    """Return max(1, E[w^2] / mean w^2) for each position and candidate (K, M); ones unless policies are factored.

    `seen` (K, M) is the mean of w^2 in the log. Padded rankings are left as they are: their products are shorter.
    """
    from counterrank.tree.kernels.histogram_tails import second_moments

    if ratios.kind != "factored" or (log.lengths < log.K).any():
        return np.ones_like(seen)
    excess = _excess(log, target, ratios)
    expected = np.empty_like(seen)
    masks = np.stack([c.mask for c in candidates])
    orders = np.array([c.order or 0 for c in candidates], dtype=np.int64)
    second_moments(np.ascontiguousarray(excess), masks, orders, expected)
    return np.maximum(1.0, expected / np.maximum(seen, 1e-300))


def _excess(log: RankingLog, target: str, ratios: Ratios) -> Floats:
    """Return v_l(x) (rows, K), from whole distributions where the log has them."""
    p0, p1 = log.distribution(LOGGING), log.distribution(target)
    if p0 is None or p1 is None:
        plain: Floats = (ratios.rho**2).mean(axis=0, keepdims=True) - 1.0
        return np.maximum(plain, 0.0)
    rows = slice(None, None, max(1, -(-log.n // ROWS)))
    few, many = p0[rows], p1[rows]
    safe = np.where(few > 0, few, 1.0)
    # Where the logger never goes, no logged row tells: the moment is over its support.
    moment = np.where(few > 0, many**2 / safe, 0.0).sum(axis=-1) - 1.0
    if (moment == moment[:1]).all():  # policies without context
        moment = moment[:1]
    table: Floats = np.broadcast_to(moment[:, None], (len(moment), log.K)) if moment.ndim == 1 else moment
    return np.maximum(table, 0.0)
