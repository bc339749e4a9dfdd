"""The fitted behaviour model: its value on logged rankings and its mean under a target."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.models.base import Prediction
from counterrank.models.behaviors.state import Fit, chances
from counterrank.models.layout import Scale, context_columns, whole_distribution
from counterrank.models.linear import DRAWS, policy_draws
from counterrank.models.visibility.links import Link
from counterrank.models.visibility.rows import Rows, moods

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The largest exponent of one pair's factor.
_LARGEST = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class BehaviorModel:
    """E[r_k | x, a] = sum_z P(z | x) q_zk, q_zk = own(x, a_k) + sum_l s_zkl W(a_k, a_l), or own exp(sum_l ...).

    Classes z of users see different parts of a ranking: s_z (K, K) is the behaviour model c of Kiyohara et al. 2023,
    of which the log shows neither the entries nor who has which. A mixture fitted to whole rankings of rewards finds
    both: what a user saw shows in how all their rewards move together.

    own (F, A, p), shift (F, K), pair (F, A, A), triple (F, A, A, A) or (F, 0, 0, 0) leave each fold out in turn; sight
    (Z, K, K) and shares (Z, 1 + m) are of all rows.
    """

    own: Floats
    shift: Floats
    pair: Floats
    triple: Floats
    sight: Floats
    shares: Floats
    link: Link
    scale: Scale
    details: dict[str, Any] = field(default_factory=dict)
    draws: int = DRAWS
    seed: int = 0

    def predict(self, batch: RankingLog, target: str) -> Prediction:
        """Return q and E_pi q of a batch."""
        x = self.scale.apply(context_columns(batch))
        fold, chance = batch.bucket % len(self.own), chances(self.shares, moods(x))
        return Prediction(
            self.values(x, batch.action, fold, chance), self._mean(batch, target, x, fold, chance)
        )  # fmt: skip

    def logged(self, rows: Rows) -> Floats:
        """Return q (n, K) of training rows."""
        return self.values(rows.x, rows.action, rows.fold, chances(self.shares, rows.moods))

    def values(self, x: Floats, action: Ints, fold: Ints, chance: Floats) -> Floats:
        """Return q (n, K) of given rankings, zero in the padding; chance (n, Z) of the classes."""
        from counterrank.models.kernels import behaviors as kernels

        own, out = np.empty(action.shape), np.empty(action.shape)
        kernels.own_values(action, fold, x, self.own, self.shift, own)
        if not self.link.curved:
            kernels.mixed_values(action, fold, own, chance, self.pair, self.sight, self.triple, out)
            return out
        of_class = np.empty((len(action), *self.sight.shape[:2]))
        kernels.class_values(
            True, action, fold, own, self.pair, self.sight, self.triple, of_class, np.empty(of_class.shape)
        )
        return np.asarray(np.einsum("iz,izk->ik", chance, of_class))

    def _mean(self, batch: RankingLog, target: str, x: Floats, fold: Ints, chance: Floats) -> Floats:
        from counterrank.models.kernels import behaviors_means as kernels

        wanted = whole_distribution(batch, target)
        if wanted is None:
            drawn = policy_draws(batch, target, self.draws, self.seed)
            total = np.zeros(batch.action.shape)
            for s in range(drawn.shape[1]):
                total += self.values(x, np.ascontiguousarray(drawn[:, s]), fold, chance)
            return np.asarray(total / drawn.shape[1])
        out = np.zeros(batch.action.shape)
        given, effects = (fold, x, chance), (self.pair, self.triple, self.sight)
        if self.link.curved:
            power = self.sight[None, :, :, :, None, None] * self.pair[:, None, None, None]
            factor = np.exp(np.clip(power, -_LARGEST, _LARGEST))
            kernels.product_means(batch.lengths, *given, wanted, self.own, self.shift, factor, out)
        elif wanted.shape[1] == 1 and bool((batch.lengths == batch.K).all()):
            kernels.alike_means(*given, wanted[:, 0], self.own, self.shift, *effects, out)
        else:
            kernels.sum_means(batch.lengths, *given, wanted, self.own, self.shift, *effects, out)
        return out


def described(fit: Fit) -> list[dict[str, Any]]:
    """Return each class with its share of the rankings and what it sees, the most common first."""
    share = fit.posterior.mean(axis=0)
    order = np.argsort(-share)
    return [{"share": float(share[z]), "sees": fit.sight[z].tolist()} for z in order]
