"""Guardrails of a learned policy: bounds on further metrics, from the rows that certify it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Bools, Floats
from counterrank.data.columns import as_texts
from counterrank.data.log import RankingLog
from counterrank.errors import ConfigError
from counterrank.messages import say
from counterrank.metrics import Guardrail, Metrics, measured
from counterrank.records import Record, optional


@dataclass(frozen=True, slots=True)
class GuardrailBound(Record):
    """What the certifying rows say of one guardrail, in all or in one group of rows."""

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
        """Whether the guardrail holds with the confidence asked for."""
        return self.status == "safe"


@dataclass(frozen=True, slots=True, eq=False)
class WatchedRewards:
    """A guardrail with its rewards (n,), which are 0 outside its group, and the largest possible reward."""

    guardrail: Guardrail
    earned: Floats
    most: float
    group: str = ""

    def margins(self, weight: Floats) -> Floats:
        """Return (n,) whose mean is above zero where the guardrail holds.

        A relative limit L requires E[(w - 1) r] >= L E[r], that is, a mean of (w - 1 - L) r of at least
        zero; an absolute limit one of (w - 1) r - L.
        """
        gain = (weight - 1.0) * self.earned
        rail = self.guardrail
        found: Floats = gain - rail.limit * (self.earned if rail.relative else 1.0)
        return found if rail.above else -found

    def lowest(self, largest: float) -> float:
        """Return a number below which no margin lies, `largest` being the largest weight."""
        rail = self.guardrail
        # Margins rise with the weight where a lift must not fall, and fall with it where it must not
        # rise.
        worst = 0.0 if rail.above else largest
        ends = [
            (worst - 1.0) * r - rail.limit * (r if rail.relative else 1.0) for r in (0.0, self.most)
        ]
        return min(ends) if rail.above else -max(ends)

    def bound(self, weight: Floats, margin: float) -> GuardrailBound:
        """Return the bound of the lift that follows from a bound of the mean margin."""
        rail, mean = self.guardrail, float(self.earned.mean())
        scale = mean if rail.relative else 1.0
        lift = float(((weight - 1.0) * self.earned).mean())
        known = scale > 0
        known = known and np.isfinite(margin)
        low = rail.limit + (margin if rail.above else -margin) / scale if known else np.nan
        return GuardrailBound(
            rail.text, "safe" if margin >= 0 and known else "open",
            lift / scale if known else np.nan, low, rail.limit, rail.unit, self.group,
        )  # fmt: skip


def watched(log: RankingLog, metrics: Metrics, grade: str) -> list[WatchedRewards]:
    """Return every guardrail, and each group of those by a column, on the rows of a log.

    Raises
    ------
    ConfigError
        A guardrail is of a ratio, or its rewards have no known range where the grade needs one.
    """
    found: list[WatchedRewards] = []
    for rail in metrics.guardrails:
        metric = metrics.metric(rail.metric)
        if metric.ratio:
            raise ConfigError(
                f"the guardrail '{rail.text}' is of a ratio, which no bound certifies; guard what it "
                "counts instead"
            )
        own = measured(log, metric.measures[0])
        earned = own.reward @ own.position_weights
        counted = np.isin(own.reward, (0.0, 1.0)).all()
        if grade == "free" and (not counted or earned.min() < 0):
            raise ConfigError(
                f"the guardrail '{rail.text}' is of rewards that are not 0 or 1: grade 'free' would "
                f"need to know how large they can be; take {say('--grade', 'assumed')}"
            )
        most = float(own.position_weights.sum()) if not own.page_reward else 1.0
        found += [
            WatchedRewards(rail, np.where(rows, earned, 0.0), most, label)
            for label, rows in _groups(log, rail)
        ]
    return found


def _groups(log: RankingLog, rail: Guardrail) -> list[tuple[str, Bools]]:
    column = rail.by
    if not column:
        return [("", np.ones(log.n, dtype=bool))]
    if column not in log.columns:
        raise ConfigError(f"there is no column '{column}' to guard by; give it as a segment too")
    labels = as_texts(np.asarray(log.columns[column]))
    known = rail.among(np.unique(labels).tolist())
    return [(f"{column} = {label}", labels == label) for label in known]
