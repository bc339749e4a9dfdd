"""Guardrails of a learned policy: bounds on further metrics, from the rows that certify it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Bools, Floats
from counterrank.common.errors import ConfigError
from counterrank.common.messages import say
from counterrank.common.records import Record, optional
from counterrank.data.columns import as_texts
from counterrank.data.log import RankingLog
from counterrank.metrics import Guardrail, Metrics, measured


@dataclass(frozen=True, slots=True)
class GuardrailBound(Record):
    """The bound of one guardrail metric on the certifying rows, for all rows or for a group."""

    expression: str
    #: "safe" or "open".
    status: str
    #: The lift, relative or in the guardrail's unit, and its bound at the adjusted level.
    lift: float
    low: float
    limit: float
    unit: str = optional(default="")
    group: str = optional(default="")

    @property
    def safe(self) -> bool:
        """Whether the guardrail holds with the requested confidence."""
        return self.status == "safe"


@dataclass(frozen=True, slots=True, eq=False)
class WatchedRewards:
    """A guardrail with its rewards (n,), zero outside its group, and the largest possible reward."""

    guardrail: Guardrail
    earned: Floats
    max_reward: float
    group: str = ""

    def margins(self, weight: Floats) -> Floats:
        """Return margins (n,) whose mean is positive if and only if the guardrail holds.

        A relative limit L requires E[(w - 1) r] >= L E[r], so the margin is (w - 1 - L) r. For an
        absolute limit it is (w - 1) r - L.
        """
        gain = (weight - 1.0) * self.earned
        rail = self.guardrail
        excess: Floats = gain - rail.limit * (self.earned if rail.relative else 1.0)
        return excess if rail.above else -excess

    def lowest(self, largest: float) -> float:
        """Return a lower limit of the margins if no weight exceeds `largest`."""
        rail = self.guardrail
        # Margins increase with the weight if the guardrail is a lower limit, otherwise they decrease.
        worst = 0.0 if rail.above else largest
        ends = [
            (worst - 1.0) * r - rail.limit * (r if rail.relative else 1.0)
            for r in (0.0, self.max_reward)
        ]
        return min(ends) if rail.above else -max(ends)

    def bound(self, weight: Floats, margin: float) -> GuardrailBound:
        """Return the bound of the lift that corresponds to a bound of the mean margin."""
        rail, mean = self.guardrail, float(self.earned.mean())
        scale = mean if rail.relative else 1.0
        lift = float(((weight - 1.0) * self.earned).mean())
        estimable = scale > 0
        estimable = estimable and np.isfinite(margin)
        low = rail.limit + (margin if rail.above else -margin) / scale if estimable else np.nan
        return GuardrailBound(
            rail.text,
            "safe" if margin >= 0 and estimable else "open",
            lift / scale if estimable else np.nan,
            low,
            rail.limit,
            rail.unit,
            self.group,
        )


def watched_rewards(log: RankingLog, metrics: Metrics, grade: str) -> list[WatchedRewards]:
    """Return the guardrails on the rows of a log, with an entry for each group of guardrails by column.

    Raises
    ------
    ConfigError
        The metric of a guardrail is a ratio, or grade "free" needs a range of its rewards.
    """
    rails: list[WatchedRewards] = []
    for rail in metrics.guardrails:
        metric = metrics.metric(rail.metric)
        if metric.ratio:
            raise ConfigError(
                f"the metric of the guardrail '{rail.text}' is a ratio, for which there is no bound; "
                "use its numerator instead"
            )
        metric_log = measured(log, metric.measures[0])
        earned = metric_log.reward @ metric_log.position_weights
        counted = np.isin(metric_log.reward, (0.0, 1.0)).all()
        if grade == "free" and (not counted or earned.min() < 0):
            raise ConfigError(
                f"the rewards of the guardrail '{rail.text}' are not 0 or 1, and grade 'free' would "
                f"need their range; use {say('--grade', 'assumed')}"
            )
        max_reward = float(metric_log.position_weights.sum()) if not metric_log.page_reward else 1.0
        rails += [
            WatchedRewards(rail, np.where(rows, earned, 0.0), max_reward, label)
            for label, rows in _groups(log, rail)
        ]
    return rails


def _groups(log: RankingLog, rail: Guardrail) -> list[tuple[str, Bools]]:
    column = rail.by
    if not column:
        return [("", np.ones(log.n, dtype=bool))]
    if column not in log.columns:
        raise ConfigError(f"there is no column '{column}' to guard by; give it as a segment too")
    labels = as_texts(np.asarray(log.columns[column]))
    guarded = rail.among(np.unique(labels).tolist())
    return [(f"{column} = {label}", labels == label) for label in guarded]
