"""SWITCH: weights where they are small, the reward model alone where they are not."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.clip import rows_of
from counterrank.estimators.dr import DoublyRobustPlan
from counterrank.estimators.estimate import Estimate
from counterrank.estimators.names import weights_word
from counterrank.estimators.rewards import need_mean, reward_model
from counterrank.estimators.weights_by_name import weights_for
from counterrank.moments import Moments


class SwitchPlan(DoublyRobustPlan):
    """y = E_pi q + w 1{|w| <= limit} (r - q)."""

    limit: float = np.inf
    #: Leaving rows to the model is what was asked for.
    needs_weight = False

    def finish(self, state: Moments) -> Estimate:
        """Return the estimate and the share of weight left to the model."""
        lost = float(np.max(1.0 - state.mean("w")))
        self.flags = (
            f"biased: rankings of weight above {self.limit:.4g} are left to the reward model, "
            f"{lost:.1%} of the weight at the worst position; the bias there is the model's",
        )
        estimate = super().finish(state)
        estimate.details["limit"] = self.limit
        estimate.details["weight_lost"] = [float(share) for share in 1.0 - state.mean("w")]
        return estimate


@dataclass(frozen=True, eq=False)
class Switch(Estimator):
    """V_k = mean of E_pi q_k + w_k 1{w_k <= limit} (r_k - q_k); `limit` defaults to sqrt(n) (Su et
    al. 2019).
    """

    weights: Any = "ips"
    limit: float | None = None
    model: Any = "best"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the weights in it."""
        return f"switch-{weights_word(self.weights)}"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Fit the model and return switched corrections."""
        need_mean(workspace, self.name)
        limit = float(np.sqrt(rows_of(workspace.source))) if self.limit is None else self.limit
        weigh, key = weights_for(workspace, self.weights)

        def switched(view: View) -> Any:
            w = weigh(view)
            return np.where(np.abs(w) <= limit, w, 0.0)

        model = reward_model(workspace, self.model)
        plan = SwitchPlan(self.name, workspace, switched, model, key=("switch", key, limit))
        plan.limit = limit
        return plan
