"""Rows of one side of the split under best of m: unbiased lifts, and how low one can be."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.learning.drawn import Drawn
from counterrank.log import RankingLog

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rewards:
    """Totals of rankings (n,), moved so that none is below zero, and the largest they can be."""

    totals: Floats
    most: float
    shift: float


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Rows of one side of the split, and what draws of the logger say about them under a model."""

    log: RankingLog
    rewards: Rewards
    drawn: Drawn

    def lifts(self, m: int, cap: float) -> Floats:
        """Return unbiased paired lifts (n,) of best-of-m over the logger, with min(q, cap) as
        control variate.

        (w - 1)(r - c) + E_m c - E_1 c: the control has mean zero whatever q is.
        """
        w = self.drawn.weight(m)
        control = np.minimum(self.drawn.own, cap)
        gain: Floats = (
            (w - 1.0) * (self.rewards.totals - control)
            + self.drawn.mean(m, cap)
            - self.drawn.mean(1, cap)
        )
        return gain

    def expected(self, m: int) -> float:
        """Return the lift that the model expects of best-of-m."""
        return float((self.drawn.mean(m, np.inf) - self.drawn.mean(1, np.inf)).mean())

    def weight(self, m: int) -> Floats:
        """Return weights (n,) of best-of-m against the logger, each in [0, m]."""
        return self.drawn.weight(m)

    def today(self, n: int) -> float:
        """Return the mean list value of the logger on the first n rows."""
        return float(self.drawn.mean(1, np.inf)[:n].mean())

    def lowest(self, m: int, cap: float) -> float:
        """Return a number below which no lift can lie: w = m, r = 0, c = cap, or w = 0, r = most, c
        = 0.
        """
        return -max((m - 1) * cap, self.rewards.most)
