"""What a logger that explores more would buy: weights' second moments if it were mixed with uniform choice.

With logging probabilities b = (1 - e) p0 + e / A, a weight pi/b has E_b[(pi/b)^2] = E_p0[pi^2 / (b p0)], which the
present log can average. With whole distributions the sum over items, sum_a pi^2/b, replaces the logged item.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics.support import thinned
from counterrank.errors import CounterrankError
from counterrank.log import LOGGING, RankingLog
from counterrank.ratios import numbers, ratios_of

Floats = NDArray[np.float64]

EPSILONS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def stderr_ratios(log: RankingLog, target: str, estimator: str) -> list[dict[str, float]]:
    """Return for each share e of uniform choice the predicted stderr relative to today's.

    sqrt(M(e) / M(0)) with M the mean over rows and positions of alpha_k^2 E[w_k^2]; rewards are taken to be as
    spread where weights are large as elsewhere. Empty when positions are not independent.
    """
    log = thinned(log)
    factors = [second_moments(log, target, epsilon) for epsilon in EPSILONS]
    if any(factor is None for factor in factors):
        return []
    used = np.arange(log.K) < log.lengths[:, None]
    weights = log.position_weights**2
    totals = [float((combined(f, estimator) * used).mean(axis=0) @ weights) for f in factors if f is not None]
    return [
        {"epsilon": epsilon, "stderr_ratio": float(np.sqrt(total / totals[0]))}
        for epsilon, total in zip(EPSILONS, totals, strict=True)
        if totals[0] > 0
    ]


def second_moments(log: RankingLog, target: str, epsilon: float) -> Floats | None:
    """Return s_k (n, K) with mean E_b[rho_k^2] for the mixed logger, or None when positions are not independent."""
    old, new = log.distribution(LOGGING), log.distribution(target)
    if old is not None and new is not None:
        old, new = (table[:, None] if table.ndim == 2 else table for table in (old, new))  # (n, 1 or K, A)
        b = (1 - epsilon) * old + epsilon / old.shape[-1]
        shape = np.broadcast_shapes(new.shape, b.shape)
        sums = np.divide(new**2, b, out=np.zeros(shape), where=np.broadcast_to(b > 0, shape)).sum(axis=-1)
        return np.broadcast_to(sums, log.action.shape)
    try:
        if ratios_of(log, target).kind != "factored":
            return None
    except CounterrankError:
        return None
    p0 = numbers(log.propensity, log, "factored")
    pi = numbers(log.target(target), log, "factored")
    b = (1 - epsilon) * p0 + epsilon / log.n_actions
    return np.where(log.action >= 0, pi**2 / (b * p0), 1.0)


def combined(s: Floats, estimator: str) -> Floats:
    """Return E[w_k^2] (n, K) of an estimator's weights from the moments s_k of independent positions.

    IPS: prod_l s_l. RIPS: prod_{l<=k} s_l. IIPS: s_k. Order m: s_k sum_{|T|<m} prod_{l in T} (s_l - 1), because
    factors rho_l - 1 have mean zero and variance s_l - 1. Others are taken as order 2.
    """
    name = estimator.removeprefix("sn").removeprefix("cv-").removeprefix("dr-")
    if name == "ips":
        return np.repeat(s.prod(axis=1, keepdims=True), s.shape[1], axis=1)
    if name == "rips":
        return np.asarray(np.cumprod(s, axis=1), dtype=np.float64)
    if name == "iips":
        return s
    order = int(name.removeprefix("order-")) if name.removeprefix("order-").isdecimal() else 2
    result = np.empty_like(s)
    for k in range(s.shape[1]):
        result[:, k] = s[:, k] * _symmetric_sums(np.delete(s, k, axis=1) - 1.0, order - 1)
    return result


def _symmetric_sums(v: Floats, degree: int) -> Floats:
    """Return the sum of the elementary symmetric polynomials of degree 0..degree of each row."""
    sums = np.zeros((v.shape[0], degree + 1))  # (n, degree + 1)
    sums[:, 0] = 1.0
    for column in v.T:
        sums[:, 1:] += sums[:, :-1] * column[:, None]
    total: Floats = sums.sum(axis=1)
    return total
