"""Weights made smaller where they are large: clipped, shrunk, or replaced by a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError
from counterrank.common.messages import Message
from counterrank.common.records import Json
from counterrank.common.texts import in_percent
from counterrank.data.source import Source
from counterrank.estimators.base import Estimator, Fitted, Workspace
from counterrank.estimators.contribution import ContributionFit, Notes
from counterrank.estimators.doubly_robust import model_fit, need_mean, reward_model
from counterrank.estimators.masked import Weights, weights_for
from counterrank.estimators.names import Form, weights_word
from counterrank.estimators.weights.moments import Moments
from counterrank.models import RewardModel


def limit_for(source: Source, limit: float | None) -> float:
    """Return the limit of weights, sqrt(n) unless given (Ionides 2008).

    It removes at most E[w^2] / sqrt(n), which is of the order of the standard error.
    """
    if limit is None:
        n = source.n or source.reduce(lambda batch: batch.n, label="rows")
        return float(np.sqrt(n))
    if not limit > 0:
        raise ConfigError(f"the weight limit must be positive, got {limit}")
    return limit


#: What is made of weights, from weights and the limit. Those of interaction orders may be negative.
_TAME: dict[Form, Callable[[Floats, float], Floats]] = {
    Form.CLIPPED: lambda w, limit: np.clip(w, -limit, limit),
    Form.SHRUNK: lambda w, limit: limit**2 * w / (w**2 + limit**2),
    Form.SWITCHED: lambda w, limit: np.where(np.abs(w) <= limit, w, 0.0),
}


@dataclass(frozen=True, eq=False)
class Clipped(Estimator):
    """V_k = mean of f(w_k) r_k, f(w) = min(w, limit) (Ionides 2008; Strehl et al. 2010).

    `limit` defaults to sqrt(n).

    Parameters
    ----------
    weights
        "ips", "iips", "rips", "aips", a mask or its name, or a number for that interaction order.
    limit
        The largest weight that is used as it is; by default the root of the number of rankings.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> Clipped("iips", limit=1.2).estimate(log, [[1, .5], [.5, .5]]).value
    1.1
    """

    weights: Any = "ips"
    limit: float | None = None
    form: ClassVar[Form] = Form.CLIPPED

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the weights in it."""
        return f"{self.form}{weights_word(self.weights)}"

    def fit(self, workspace: Workspace) -> Fitted:
        """Return the fit of smaller weights."""
        return self._fit(workspace, None)

    def _fit(self, workspace: Workspace, model: RewardModel | None) -> Fitted:
        limit = limit_for(workspace.source, self.limit)
        weights, tame = weights_for(workspace, self.weights), _TAME[self.form]
        key = (self.name, weights.key, limit)
        tamed = Weights(lambda view: tame(weights.weigh(view), limit), key)

        def notes(state: Moments) -> Notes:
            # E[w] = 1: what is missing of it is lost.
            lost = 1.0 - state.mean("w")
            details: Json = {"limit": limit, "weight_lost": [float(share) for share in lost]}
            worst = in_percent(float(lost.max()))
            if model is not None:
                text = (
                    f"rankings of weight above {limit:.4g} are left to the reward model, {worst} of "
                    "the weight at the worst position; the bias there is the model's"
                )
                return (Message("biased", text),), details
            # Cauchy-Schwarz would need the rewards of the lost rankings. The root mean square of the
            # logged rewards replaces them, hence "roughly".
            typical = np.maximum(lost, 0.0) * np.sqrt(state.mean("rr"))
            bound = float(np.abs(state.alpha) @ typical)
            text = (
                f"weights are tamed above {limit:.4g}; {worst} of the weight is gone at the worst "
                f"position, a bias of roughly {bound:.2g} if the lost rankings earn like the logged "
                "ones"
            )
            return (Message("biased", text),), {**details, "bias_if_rewards_are_typical": bound}

        if model is None:
            return ContributionFit(
                self.name, workspace, key, self.traits, weigh=tamed.weigh, notes=notes
            )
        # Rows without weight are left to the model on purpose.
        return model_fit(
            self.name, workspace, self.traits, model, tamed, notes=notes, needs_weight=False
        )


@dataclass(frozen=True, eq=False)
class Shrunk(Clipped):
    """f(w) = lambda w / (w^2 + lambda) with lambda = limit^2 (Su et al. 2020, "optimistic" shrinkage).

    Parameters
    ----------
    weights
        "ips", "iips", "rips", "aips", a mask or its name, or a number for that interaction order.
    limit
        The largest weight that is used as it is; by default the root of the number of rankings.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> Shrunk("iips", limit=2.0).estimate(log, [[1, .5], [.5, .5]]).value
    0.9
    """

    form: ClassVar[Form] = Form.SHRUNK


@dataclass(frozen=True, eq=False)
class Switch(Clipped):
    """V_k = mean of E_pi q_k + w_k 1{w_k <= limit} (r_k - q_k); `limit` defaults to sqrt(n) (Su et al. 2019).

    Parameters
    ----------
    weights
        "ips", "iips", "rips", "aips", a mask or its name, or a number for that interaction order.
    limit
        The largest weight that is used as it is; by default the root of the number of rankings.
    model
        "best", chosen by cross-validation; the name of a model; or a fitted `RewardModel`.

    Examples
    --------
    >>> import numpy as np, counterrank as cr
    >>> half = np.full((400, 2), 0.5)
    >>> log = cr.RankingLog(action=np.arange(800).reshape(400, 2) // 3 % 2, reward=np.ones((400, 2)), propensity=half,
    ...                     targets={"new": cr.Propensity("factored", half)}, dists={"propensity": half, "new": half})
    >>> round(Switch("iips").estimate(log, "new").value, 2)
    2.0
    """

    model: Any = "best"
    form: ClassVar[Form] = Form.SWITCHED

    def fit(self, workspace: Workspace) -> Fitted:
        """Fit the model and return switched corrections."""
        need_mean(workspace, self.name)
        return self._fit(workspace, reward_model(workspace, self.model))
