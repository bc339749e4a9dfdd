"""Cascade-DR: a model of what stands at and above each position corrects RIPS (Kiyohara et al.
2022).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import EstimatorError
from counterrank.estimators.auto.nuisances import fit_drawn
from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.contribution import ContributionPlan
from counterrank.estimators.rewards import need_mean, reward_model
from counterrank.models import LinearModel, Prediction, Variant
from counterrank.moments import Moments
from counterrank.ratios import ratios_of

Floats = NDArray[np.float64]


class CascadePlan(ContributionPlan):
    """y_k = E_pi q_k + w_{1:k} (r_k - q_k), q_k a function of x and a_1..a_k."""

    def __init__(
        self, workspace: Workspace, model: Callable[[View], Prediction], details: dict[str, Any]
    ) -> None:
        super().__init__("cascade-dr", workspace, key=("cascade-dr", id(model)))
        self.model, self.details = model, {"regression": details}

    def contributions(self, view: View) -> tuple[Floats, Floats]:
        """Return the corrected terms and the prefix weights."""
        w, found = view.ratios.prefix(), self.model(view)
        error = np.where(view.batch.action >= 0, view.batch.reward - found.q, 0.0)
        return np.asfortranarray(found.mean + w * error), w


@dataclass(frozen=True, eq=False)
class CascadeDR(Estimator):
    """Unbiased when rewards depend on the own item and those above, whatever the model; less
    variance than RIPS.

    Kiyohara et al. sum w_{1:k} (r_k - Q_k) + w_{1:k-1} E_pi Q_k with Q_k what is expected from
    position k on. Where Q_k = q_k + E_pi Q_k+1, as it is for any model of rewards by position, this
    telescopes to E_pi q_k + w_{1:k} (r_k - q_k): `dr-rips`, with a model that does not look below.
    """

    name: str = "cascade-dr"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Fit a model that looks up only: closed form where positions are independent, else of
        clicks given what was clicked above.
        """
        need_mean(workspace, self.name)
        ratios = ratios_of(workspace.first, workspace.target)
        if "prefix" not in ratios.supports:
            raise EstimatorError(
                f"'{self.name}' weighs by the items above and needs prefix probabilities; these "
                f"propensities are '{ratios.kind}'. Use dr-iips or dr-ips"
            )
        if ratios.kind == "factored" and workspace.first.distribution(workspace.target) is not None:
            linear = reward_model(workspace, "linear")
            assert isinstance(linear, LinearModel)
            return CascadePlan(
                workspace, lambda view: linear.cascade(view.batch, view.target), linear.details
            )
        drawn = workspace.once(
            ("click models above", workspace.target), lambda: fit_drawn(workspace, ABOVE)
        )

        def predicted(view: View) -> Prediction:
            look = drawn.outlook(view)
            return Prediction(look.q, look.mean)

        return CascadePlan(workspace, predicted, drawn.details)


#: Models that do not know the items below.
ABOVE = (Variant(), Variant(extra=True))
