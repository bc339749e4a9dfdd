"""How contributions and weights become a value: plain mean, self-normalised, or with E[w] = 1 as
control.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from counterrank.inference import control_coefficients
from counterrank.moments import Moments

Floats = NDArray[np.float64]


class Aggregate(Protocol):
    """A smooth function of the column means, with its gradient."""

    needs_gram: bool

    def positions(self, moments: Moments) -> Floats:
        """Return V_k (K,)."""

    def slope(self, moments: Moments) -> tuple[Floats, Floats]:
        """Return dV/d(mean y) (K, K) and dV/d(mean w) (K, K): row k is the gradient of V_k."""

    def at(self, moments: Moments, y: Floats, w: Floats) -> Floats:
        """Return V (B, K) where the means were y and w (B, K): what a bootstrap draws."""


class Mean:
    """V_k = mean of y_k."""

    needs_gram = False

    def positions(self, moments: Moments) -> Floats:
        """Return mean y_k."""
        return moments.mean("y")

    def slope(self, moments: Moments) -> tuple[Floats, Floats]:
        """The mean has slope one in y and zero in w."""
        length = moments.K
        return np.eye(length), np.zeros((length, length))

    def at(self, moments: Moments, y: Floats, w: Floats) -> Floats:
        """Return y."""
        return y


class SelfNormalised:
    """V_k = mean y_k / mean w_k (Hajek); biased O(1/n), steadier when weights are heavy."""

    needs_gram = True

    def positions(self, moments: Moments) -> Floats:
        """Return the ratio of means, zero where no weight is left."""
        return self.at(moments, moments.mean("y"), moments.mean("w"))

    def slope(self, moments: Moments) -> tuple[Floats, Floats]:
        """d(y/w) = dy/w - (y/w) dw/w."""
        w = moments.mean("w")
        # Without any weight at a position V_k is zero and so is its slope: `finish` then says that
        # there is no evidence.
        inverse = np.divide(1.0, w, out=np.zeros_like(w), where=w != 0)
        return np.diag(inverse), np.diag(-self.positions(moments) * inverse)

    def at(self, moments: Moments, y: Floats, w: Floats) -> Floats:
        """Return y / w, zero where no weight is left."""
        return np.divide(y, w, out=np.zeros_like(y), where=w != 0)


class ControlVariate:
    """V_k = mean y_k - beta_k' (mean w - 1), beta = Cov(w)^-1 Cov(w, y): E[w] = 1 is known, so use
    it.

    The regression coefficient is fitted on the same rows (a bias of order K/n); see Vlassis et al.
    2021.
    """

    needs_gram = True

    def positions(self, moments: Moments) -> Floats:
        """Return the controlled means."""
        return self.at(moments, moments.mean("y"), moments.mean("w"))

    def slope(self, moments: Moments) -> tuple[Floats, Floats]:
        """One in y, -beta in w; beta's own error is of second order."""
        return np.eye(moments.K), -control_coefficients(moments)

    def at(self, moments: Moments, y: Floats, w: Floats) -> Floats:
        """Return y - beta (w - 1) with beta from all rows."""
        return y - (w - 1.0) @ control_coefficients(moments).T


AGGREGATES: dict[str, Aggregate] = {
    "mean": Mean(),
    "ratio": SelfNormalised(),
    "control": ControlVariate(),
}
