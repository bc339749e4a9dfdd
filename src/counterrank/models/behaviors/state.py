"""Where a fit of the behaviour model stands, and what its parameters say of the rows."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.models.visibility.links import Link
from counterrank.models.visibility.rows import Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Centres and penalties of effects (A, p + A), of visibility (Z, K, K), and the penalty of three-way effects."""

    effect: Floats
    effect_penalty: Floats
    sight: Floats
    sight_penalty: Floats
    triple_penalty: float


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Parameters and prior of a fit to all rows, and what follows from them.

    effect (A, p + A): own effects of the context, then pair effects; shift (K,); sight (Z, K, K); triple (A, A, A),
    the same for both orders of the last two, or (0, 0, 0); shares (Z, 1 + m): how classes depend on the context.

    plain (n, K), part and q (n, Z, K): own part, exponent (of a product) and reward of every class; posterior (n, Z):
    how likely each ranking's user is of each class, its rewards seen; shared (n,): what its errors have in common:
    errors e have the likelihood exp(-(|e|^2 - shared (sum e)^2) / (2 noise)); likelihood: its mean logarithm.
    """

    link: Link
    effect: Floats
    shift: Floats
    sight: Floats
    triple: Floats
    prior: Prior
    shares: Floats
    noise: float
    shared: Floats
    plain: Floats
    part: Floats
    q: Floats
    posterior: Floats
    likelihood: float = -np.inf
    #: The correlation of a ranking's errors, from which `shared` follows.
    common: float = 0.0
    #: How many three-way effects there are in effect, shrunk as they are.
    freedom: float = 0.0

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Z, K, A and p."""
        Z, K, _ = self.sight.shape
        A, width = self.effect.shape
        return Z, K, A, width - A

    def squares(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return the squared errors of every ranking and class, and the square of the errors' sum: (n, Z) each."""
        from counterrank.models.kernels.behaviors import class_errors

        out = np.empty((2, rows.n, len(self.sight)))
        class_errors(rows.action, rows.reward, self.q, out)
        return out[0], out[1]

    def loss(self, rows: Rows) -> float:
        """Return squared errors less their shared part, weighed by class, with the penalties."""
        square, total = self.squares(rows)
        at = self.prior
        pulls = float((at.effect_penalty * (self.effect - at.effect) ** 2).sum())
        pulls += float((at.sight_penalty * (self.sight - at.sight) ** 2).sum())
        pulls += at.triple_penalty * float((np.tril(self.triple) ** 2).sum()) + SHIFT * float((self.shift**2).sum())
        return float((self.posterior * (square - self.shared[:, None] * total)).sum()) + pulls


#: Penalty of a position's shift.
SHIFT = 3.0


def moved(fit: Fit, rows: Rows, **changes: Any) -> Fit:
    """Return the fit with some parameters changed, and what follows."""
    from counterrank.models.kernels.behaviors import class_values, own_values

    fit = replace(fit, **changes)
    Z, K, _, p = fit.shape
    nobody, plain, curved = np.zeros(rows.n, dtype=np.int64), fit.plain, fit.link.curved
    if len(plain) != rows.n or "effect" in changes:
        plain = np.empty((rows.n, K))
        own = np.ascontiguousarray(fit.effect[None, :, :p])
        own_values(rows.action, nobody, rows.x, own, fit.shift[None], plain)
    q, part = np.empty((rows.n, Z, K)), np.empty((rows.n if curved else 0, Z, K))
    effect = np.ascontiguousarray(fit.effect[None, :, p:])
    class_values(curved, rows.action, nobody, plain, effect, fit.sight, fit.triple[None], q, part)
    return replace(fit, plain=plain, part=part, q=q)


def shared_by(common: float, count: Floats) -> Floats:
    """Return what errors of rankings of given lengths share, c / (1 + (count - 1) c), at correlation c.

    >>> shared_by(0.5, np.array([1.0, 3.0])).tolist()
    [0.5, 0.25]
    """
    return np.asarray(common / (1.0 + np.maximum(count - 1.0, 0.0) * common))


def chances(shares: Floats, moods: Floats) -> Floats:
    """Return the probabilities of the classes given the context (n, Z): softmax of shares . [1, moods].

    >>> chances(np.zeros((2, 2)), np.ones((1, 1))).tolist()
    [[0.5, 0.5]]
    """
    from counterrank.models.kernels.behaviors import softmax

    out = moods @ shares[:, 1:].T
    out += shares[:, 0]
    softmax(out)
    return out
