"""Weights of other events than the shown items: groups of items, and sums over single positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Floats, Ints
from counterrank.behavior import standard
from counterrank.data.log import LOGGING
from counterrank.errors import ConfigError, EstimatorError
from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.masked import WeightPlan, mask_called
from counterrank.messages import Message
from counterrank.models import has_distribution, whole_distribution
from counterrank.weights.moments import Moments
from counterrank.weights.ratios import Ratios, ratios_of


@dataclass(frozen=True, eq=False)
class Marginalised(Estimator):
    """Weights with rho_k = pi(g(a_k)|x) / pi0(g(a_k)|x), g(a) the group of action a (Saito & Joachims 2022).

    Unbiased when rewards depend on items through their groups alone, with far smaller weights when
    A is large; for rankings this is future work named by Kiyohara et al. 2023. `groups` (A,) are
    labels, or an embedding (A, e) whose equal rows are one group. `weights`: "iips", "rips", "ips",
    a mask, or an interaction order.

    >>> import numpy as np, counterrank as cr
    >>> even = np.full((2, 4), 0.25)
    >>> log = cr.RankingLog(action=[[0, 1], [2, 3]], reward=[[1, 0], [0, 1]], propensity=even[:, :2],
    ...     targets={"new": cr.Propensity("factored", [[.4, .1], [.4, .1]])},
    ...     dists={"propensity": even, "new": [[.4, .1, .4, .1]] * 2})
    >>> Marginalised(groups=["a", "a", "b", "b"]).estimate(log, "new").value
    1.0
    """

    groups: ArrayLike
    weights: Any = "iips"
    aggregate: str = "mean"
    name: str = "mips"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return weights of the groups."""
        first, target = workspace.first, workspace.target
        if not (has_distribution(first, LOGGING) and has_distribution(first, target)):
            raise EstimatorError(
                "'mips' sums probabilities over groups and needs whole distributions; add "
                f"'propensity_dist' and '{target}_dist' columns or give both policies"
            )
        group = group_index(self.groups, first.n_actions)
        weights = self.weights
        key = (
            "mips",
            group.tobytes(),
            weights if isinstance(weights, (int, str)) else np.asarray(weights).tobytes(),
        )
        flag = (
            Message(
                "groups",
                "weights compare groups of actions; unbiased only if rewards depend on items through "
                "their groups",
            ),
        )
        return WeightPlan(
            self.name,
            workspace,
            lambda view: _weigh(view, group, weights),
            key=key,
            aggregate=self.aggregate,
            flags=flag,
        )


def group_index(groups: ArrayLike, A: int) -> Ints:
    """Return group numbers (A,) from labels (A,) or embeddings (A, e).

    >>> group_index([[1, 0], [0, 1], [1, 0]], 3).tolist()
    [1, 0, 1]
    """
    array = np.asarray(groups)
    if array.shape[:1] != (A,):
        raise ConfigError(
            f"groups have shape {array.shape}, but there are {A} actions: give one label per action"
        )
    _, index = np.unique(array, axis=0, return_inverse=True)
    return np.asarray(index, dtype=np.int64).reshape(-1)


def group_ratios(view: View, group: Ints) -> Ratios:
    """Return the ratios of group probabilities on the view's rows."""
    batch = view.batch
    chosen = group[np.maximum(batch.action, 0)]  # (n, K)
    # One product with a 0/1 matrix sums every group's probability at once.
    same = (group[:, None] == np.arange(group.max() + 1)).astype(np.float64)  # (A, G)
    sums = []
    for name in (view.target, LOGGING):
        table = whole_distribution(batch, name)
        assert table is not None
        shared = np.broadcast_to(table @ same, (*chosen.shape, same.shape[1]))
        sums.append(np.take_along_axis(shared, chosen[:, :, None], axis=2)[:, :, 0])
    rho = np.where(batch.action >= 0, sums[0] / np.where(sums[1] > 0, sums[1], 1.0), 1.0)
    return Ratios("factored", np.asfortranarray(rho), batch, view.ratios.target)


def _weigh(view: View, group: Ints, weights: Any) -> Floats:
    ratios, K = group_ratios(view, group), view.batch.K
    if isinstance(weights, int):
        return ratios.ordered(standard(K), min(weights, K))
    return ratios.masked(mask_called(weights, K))


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
        return WeightPlan(self.name, workspace, _added_up, key=("pi",), aggregate=self.aggregate)


def _added_up(view: View) -> Floats:
    rho = view.ratios.rho
    # The weight is not a ratio of probabilities and may be negative.
    weight = 1.0 + (rho - 1.0).sum(axis=1)
    return np.asfortranarray(np.broadcast_to(weight[:, None], rho.shape))
