"""How the two parts of the model make a reward: added, through a sigmoid, or multiplied."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.regression.linear import sigmoid

Floats = NDArray[np.float64]

#: exp() of a pair part beyond this is no effect any log could show.
_LARGEST = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """Derivatives by own and pair part (2, n, K), weights and working errors (n, K) of one Gauss-Newton step."""

    slope: Floats
    weight: Floats
    error: Floats


@dataclass(frozen=True, slots=True)
class Link:
    """q = own + pair ("sum"), sigmoid(own + pair) ("logistic"), or own exp(pair) ("product")."""

    name: str

    @property
    def curved(self) -> bool:
        """Whether steps need a search and means need draws."""
        return self.name != "sum"

    def value(self, own: Floats, pair: Floats) -> Floats:
        """Return q.

        >>> Link("product").value(np.array([2.0]), np.log([1.5])).round(6).tolist()
        [3.0]
        """
        if self.name == "product":
            return np.asarray(own * np.exp(np.clip(pair, -_LARGEST, _LARGEST)))
        linear = own + pair
        return sigmoid(linear) if self.name == "logistic" else linear

    def slopes(self, q: Floats, pair: Floats, reward: Floats, present: Floats) -> Slopes:
        """Return what a Gauss-Newton (or Newton) step sees at q."""
        one = np.ones(q.shape)
        if self.name == "logistic":
            variance = np.maximum(q * (1.0 - q), 1e-5)
            return Slopes(np.stack([one, one]), variance * present, (reward - q) / variance * present)
        if self.name == "product":
            factor = np.exp(np.clip(pair, -_LARGEST, _LARGEST))
            return Slopes(np.stack([factor, q]), present, (reward - q) * present)
        return Slopes(np.stack([one, one]), present, (reward - q) * present)

    def loss(self, q: Floats, reward: Floats, present: Floats, shared: Floats) -> float:
        """Return twice the negative log-likelihood in units of the noise: squared errors less the shared part."""
        if self.name == "logistic":
            chance = np.clip(q, 1e-9, 1.0 - 1e-9)
            return float(-2.0 * (present * np.where(reward > 0.5, np.log(chance), np.log1p(-chance))).sum())
        from counterrank.kernels.visibility_rows import squared_loss

        return float(squared_loss(q, reward, present, shared))


SUM, LOGISTIC, PRODUCT = Link("sum"), Link("logistic"), Link("product")
