"""Multinomial logistic regression with an L2 penalty, and sets of items that are still available."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PENALTY = 1.0


@dataclass(frozen=True, slots=True)
class Logistic:
    """P(a | x) = exp(theta_a' x) / sum over available b of exp(theta_b' x); theta is (A, d)."""

    theta: Floats

    def log_prob(self, x: Floats, available: Bools | None = None) -> Floats:
        """Return log-probabilities (n, A), minus infinity where an item is not available."""
        return log_softmax(x @ self.theta.T, available)


def log_softmax(scores: Floats, available: Bools | None = None) -> Floats:
    """Return scores less the log of their summed exponentials.

    >>> np.exp(log_softmax(np.zeros((1, 2)))).tolist()
    [[0.5, 0.5]]
    """
    if available is not None:
        scores = np.where(available, scores, -np.inf)
    top = scores.max(axis=1, keepdims=True)
    shifted = scores - top
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def fit_logistic(
    x: Floats, action: Ints, size: int, *, weight: Floats, available: Bools | None = None, start: Floats | None = None
) -> Logistic:
    """Return the penalised maximum-likelihood model by L-BFGS; items never shown keep a score from the penalty.

    Loss: -sum_i w_i log P(a_i | x_i) + PENALTY/2 |theta without the constant|^2, a little on the constant.
    """
    from scipy import optimize

    n, d = x.shape
    penalty = np.full((size, d), PENALTY)
    penalty[:, 0] = 1e-3 * PENALTY
    scale = 1.0 / max(float(weight.sum()), 1.0)

    def loss(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(size, d)
        log_p = log_softmax(x @ theta.T, available)
        residual = weight[:, None] * np.exp(log_p)
        residual[np.arange(n), action] -= weight
        value = -float(weight @ log_p[np.arange(n), action]) + 0.5 * float((penalty * theta**2).sum())
        return value * scale, ((residual.T @ x + penalty * theta) * scale).ravel()

    first = np.zeros(size * d) if start is None else start.ravel()
    found = optimize.minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-10})
    return Logistic(np.asarray(found.x).reshape(size, d))
