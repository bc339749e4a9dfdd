"""DR: a reward model's mean plus the weighted error of the model, for any weights."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.masks import as_mask, cascade, independent, standard
from counterrank.errors import ConfigError, EstimatorError
from counterrank.estimators.aips import AIPS
from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.contribution import ContributionPlan
from counterrank.estimators.estimate import Estimate
from counterrank.estimators.masked import supported_mask, weights_of_mask
from counterrank.estimators.rewards import need_mean, prediction, reward_model
from counterrank.moments import Moments
from counterrank.ratios import ratios_of
from counterrank.regression.base import RewardModel

Floats = NDArray[np.float64]
Weigh = Callable[[View], Floats]


class DoublyRobustPlan(ContributionPlan):
    """y = E_pi q + w (r - q)."""

    def __init__(self, name: str, workspace: Workspace, weigh: Weigh, model: RewardModel, *, key: Hashable) -> None:
        super().__init__(name, workspace, key=("dr", key, id(model)))
        self.weigh = weigh
        self.model = model

    def contributions(self, view: View) -> tuple[Floats, Floats]:
        """Return the corrected means and the weights."""
        w, model = self.weigh(view), prediction(view, self.model)
        return np.asfortranarray(model.mean + w * (view.reward - model.q)), w

    def finish(self, state: Moments) -> Estimate:
        """Return the estimate with what was fitted in its details."""
        estimate = super().finish(state)
        estimate.details["regression"] = self.model.details
        return estimate


@dataclass(frozen=True, eq=False)
class DR(Estimator):
    """V_k = mean of E_pi q_k + w_k (r_k - q_k): unbiased whenever the weights alone are, whatever the model.

    `weights`: "ips", "iips", "rips", "aips" (fitted tree), a mask or its name, or a number m for interaction order m
    (inside the mask `behavior`). Dudik et al. 2011; with AIPS weights it is the future work named in section 6 of
    Kiyohara et al. 2023.

    >>> import numpy as np, counterrank as cr
    >>> half = np.full((400, 2), 0.5)
    >>> log = cr.RankingLog(action=np.arange(800).reshape(400, 2) // 3 % 2, reward=np.ones((400, 2)), propensity=half,
    ...                     targets={"new": cr.Propensity("factored", half)}, dists={"propensity": half, "new": half})
    >>> DR(weights="iips").estimate(log, "new").value
    2.0
    """

    weights: Any = "ips"
    model: Any = "ridge"
    behavior: Any = "S"
    on_missing: str = "error"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the weights in it."""
        if isinstance(self.weights, int):
            return f"dr-order-{self.weights}"
        return f"dr-{self.weights}" if isinstance(self.weights, str) else "dr"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Fit the model and return corrected means."""
        need_mean(workspace, self.name)
        weigh, key = self._weights(workspace)
        return DoublyRobustPlan(self.name, workspace, weigh, reward_model(workspace, self.model), key=key)

    def _weights(self, workspace: Workspace) -> tuple[Weigh, Hashable]:
        length = workspace.first.K
        if isinstance(self.weights, int):
            return self._ordered(workspace, length)
        if isinstance(self.weights, str) and self.weights == "aips":
            return AIPS(behavior=self.behavior if self.behavior != "S" else "fit")._weights(workspace)
        fixed = {"ips": standard, "iips": independent, "rips": cascade}
        named = isinstance(self.weights, str) and self.weights in fixed
        wanted = fixed[self.weights](length) if named else as_mask(self.weights, length)
        mask = supported_mask(ratios_of(workspace.first, workspace.target), wanted, self.on_missing)
        return weights_of_mask(mask), ("mask", mask.tobytes())

    def _ordered(self, workspace: Workspace, length: int) -> tuple[Weigh, Hashable]:
        if self.weights < 1:
            raise ConfigError(f"the interaction order must be 1 or more, got {self.weights}")
        kind = ratios_of(workspace.first, workspace.target).kind
        if kind != "factored":
            raise EstimatorError(
                f"'{self.name}' needs independent positions ('factored' propensities); these are '{kind}', for which "
                "the truncated product is biased; use dr-ips, dr-rips or auto"
            )
        mask, order = as_mask(self.behavior, length), min(self.weights, length)
        return lambda view: view.ratios.ordered(mask, order), ("order", order, np.packbits(mask).tobytes())
