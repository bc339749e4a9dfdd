"""INTERPOL: weights between the item-position and the position-based model (Buchholz et al. 2022)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import ConfigError, EstimatorError
from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.contribution import ContributionPlan
from counterrank.estimators.examination import examined
from counterrank.moments import Moments
from counterrank.policies import Policy, position_matrix

Floats = NDArray[np.float64]


class InterpolPlan(ContributionPlan):
    """y_l = sum over k in l's window of r_k theta_l P(a_k at l) / sum over j in the window of
    theta_j P0(a_k at j).
    """

    def __init__(self, name: str, workspace: Workspace, curve: Floats, width: int) -> None:
        super().__init__(name, workspace, key=("interpol", width, curve.tobytes()))
        self.curve, self.width = curve, width
        self.details = {"position_curve": curve.tolist(), "window": width}

    def contributions(self, view: View) -> tuple[Floats, Floats]:
        """Return contributions and weights."""
        batch = view.batch
        logger, target = batch.propensity, batch.target(self.workspace.target)
        assert isinstance(logger, Policy) and isinstance(target, Policy)
        # Windows are fixed blocks of positions, not a sliding reach: within one, an item's click is
        # credited to every position it could have stood at.
        window = np.arange(batch.K) // self.width
        together = (
            window[:, None] == window
        ) * self.curve  # (k, l): theta_l where l shares k's window
        above = position_matrix(target, batch.action) * together
        below = (position_matrix(logger, batch.action) * together).sum(axis=2)
        w = np.divide(
            above, below[:, :, None], out=np.zeros_like(above), where=below[:, :, None] > 0
        )  # (n, k, l)
        return np.einsum("nk,nkl->nl", batch.reward, w), w.sum(axis=1)


@dataclass(frozen=True, eq=False)
class Interpolated(Estimator):
    """Within a window of `width` positions examination times relevance, across windows nothing is
    assumed.

    Width 1 is IIPS; width K is the position-based model of Li et al. (2018), with the least
    variance and the strongest assumption. `position_curve` as for `PositionBased`. Both policies
    must give marginals.
    """

    width: int = 2
    position_curve: Any = "estimate"
    name: str = "interpol"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return the weights, with a curve that is given or fitted."""
        first = workspace.first
        if self.width < 1:
            raise ConfigError(f"a window has at least one position, got width {self.width}")
        for policy, whose in (
            (first.propensity, "the logger"),
            (first.target(workspace.target), workspace.target),
        ):
            if not isinstance(policy, Policy) or "position" not in policy.capabilities:
                raise EstimatorError(
                    f"'{self.name}' needs the chance of each shown item at other positions, which "
                    f"{whose} cannot give; give scores and --logger, --policy, or whole policies"
                )
        if self.width == 1:
            return InterpolPlan(self.name, workspace, np.ones(first.K), 1)
        curve = examined(workspace, self.position_curve).curve
        return InterpolPlan(self.name, workspace, curve, self.width)
