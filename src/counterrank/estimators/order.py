"""Interaction order: unbiased when each reward is a sum of effects of few items at a time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterrank.behavior import as_mask
from counterrank.errors import ConfigError
from counterrank.estimators.base import Estimator, Plan, Workspace
from counterrank.estimators.masked import WeightPlan
from counterrank.moments import Moments


@dataclass(frozen=True)
class OrderIPS(Estimator):
    """w_k(c, m) = rho_k sum over T in Phi_k(c) without k, |T| <= m-1, of prod_{l in T} (rho_l - 1).

    Expands prod_l (1 + (rho_l - 1)) and keeps interactions of at most m items. Unbiased when E[r_k|x,a] is a sum
    of functions of a_k and at most m-1 other items inside the mask: the dropped terms have mean zero because
    E[rho_l - 1] = 0. m = 1 is IIPS, m = K is IPS. Positions must be independent given the context; weights may be
    negative.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> cr.OrderIPS(order=2).estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    order: int = 2
    behavior: "str | ArrayLike" = "S"
    aggregate: str = "mean"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the order in it."""
        return f"order-{self.order}"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return order-m weights inside the mask."""
        if self.order < 1:
            raise ConfigError(f"the interaction order must be 1 or more, got {self.order}")
        length = workspace.first.K
        mask = as_mask(self.behavior, length)
        order = min(self.order, length)
        key = ("order", order, np.packbits(mask).tobytes())
        return WeightPlan(
            self.name,
            workspace,
            lambda view: view.ratios.ordered(mask, order),
            key=key,
            aggregate=self.aggregate,
        )
