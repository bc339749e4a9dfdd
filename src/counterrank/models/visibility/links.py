"""How the two parts of the model make a reward: added, through a sigmoid, or multiplied."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.models.linear import sigmoid

Floats = NDArray[np.float64]

#: exp() of a pair part beyond this is no effect any log could show.
_LARGEST = 20.0
#: As the compiled code numbers them.
_KINDS = {"sum": 0, "logistic": 1, "product": 2}


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """Derivatives by own and pair part (2, n or 1, K), weights and working errors (n, K) of one Gauss-Newton step.

    Where all rows have the same derivatives, one row stands for them.
    """

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

    def predicted(self, parts: Floats, scale: Floats, offset: Floats) -> Floats:
        """Return q (n, K) from own part, pairs above and below (3, n, K), how far they are seen (n, 2), and offset."""
        from counterrank.models.kernels.visibility_rows import link_values

        out = np.empty(offset.shape)
        link_values(_KINDS[self.name], parts, scale, offset, out)
        return out

    def slopes(self, q: Floats, pair: Callable[[], Floats], reward: Floats, present: Floats) -> Slopes:
        """Return what a Gauss-Newton (or Newton) step sees at q; only the product asks for the pair part."""
        one = np.ones((2, 1, q.shape[1]))
        if self.name == "logistic":
            from counterrank.models.kernels.visibility_rows import logistic_slopes

            weight, error = np.empty(q.shape), np.empty(q.shape)
            logistic_slopes(q, reward, present, weight, error)
            return Slopes(one, weight, error)
        error = (reward - q) * present
        if self.name == "product":
            one = np.stack([np.exp(np.clip(pair(), -_LARGEST, _LARGEST)), q])
        return Slopes(one, present, error)

    def loss(self, q: Floats, reward: Floats, present: Floats, shared: Floats) -> float:
        """Return twice the negative log-likelihood in units of the noise: squared errors less the shared part."""
        from counterrank.models.kernels.visibility_rows import logistic_loss, squared_loss

        if self.name == "logistic":
            return float(logistic_loss(q, reward, present))
        return float(squared_loss(q, reward, present, shared))


SUM, LOGISTIC, PRODUCT = Link("sum"), Link("logistic"), Link("product")
