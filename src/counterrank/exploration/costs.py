"""The loss of exploration against production, with an interval.

For a randomised log, the loss of a policy is minus its lift as estimated by `auto`, including the
allowance for bias. For a deterministic log, or if the policy shows what the log hardly ever does, the
loss is predicted by the reward models, and the interval reaches from no change to twice the predicted
one. The loss of a mixture is the sum of its components' losses; the ends of intervals add up, as if
all errors had the same sign.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import CounterrankError
from counterrank.data.log import RankingLog
from counterrank.estimators import Auto
from counterrank.exploration import settings
from counterrank.exploration.predictions import PageRewards
from counterrank.exploration.result import Cost
from counterrank.policies import PolicySpec, Scored
from counterrank.statistics import bias_aware_half, fold_deviations

NAME = "exploration"


@dataclass(eq=False)
class Costs:
    """Losses of policies over today's scores, relative to the mean reward of production."""

    log: RankingLog
    logger: Scored
    models: PageRewards
    level: float
    seed: int
    _costs_by_spec: dict[str, Cost] = field(default_factory=dict)

    def __post_init__(self) -> None:
        alpha = self.log.position_weights
        self.value = float((self.log.reward @ alpha).mean())
        self.random = not self.logger.deterministic
        self.today = self._expected(self.logger.spec)

    def loss(self, spec: PolicySpec) -> float:
        """Return the relative loss predicted by the models, with common random numbers for all policies."""
        if spec.parts:
            return sum(share * self.loss(component) for share, component in spec.parts)
        if spec == self.logger.spec:
            return 0.0
        return float((self.today - self._expected(spec)).mean()) / self.value

    def cost(self, spec: PolicySpec) -> Cost:
        """Return the loss with its interval, from the log if possible and otherwise from the models."""
        if spec.parts:
            component_costs = [(share, self.cost(component)) for share, component in spec.parts]
            value, low, high = (
                sum(share * component_cost[end] for share, component_cost in component_costs)
                for end in ("value", "low", "high")
            )
            on_models = any(
                component_cost.rests_on == "models" for _, component_cost in component_costs
            )
            return Cost(value, low, high, "models" if on_models else "log")
        if spec == self.logger.spec:
            return Cost(0.0, 0.0, 0.0, "log")
        if spec.text not in self._costs_by_spec:
            measured = self._cost_from_log(spec) if self.random else None
            self._costs_by_spec[spec.text] = measured or self._cost_from_models(spec)
        return self._costs_by_spec[spec.text]

    def _cost_from_log(self, spec: PolicySpec) -> Cost | None:
        policy = Scored(self.logger.candidates, self.logger.scores, spec)
        try:
            estimate = Auto().estimate(
                self.log.with_targets({NAME: policy}), NAME, level=self.level
            )
        except CounterrankError:
            return None
        if not estimate.estimable or estimate.lift is None:
            return None
        lift = estimate.lift
        value, low, high = (-end / self.value for end in (lift.value, lift.high, lift.low))
        return Cost(value, low, high, "log")

    def _cost_from_models(self, spec: PolicySpec) -> Cost:
        alpha, average = self.log.position_weights, self.models.models
        today, pages = self._pages(self.logger.spec), self._pages(spec)

        def lost(fold: int | None = None) -> Floats:
            """Return the loss predicted by each model for each request and position (M, n, K)."""
            old, new = (self.models.by_model(shown, fold).mean(axis=2) for shown in (today, pages))
            gap: Floats = old - new
            return gap

        gap = lost()
        by_model = (gap @ alpha).mean(axis=1)
        value = float(average.shares @ by_model)
        change = float(np.abs(alpha) @ np.abs(average.shares @ gap.mean(axis=1)))
        # The leave-one-fold-out fits, as in the jackknife of `auto`.
        fits = np.array(
            [average.shares @ (lost(f) @ alpha).mean(axis=1) for f in range(average.folds)]
        )
        stderr = float(np.linalg.norm(fold_deviations(fits)))
        allowance = max(change, abs(value), float(np.ptp(by_model)) / 2)
        half = bias_aware_half(stderr, allowance, self.level) / self.value
        share = value / self.value
        return Cost(share, share - half, share + half, "models")

    def _expected(self, spec: PolicySpec) -> Floats:
        """Return the predicted reward of a policy for each request (n,)."""
        q = self.models.mean(self._pages(spec)).mean(axis=1)
        expected: Floats = q @ self.log.position_weights
        return expected

    def _pages(self, spec: PolicySpec) -> Ints:
        rng = np.random.default_rng([self.seed, 12])
        return self.models.pages(self.models.policy(spec), settings.DRAWS, rng)
