"""Cascade-DR: the model corrects RIPS step by step down the ranking (Kiyohara et al. 2022)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import EstimatorError
from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.contribution import ContributionPlan
from counterrank.estimators.rewards import need_mean, reward_model
from counterrank.models import LinearModel
from counterrank.moments import Moments
from counterrank.ratios import ratios_of

Floats = NDArray[np.float64]


class CascadePlan(ContributionPlan):
    """y_k = E_pi q_k + sum_{j<k} w_{1:j} (q_k^(j) - q_k^(j-1)) + w_{1:k} (r_k - q_k^(k-1))."""

    def __init__(self, workspace: Workspace, model: LinearModel) -> None:
        super().__init__("cascade-dr", workspace, key=("cascade-dr", id(model)))
        self.model, self.details = model, {"regression": model.details}

    def contributions(self, view: View) -> tuple[Floats, Floats]:
        """Return the telescoped terms and the prefix weights."""
        # Each step down the ranking has mean zero given what stands above, so every term is
        # unbiased by itself.
        w = view.ratios.prefix()
        terms, before = self.model.cascade(view.batch, view.target, np.ascontiguousarray(w))
        error = np.where(view.batch.action >= 0, view.batch.reward - before, 0.0)
        return np.asfortranarray(terms + w * error), w


@dataclass(frozen=True, eq=False)
class CascadeDR(Estimator):
    """Unbiased when rewards depend on the own item and those above; less variance than RIPS and
    DR-RIPS.

    q_k^(j) = E_pi[q_k | a_1..a_j] is the model with items above j known and the rest averaged.
    Summed over positions this is eq. (6) of Kiyohara et al. 2022 with Q_j = sum_{k>=j} q_k^(j);
    kept apart by position here.
    """

    name: str = "cascade-dr"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Fit the closed-form model and return the telescoped terms."""
        need_mean(workspace, self.name)
        kind = ratios_of(workspace.first, workspace.target).kind
        if kind != "factored" or workspace.first.distribution(workspace.target) is None:
            raise EstimatorError(
                f"'{self.name}' averages its model item by item and needs independent positions "
                "with whole "
                f"distributions; these propensities are '{kind}'. Use dr-rips, which draws whole "
                "rankings"
            )
        model = reward_model(workspace, "linear")
        assert isinstance(model, LinearModel)
        return CascadePlan(workspace, model)
