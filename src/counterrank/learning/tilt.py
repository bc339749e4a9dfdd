"""The Plackett-Luce path: today's scores plus t times the learned score, drawn item by item; or the
learned score alone, where today's scores are not known.

Weights need the probability of the logged ranking and no sampler of the logger. They have no upper
end, so there is no control variate: (w - 1) r is never below the largest r, taken negative, which
is all that the bound asks for. It lies further away than that of best of m.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import LogError
from counterrank.learning.policy import LearnedPolicy
from counterrank.learning.side import Rewards
from counterrank.log import RankingLog
from counterrank.policies import Policy
from counterrank.propensity import Propensity
from counterrank.ratios import ratios_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: How much of the learned score is added: a click's log odds count once at 1.
STRENGTHS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True, eq=False)
class Tilted:
    """Rows of one side of the split, the list value of what they showed, and policies cut by the
    folds that the score was not fitted to.
    """

    log: RankingLog
    rewards: Rewards
    own: Floats
    policies: tuple[tuple[NDArray[np.bool_], LearnedPolicy], ...]
    _known: dict[float, Floats] = field(default_factory=dict)

    def weight(self, strength: float) -> Floats:
        """Return weights (n,) against the logger, each at least 0."""
        if strength not in self._known:
            self._known[strength] = self._weight(strength)
        return self._known[strength]

    def _weight(self, strength: float) -> Floats:
        out = np.empty(self.log.n)
        for rows, policy in self.policies:
            part = self.log.where(rows)
            target = policy.plackett_luce(part, strength)
            out[rows] = ratios_of(part.with_targets({"learned": target}), "learned").full()[:, 0]
        return out

    def lifts(self, strength: float, cap: float) -> Floats:
        """Return unbiased paired lifts (n,) over the logger; too small where it never shows what
        the policy would.
        """
        gain: Floats = (self.weight(strength) - 1.0) * self.rewards.totals
        return gain

    def expected(self, strength: float) -> float:
        """Return the lift if rewards are what the model expects of each page."""
        return float(((self.weight(strength) - 1.0) * self.own).mean())

    def lowest(self, strength: float, cap: float) -> float:
        """Return a number below which no lift can lie: w = 0, r = most."""
        return -self.rewards.most

    def today(self, n: int) -> float:
        """Return the mean list value of the logger on the first n rows."""
        return float(self.own[:n].mean())


def tilted(
    log: RankingLog, rewards: Rewards, own: Floats, policy: LearnedPolicy, fold: "int | Ints"
) -> Tilted:
    """Return a side whose rows are weighed with scores that were not fitted to them."""
    if isinstance(fold, int):
        return Tilted(log, rewards, own, ((np.ones(log.n, dtype=bool), policy),))
    folds = tuple(
        (fold == f, replace(policy, scorer=replace(policy.scorer, fold=int(f))))
        for f in np.unique(fold)
    )
    return Tilted(log, rewards, own, folds)


def check_joint(log: RankingLog) -> None:
    """Raise where the log does not say how probable each whole ranking was."""
    given = log.propensity
    supports = given.supports if isinstance(given, Propensity) else frozenset({"joint"})
    if isinstance(given, Policy) and not {"prefix", "joint"} & given.capabilities:
        supports = frozenset()
    if "joint" not in supports:
        raise LogError(
            "the Plackett-Luce path weighs whole rankings, and this log has no probability of "
            "them: log that of each item given those above (kind 'prefix'), or one number a "
            "ranking (kind 'joint')"
        )
