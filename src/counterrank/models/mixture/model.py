"""The fitted examination model: its value on logged rankings and its mean under a target."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.models.base import ModelKind, Prediction
from counterrank.models.layout import Scale, context_columns, whole_distribution
from counterrank.models.linear import factored_draws, policy_draws
from counterrank.models.mixture.fit import Effects
from counterrank.models.mixture.rows import Rows, traits_of
from counterrank.models.mixture.state import (
    Fit,
    Link,
    chances,
    linked,
    own_parts,
    pair_parts,
    scale_of_tilt,
)
from counterrank.models.settings import DRAWS, LARGEST_EXPONENT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rows whose rewards are held for all classes at once.
_ROWS = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class MixtureModel:
    """E[r_k | x, a] = sum_z P(z | x) q_zk, q_zk a link of own(x, a_k) and sum_l s_zkl W(a_k, a_l).

    s_z (Z, K, K), here `examined`, is the behaviour model c of Kiyohara et al. 2023 made into
    numbers: how much the item at l matters to the reward at k. The log shows neither its entries
    nor who has which. A mixture fitted to whole rankings of rewards finds both: what a user
    examined shows in how all their rewards move together. With one class (the visibility model),
    s_kl(x) = examined_kl (1 + tilt . traits(x)) instead.

    `effects` leave each fold out in turn; examined, tilt (2, m) and shares (Z, 1 + m) are of all
    rows. With independent positions the mean under a target is exact for sums and, with classes,
    for products; otherwise an average over drawn rankings (own action summed out where positions
    are independent).
    """

    effects: Effects
    examined: Floats
    tilt: Floats
    shares: Floats
    link: Link
    scale: Scale
    details: dict[str, Any] = field(default_factory=dict)
    draws: int = DRAWS
    seed: int = 0

    @property
    def kind(self) -> ModelKind:
        """Three-way effects, a mixture of classes, or one class that examines more or less."""
        if self.effects.triple.shape[1]:
            return ModelKind.TRIPLES
        return ModelKind.MIXTURE if len(self.examined) > 1 else ModelKind.VISIBILITY

    @property
    def exact(self) -> bool:
        """Whether the mean under independent positions needs no draws."""
        return self.link is Link.SUM or (self.link is Link.PRODUCT and len(self.examined) > 1)

    def predict(self, batch: RankingLog, target: str) -> Prediction:
        """Return q and E_pi q of a batch."""
        x = self.scale.apply(context_columns(batch))
        traits = traits_of(x)
        fold = batch.bucket % len(self.effects.own)
        seen = chances(self.shares, traits), scale_of_tilt(self.tilt, traits)
        q = self.values(x, batch.action, fold, *seen)
        return Prediction(q, self._mean(batch, target, x, fold, seen))

    def logged(self, rows: Rows) -> Floats:
        """Return q (n, K) of training rows."""
        seen = chances(self.shares, rows.traits), scale_of_tilt(self.tilt, rows.traits)
        return self.values(rows.x, rows.action, rows.fold, *seen)

    def values(self, x: Floats, action: Ints, fold: Ints, chance: Floats, scale: Floats) -> Floats:
        """Return q (n, K) of given rankings, zero in the padding; chance (n, Z) of the classes,
        scale (n, 2).
        """
        at, out = self.effects, np.empty(action.shape)
        for first in range(0, len(action), _ROWS):
            rows = slice(first, first + _ROWS)
            own = own_parts(action[rows], fold[rows], x[rows], at.own, at.shift)
            part = pair_parts(
                action[rows], fold[rows], scale[rows], at.pair, self.examined, at.triple
            )
            out[rows] = np.einsum("iz,izk->ik", chance[rows], linked(self.link, own, part))
        out[action < 0] = 0.0
        return out

    def _mean(
        self, batch: RankingLog, target: str, x: Floats, fold: Ints, seen: tuple[Floats, Floats]
    ) -> Floats:
        from counterrank.models.kernels import mixture_means as kernels

        wanted, (chance, scale) = whole_distribution(batch, target), seen
        # Positions hang together (a policy without replacement): only whole draws are rankings it
        # would show.
        if wanted is None:
            drawn = policy_draws(batch, target, self.draws, self.seed)
            total = np.zeros(batch.action.shape)
            for s in range(drawn.shape[1]):
                total += self.values(x, np.ascontiguousarray(drawn[:, s]), fold, chance, scale)
            return np.asarray(total / drawn.shape[1])
        out, (own, shift, pair, _) = np.zeros(batch.action.shape), self.effects
        if not self.exact:
            drawn = factored_draws(batch, wanted, self.draws, self.seed)
            product = self.link is Link.PRODUCT
            given = (own, shift, self.examined[0], pair)
            kernels.curved_means(product, drawn, batch.lengths, fold, x, scale, wanted, *given, out)
        elif self.link is Link.PRODUCT:
            # exp(sum_l s_l W_l) is a product over positions, and the mean of a product of
            # independent factors is the product of their means; the clip keeps factors finite where
            # hardly anything was seen.
            power = self.examined[None, :, :, :, None, None] * pair[:, None, None, None]
            factor = np.exp(np.clip(power, -LARGEST_EXPONENT, LARGEST_EXPONENT))
            kernels.product_means(batch.lengths, fold, x, chance, wanted, own, shift, factor, out)
        elif wanted.shape[1] == 1 and bool((batch.lengths == batch.K).all()):
            # All positions have one distribution and all rankings are whole: sums over positions
            # collapse to one mean pair effect, times how much each class examines.
            kernels.alike_means(
                fold, x, chance, scale, wanted[:, 0], *self.effects, self.examined, out
            )
        else:
            kernels.sum_means(
                batch.lengths, fold, x, chance, scale, wanted, *self.effects, self.examined, out
            )
        return out


def described(fit: Fit) -> list[dict[str, Any]]:
    """Return each class with its share of the rankings and what it examines, the most common first."""
    share = fit.posterior.mean(axis=0)
    order = np.argsort(-share)
    return [{"share": float(share[z]), "sees": fit.examined[z].tolist()} for z in order]
