"""Pseudo-inverse: for rewards of the whole ranking that add up over positions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import EstimatorError
from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.masked import WeightPlan
from counterrank.moments import Moments
from counterrank.ratios import ratios_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PseudoInverse(Estimator):
    """V = mean of (1 + sum_l (rho_l - 1)) R with R the reward of the whole ranking.

    Unbiased when E[R|x,a] = sum_l f_l(x, a_l). Swaminathan et al. 2017 weigh by q_pi' Gamma^+ 1_a
    with Gamma the second moment of the slot indicators under the logger; for independent positions
    that is this sum. A total reward may stand at any one position, the others zero: all positions
    get the same weight.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> PseudoInverse().estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    aggregate: str = "mean"
    name: str = "pi"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return the summed weights."""
        kind = ratios_of(workspace.first, workspace.target).kind
        if kind != "factored":
            raise EstimatorError(
                f"'pi' needs independent positions ('factored' propensities); these are '{kind}'. "
                "For dependent positions its weights need the pairwise probabilities of all items; "
                "use ips or rips"
            )
        return WeightPlan(self.name, workspace, _weigh, key=("pi",), aggregate=self.aggregate)


def _weigh(view: View) -> Floats:
    rho = view.ratios.rho
    # Can be negative: it is a difference of expectations, no probability ratio.
    weight = 1.0 + (rho - 1.0).sum(axis=1)
    return np.asfortranarray(np.broadcast_to(weight[:, None], rho.shape))
