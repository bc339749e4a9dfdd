"""The fitted visibility model: its value on logged rankings and its mean under a target."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.models.base import Prediction
from counterrank.models.layout import Scale, context_columns, whole_distribution
from counterrank.models.linear import DRAWS, factored_draws, policy_draws
from counterrank.models.visibility.links import Link
from counterrank.models.visibility.parameters import Parameters
from counterrank.models.visibility.rows import Rows, moods

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class VisibilityModel:
    """E[r_k | x, a] from own(x, a_k) and the sum over l of v_kl(x) W(a_k, a_l), put together by a link.

    v_kl(x) = sight_kl (1 + tilt . moods(x)) is the behaviour model c of Kiyohara et al. 2023 made into numbers: how
    much the item at l matters to the reward at k, for this user. With "sum" and independent positions the mean under
    a target is exact, otherwise an average over drawn rankings (own action summed out where positions are
    independent).
    """

    parameters: Parameters
    link: Link
    scale: Scale
    details: dict[str, Any] = field(default_factory=dict)
    draws: int = DRAWS
    seed: int = 0

    def predict(self, batch: RankingLog, target: str) -> Prediction:
        """Return q and E_pi q of a batch."""
        x = self.scale.apply(context_columns(batch))
        fold = batch.bucket % len(self.parameters.own)
        seen = self.parameters.scale(moods(x))
        q = self.values(x, batch.action, fold, seen)
        return Prediction(q, self._mean(batch, target, x, fold, seen))

    def logged(self, rows: Rows) -> Floats:
        """Return q (n, K) of training rows."""
        return self.values(rows.x, rows.action, rows.fold, self.parameters.scale(rows.moods))

    def values(self, x: Floats, action: Ints, fold: Ints, seen: Floats) -> Floats:
        """Return q (n, K) of given rankings, zero in the padding."""
        parts = self.parameters.parts(x, action, fold)
        q = self.link.predicted(parts, seen, self.parameters.triples(action, fold, seen))
        q[action < 0] = 0.0
        return q

    def _mean(self, batch: RankingLog, target: str, x: Floats, fold: Ints, seen: Floats) -> Floats:
        from counterrank.models.kernels import visibility_means as kernels
        from counterrank.models.kernels.visibility_draws import curved_means

        wanted, at = whole_distribution(batch, target), self.parameters
        if wanted is None:
            drawn = policy_draws(batch, target, self.draws, self.seed)
            total = np.zeros(batch.action.shape)
            for s in range(drawn.shape[1]):
                total += self.values(x, np.ascontiguousarray(drawn[:, s]), fold, seen)
            return np.asarray(total / drawn.shape[1])
        out, given = np.zeros(batch.action.shape), (at.own, at.shift, at.sight, at.pair)
        if self.link.curved:
            drawn = factored_draws(batch, wanted, self.draws, self.seed)
            product = self.link.name == "product"
            curved_means(product, drawn, batch.lengths, fold, x, seen, wanted, *given, out)
        elif wanted.shape[1] == 1 and bool((batch.lengths == batch.K).all()):
            kernels.alike_means(fold, x, seen, wanted[:, 0], *given, at.triple, out)
        else:
            kernels.means(batch.lengths, fold, x, seen, wanted, *given, at.triple, out)
        return out
