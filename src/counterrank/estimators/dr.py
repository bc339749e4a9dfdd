"""DR: a reward model's mean plus the weighted error of the model, for any weights."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.contribution import ContributionPlan
from counterrank.estimators.names import weights_word
from counterrank.estimators.rewards import need_mean, prediction, reward_model
from counterrank.estimators.weights_by_name import Weigh, weights_for
from counterrank.models import RewardModel
from counterrank.moments import Moments

Floats = NDArray[np.float64]


class DoublyRobustPlan(ContributionPlan):
    """y = E_pi q + w (r - q)."""

    def __init__(
        self, name: str, workspace: Workspace, weigh: Weigh, model: RewardModel, *, key: Hashable
    ) -> None:
        super().__init__(name, workspace, key=("dr", key, id(model)))
        self.weigh = weigh
        self.model, self.details = model, {"regression": model.details}

    def contributions(self, view: View) -> tuple[Floats, Floats]:
        """Return the corrected means and the weights."""
        w, model = self.weigh(view), prediction(view, self.model)
        return np.asfortranarray(model.mean + w * (view.reward - model.q)), w


@dataclass(frozen=True, eq=False)
class DR(Estimator):
    """V_k = mean of E_pi q_k + w_k (r_k - q_k): unbiased with IPS weights, whatever the model; with
    weights of fewer items where the weights alone are and the model looks at no more items than
    they carry over (docs/auto.md).

    `weights`: "ips", "iips", "rips", "aips" (fitted tree), a mask or its name, or a number m for
    interaction order m (inside the mask `behavior`). Dudik et al. 2011; with AIPS weights it is the
    future work named in section 6 of Kiyohara et al. 2023.

    >>> import numpy as np, counterrank as cr
    >>> half = np.full((400, 2), 0.5)
    >>> log = cr.RankingLog(action=np.arange(800).reshape(400, 2) // 3 % 2, reward=np.ones((400, 2)), propensity=half,
    ...                     targets={"new": cr.Propensity("factored", half)}, dists={"propensity": half, "new": half})
    >>> DR(weights="iips").estimate(log, "new").value
    2.0
    """

    weights: Any = "ips"
    model: Any = "best"
    behavior: Any = "S"
    on_missing: str = "error"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the weights in it."""
        return f"dr-{weights_word(self.weights)}"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Fit the model and return corrected means."""
        need_mean(workspace, self.name)
        weigh, key = weights_for(
            workspace, self.weights, behavior=self.behavior, on_missing=self.on_missing
        )
        return DoublyRobustPlan(
            self.name, workspace, weigh, reward_model(workspace, self.model), key=key
        )
