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
from counterrank.estimators.contribution import ContributionPlan
from counterrank.estimators.doubly_robust import DoublyRobustPlan, need_mean, reward_model
from counterrank.estimators.masked import Weigh, weights_for
from counterrank.estimators.names import weights_word
from counterrank.messages import Message
from counterrank.records import Json
from counterrank.texts import in_percent
from counterrank.weights.moments import Moments


@dataclass(frozen=True, slots=True)
class _Rows:
    count: int

    def __add__(self, other: _Rows) -> _Rows:
        return _Rows(self.count + other.count)


def rows_of(source: Source) -> int:
    """Return the number of rankings, counted in a pass where it is not known."""
    return source.n or source.reduce(lambda batch: _Rows(batch.n), label="rows").count


class TamedPlan(ContributionPlan):
    """y = f(w) r with f(w) <= w; the weight that f removes is reported."""

    def __init__(
        self, name: str, workspace: Workspace, weigh: Weigh, *, key: Any, limit: float
    ) -> None:
        super().__init__(name, workspace, key=key)
        self.weigh = weigh
        self.limit = limit

    def contributions(self, view: View) -> tuple[Floats, Floats]:
        """Return tamed weights times rewards."""
        w = self.weigh(view)
        return w * view.reward, w

    def notes(self, state: Moments) -> tuple[tuple[str, ...], Json]:
        """Return the share of the weight that is lost, 1 - mean f(w), since E[w] = 1."""
        lost = 1.0 - state.mean("w")
        # Cauchy-Schwarz would need the rewards of the lost rankings. The root mean square of the logged
        # rewards replaces them, hence "roughly".
        bound = float(np.abs(state.alpha) @ (np.maximum(lost, 0.0) * np.sqrt(state.mean("rr"))))
        biased = Message(
            "biased",
            f"weights are tamed above {self.limit:.4g}; {in_percent(float(lost.max()))} of the "
            f"weight is gone at the worst position, a bias of roughly {bound:.2g} if the lost "
            "rankings earn like the logged ones",
        )
        shares = {"limit": self.limit, "weight_lost": [float(share) for share in lost]}
        return (biased,), {**self.details, **shares, "bias_if_rewards_are_typical": bound}


@dataclass(frozen=True, eq=False)
class Tamed(Estimator):
    """V_k = mean of f(w_k) r_k; `limit` defaults to sqrt(n) (Ionides 2008)."""

    weights: Any = "ips"
    limit: float | None = None

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return tamed weights."""
        if self.limit is not None and not self.limit > 0:
            raise ConfigError(f"the weight limit must be positive, got {self.limit}")
        # A limit of sqrt(n) removes at most E[w^2] / sqrt(n), which is of the order of the standard error.
        limit = float(np.sqrt(rows_of(workspace.source))) if self.limit is None else self.limit
        weigh, key = weights_for(workspace, self.weights)
        tame = self.tame(limit)
        return TamedPlan(
            self.name,
            workspace,
            lambda view: tame(weigh(view)),
            key=(self.name, key, limit),
            limit=limit,
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


class SwitchPlan(DoublyRobustPlan):
    """y = E_pi q + w 1{|w| <= limit} (r - q)."""

    limit: float = np.inf
    #: Rows without weight are left to the model on purpose.
    needs_weight = False

    def notes(self, state: Moments) -> tuple[tuple[str, ...], Json]:
        """Return the share of weight left to the model."""
        lost = 1.0 - state.mean("w")
        biased = Message(
            "biased",
            f"rankings of weight above {self.limit:.4g} are left to the reward model, "
            f"{in_percent(float(lost.max()))} of the weight at the worst position; the bias there is "
            "the model's",
        )
        shares = {"limit": self.limit, "weight_lost": [float(share) for share in lost]}
        return (biased,), {**self.details, **shares}


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
        limit = float(np.sqrt(rows_of(workspace.source))) if self.limit is None else self.limit
        weigh, key = weights_for(workspace, self.weights)

        def switched(view: View) -> Any:
            w = weigh(view)
            return np.where(np.abs(w) <= limit, w, 0.0)

        model = reward_model(workspace, self.model)
        plan = SwitchPlan(self.name, workspace, switched, model, key=("switch", key, limit))
        plan.limit = limit
        return plan
