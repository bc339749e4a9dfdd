"""DM: the mean of a reward model under the target. Little variance, and as biased as the model."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.contribution import ContributionPlan
from counterrank.estimators.rewards import need_mean, prediction, reward_model
from counterrank.models import RewardModel
from counterrank.moments import Moments

Floats = NDArray[np.float64]


class ModelPlan(ContributionPlan):
    """y = E_pi q."""

    def __init__(self, name: str, workspace: Workspace, model: RewardModel) -> None:
        super().__init__(name, workspace, key=("dm", id(model)))
        self.model, self.details = model, {"regression": model.details}
        self.flags = (
            "model-only: the interval shows how the model's means vary, not how wrong the model "
            "is; it is too short",
        )

    def contributions(self, view: View) -> tuple[Floats, Floats]:
        """Return E_pi q and weights of one."""
        mean = prediction(view, self.model).mean
        return mean, np.ones_like(mean)


@dataclass(frozen=True, eq=False)
class DM(Estimator):
    """V_k = mean of E_pi[q_k(x, a)] with a cross-fitted model q of E[r_k | x, a] (Beygelzimer &
    Langford 2009).

    `model`: see `rewards.reward_model`.

    >>> import numpy as np, counterrank as cr
    >>> half = np.full((400, 2), 0.5)
    >>> log = cr.RankingLog(action=np.arange(800).reshape(400, 2) // 3 % 2, reward=np.ones((400, 2)), propensity=half,
    ...                     targets={"new": cr.Propensity("factored", half)}, dists={"propensity": half, "new": half})
    >>> round(DM().estimate(log, "new").value, 2)
    2.0
    """

    model: Any = "best"
    name: str = "dm"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Fit the model and return its means."""
        need_mean(workspace, self.name)
        return ModelPlan(self.name, workspace, reward_model(workspace, self.model))
