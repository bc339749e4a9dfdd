"""Interaction order: unbiased when each reward is a sum of effects of few items at a time."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from counterrank.estimators.base import Estimator, Plan, Workspace
from counterrank.estimators.masked import WeightPlan
from counterrank.estimators.names import AGGREGATE_FORMS
from counterrank.estimators.weights_by_name import weights_for
from counterrank.moments import Moments


@dataclass(frozen=True)
class OrderIPS(Estimator):
    """w_k(c, m) = rho_k sum over T in Phi_k(c) without k, |T| <= m-1, of prod_{l in T} (rho_l - 1).

    Expands prod_l (1 + (rho_l - 1)) and keeps interactions of at most m items. Unbiased when
    E[r_k|x,a] is a sum of functions of a_k and at most m-1 other items inside the mask: the dropped
    terms have mean zero because E[rho_l - 1] = 0. m = 1 is IIPS, m = K is IPS. Positions must be
    independent given the context; weights may be negative.

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
        """The name with the aggregate and the order in it."""
        return f"{AGGREGATE_FORMS[self.aggregate]}order-{self.order}"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return order-m weights inside the mask."""
        weigh, key = weights_for(workspace, self.order, behavior=self.behavior)
        return WeightPlan(self.name, workspace, weigh, key=key, aggregate=self.aggregate)
