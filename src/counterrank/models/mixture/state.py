"""The state of a fit: parameters, prior, and predictions of the rows. One class is the visibility model."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterrank.arrays import Floats
from counterrank.models import settings
from counterrank.models.mixture.model import (
    Link,
    Rows,
    linked,
    own_parts,
    pair_parts,
    scale_of_tilt,
)


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Centres and penalties of effects (A, p + A) and of examination (Z, K, K); penalties of tilt and triples."""

    effect: Floats
    effect_penalty: Floats
    examined: Floats
    examined_penalty: Floats
    tilt_penalty: float
    triple_penalty: float


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Parameters and prior of a fit to all rows, and the predictions that follow from them.

    The parameters are:

    - effect (A, p + A): own effects of the context, then pair effects
    - shift (K,): effects of positions
    - examined (Z, K, K): how far class z examines the item at l when it gives the reward at k, 1 on
      average
    - triple (A, A, A): three-way effects, symmetric in the last two items, or (0, 0, 0)
    - tilt (2, m): how examination of items above and below varies with a user's traits (one class)
    - shares (Z, 1 + m): how the chances of classes depend on the traits

    The predictions are:

    - scale (n, 2): how much of the items above and below each row's user examines
    - own (n, K), part and q (n, Z, K): own part, pair part and reward of every class
    - posterior (n, Z): probability of each class given the rewards; 0 leaves a row out
    - shared (n,): errors e of a ranking have the likelihood exp(-(|e|^2 - shared (sum e)^2) / (2 noise))
    - common: the correlation of these errors, from which `shared` follows
    - likelihood: the mean log-likelihood
    - freedom: the effective number of three-way effects
    """

    link: Link
    effect: Floats
    shift: Floats
    examined: Floats
    triple: Floats
    tilt: Floats
    shares: Floats
    prior: Prior
    noise: float
    shared: Floats
    posterior: Floats
    scale: Floats
    own: Floats
    part: Floats
    q: Floats
    common: float = 0.0
    likelihood: float = -np.inf
    freedom: float = 0.0

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Z, K, A and p."""
        Z, K, _ = self.examined.shape
        A, width = self.effect.shape
        return Z, K, A, width - A

    @property
    def pair(self) -> Floats:
        """Pair effects (A, A)."""
        return np.ascontiguousarray(self.effect[:, self.shape[3] :])

    def squares(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return the squared errors of every ranking and class, and the square of the errors' sum: (n, Z) each."""
        error = rows.reward[:, None] - self.q
        if not rows.present.all():
            error *= rows.present[:, None]
        # A product with ones is the fastest sum over few positions.
        total = error @ np.ones(error.shape[2])
        return np.einsum("izk,izk->iz", error, error), total**2

    def errors(self, rows: Rows) -> float:
        """Return squared errors less their shared part, weighed by class; for 0/1 rewards -2 log-likelihood."""
        if self.link is Link.LOGISTIC:
            # A chance of exactly 0 or 1 would let one surprising click decide the fit.
            chance = np.clip(self.q[:, 0], settings.LEAST_CHANCE, 1.0 - settings.LEAST_CHANCE)
            said = np.log(np.where(rows.reward > 0.5, chance, 1.0 - chance))
            return float(-2.0 * (rows.present * (self.posterior > 0) * said).sum())
        square, total = self.squares(rows)
        return float((self.posterior * (square - self.shared[:, None] * total)).sum())

    def loss(self, rows: Rows) -> float:
        """Return the errors with the prior's penalties."""
        at = self.prior
        # Penalties are in noise variances, as the errors are.
        pulls = float((at.effect_penalty * (self.effect - at.effect) ** 2).sum())
        pulls += float((at.examined_penalty * (self.examined - at.examined) ** 2).sum())
        pulls += at.triple_penalty * float(
            (np.tril(self.triple) ** 2).sum()
        ) + settings.SHIFT * float((self.shift**2).sum())
        return self.errors(rows) + pulls + at.tilt_penalty * float((self.tilt**2).sum())


def start(rows: Rows, link: Link, actions: int) -> Fit:
    """Return the fit that searches start from: one class that examines all items, and the mean reward."""
    (n, K), p, m = rows.action.shape, rows.x.shape[1], rows.traits.shape[1]
    mean = float(rows.reward.sum() / max(rows.present.sum(), 1.0))
    # Logits of rewards that are all 0 or all 1 stay finite.
    first = np.log((mean + 1e-3) / (1.0 - mean + 1e-3)) if link is Link.LOGISTIC else mean
    effect = np.zeros((actions, p + actions))
    effect[:, 0] = first
    # Penalties of parameters without a unit are in units of the noise, so that a fit does not depend on
    # the unit of the rewards.
    unit = 1.0 if link is Link.LOGISTIC else _variance(rows, mean)
    penalty = np.ones(effect.shape)
    penalty[:, p:] *= unit if link is Link.PRODUCT else 1.0
    everything = (1.0 - np.eye(K))[None]
    prior = Prior(
        effect.copy(),
        penalty,
        everything,
        np.full((1, K, K), settings.FIRST_EXAMINED * unit),
        settings.FIRST_TILT * unit,
        settings.FIRST_TRIPLE,
    )
    nothing = np.empty((0, 0))
    fit = Fit(
        link, effect, np.zeros(K), everything, np.zeros((0, 0, 0)), np.zeros((2, m)), np.zeros((1, 1 + m)), prior, unit,
        np.zeros(n), np.ones((n, 1)), nothing, nothing, nothing, nothing,
    )  # fmt: skip
    return moved(fit, rows)


def _variance(rows: Rows, mean: float) -> float:
    """Return the variance of the rewards, or a tiny number where they do not vary."""
    variance = float(
        (rows.present * (rows.reward - mean) ** 2).sum() / max(rows.present.sum(), 1.0)
    )
    return max(variance, 1e-12 * mean**2, 1e-300)


def moved(fit: Fit, rows: Rows, *, sides: Floats | None = None, **changes: Any) -> Fit:
    """Return the fit with some parameters changed and its predictions of the rows.

    `sides` (n, 2, K), where known, are the pair parts above and below, which a tilt only reweighs.
    """
    fit = replace(fit, **changes)
    _, K, _, p = fit.shape
    nobody, (scale, own) = np.zeros(rows.n, dtype=np.int64), (fit.scale, fit.own)
    # Each step changes one block of parameters. Predictions that do not depend on it stay.
    if len(scale) != rows.n or "tilt" in changes:
        scale = scale_of_tilt(fit.tilt, rows.traits)
    if len(own) != rows.n or "effect" in changes:
        own = own_parts(
            rows.action,
            nobody,
            rows.x,
            np.ascontiguousarray(fit.effect[None, :, :p]),
            fit.shift[None],
        )
    if sides is None:
        part = pair_parts(
            rows.action, nobody, scale, fit.pair[None], fit.examined, fit.triple[None]
        )
    else:
        part = np.einsum("is,isk->ik", scale, sides)[:, None]
    return replace(fit, scale=scale, own=own, part=part, q=linked(fit.link, own[:, None], part))


def carried(fit: Fit, rows: Rows) -> Fit:
    """Return the fit's parameters on other rows, with all classes equally likely.

    Several classes keep the shared noise of the fit, because the first posterior needs it. One class
    starts without: its first step estimates the noise, and the correlation of rough errors would
    mislead it where columns are many.
    """
    Z, nothing = len(fit.examined), np.empty((0, 0))
    shared = shared_by(fit.common if Z > 1 else 0.0, rows.present.sum(axis=1))
    return moved(
        replace(
            fit, shared=shared, posterior=np.full((rows.n, Z), 1.0 / Z), scale=nothing, own=nothing
        ),
        rows,
    )


def shared_by(common: float, count: Floats) -> Floats:
    """Return what errors of rankings of given lengths share, c / (1 + (count - 1) c), at correlation c.

    >>> shared_by(0.5, np.array([1.0, 3.0])).tolist()
    [0.5, 0.25]
    """
    return np.asarray(common / (1.0 + np.maximum(count - 1.0, 0.0) * common))
