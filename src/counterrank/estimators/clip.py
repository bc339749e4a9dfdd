"""Weights made smaller where they are large: clipped, shrunk, or replaced by a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.arrays import Floats
from counterrank.data.source import Source
from counterrank.errors import ConfigError
from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.contribution import ContributionPlan, Notes
from counterrank.estimators.doubly_robust import corrected_plan, need_mean, reward_model
from counterrank.estimators.masked import weights_for
from counterrank.estimators.names import weights_word
from counterrank.messages import Message
from counterrank.records import Json
from counterrank.texts import in_percent
from counterrank.weights.moments import Moments


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


def lost_weight(state: Moments, limit: float) -> tuple[str, Json]:
    """Return how much of the weight is lost at the worst position, and details; E[w] = 1."""
    lost = 1.0 - state.mean("w")
    details = {"limit": limit, "weight_lost": [float(share) for share in lost]}
    return in_percent(float(lost.max())), details


@dataclass(frozen=True, eq=False)
class Tamed(Estimator):
    """V_k = mean of f(w_k) r_k; `limit` defaults to sqrt(n) (Ionides 2008)."""

    weights: Any = "ips"
    limit: float | None = None

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return tamed weights."""
        limit = limit_for(workspace.source, self.limit)
        weigh, key = weights_for(workspace, self.weights)
        tame = self.tame(limit)

        def contributions(view: View) -> tuple[Floats, Floats]:
            w = tame(weigh(view))
            return w * view.reward, w

        def notes(state: Moments) -> Notes:
            gone, details = lost_weight(state, limit)
            # Cauchy-Schwarz would need the rewards of the lost rankings. The root mean square of the
            # logged rewards replaces them, hence "roughly".
            typical = np.maximum(1.0 - state.mean("w"), 0.0) * np.sqrt(state.mean("rr"))
            bound = float(np.abs(state.alpha) @ typical)
            biased = Message(
                "biased",
                f"weights are tamed above {limit:.4g}; {gone} of the weight is gone at the worst "
                f"position, a bias of roughly {bound:.2g} if the lost rankings earn like the logged "
                "ones",
            )
            return (biased,), {**details, "bias_if_rewards_are_typical": bound}

        return ContributionPlan(
            self.name, workspace, contributions, (self.name, key, limit), notes=notes
        )

    def tame(self, limit: float) -> Callable[[Floats], Floats]:
        """Return the function from weights to smaller weights."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Clipped(Tamed):
    """f(w) = min(w, limit) (Ionides 2008; Strehl et al. 2010).

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> Clipped("iips", limit=1.2).estimate(log, [[1, .5], [.5, .5]]).value
    1.1
    """

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the weights in it."""
        return f"clip-{weights_word(self.weights)}"

    def tame(self, limit: float) -> Callable[[Floats], Floats]:
        """Cut weights above the limit (and, for interaction orders, below its negative)."""
        return lambda w: np.clip(w, -limit, limit)


@dataclass(frozen=True, eq=False)
class Shrunk(Tamed):
    """f(w) = lambda w / (w^2 + lambda) with lambda = limit^2 (Su et al. 2020, "optimistic" shrinkage).

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> Shrunk("iips", limit=2.0).estimate(log, [[1, .5], [.5, .5]]).value
    0.9
    """

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the weights in it."""
        return f"shrink-{weights_word(self.weights)}"

    def tame(self, limit: float) -> Callable[[Floats], Floats]:
        """Shrink weights, the large ones most."""
        return lambda w: limit**2 * w / (w**2 + limit**2)


@dataclass(frozen=True, eq=False)
class Switch(Estimator):
    """V_k = mean of E_pi q_k + w_k 1{w_k <= limit} (r_k - q_k); `limit` defaults to sqrt(n) (Su et al. 2019)."""

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
        limit = limit_for(workspace.source, self.limit)
        weigh, key = weights_for(workspace, self.weights)

        def switched(view: View) -> Floats:
            w = weigh(view)
            return np.where(np.abs(w) <= limit, w, 0.0)

        def notes(state: Moments) -> Notes:
            gone, details = lost_weight(state, limit)
            biased = Message(
                "biased",
                f"rankings of weight above {limit:.4g} are left to the reward model, {gone} of the "
                "weight at the worst position; the bias there is the model's",
            )
            return (biased,), details

        # Rows without weight are left to the model on purpose.
        return corrected_plan(
            self.name, workspace, switched, reward_model(workspace, self.model), ("switch", key, limit),
            notes=notes, needs_weight=False,
        )  # fmt: skip
