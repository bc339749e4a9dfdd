"""What to do after a test: ship an arm, stop, or go on, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from counterrank.common.findings import FAILED, Finding
from counterrank.common.texts import in_percent
from counterrank.estimators import decisive
from counterrank.evaluation.abtest_result import Action, ArmDecision
from counterrank.evaluation.arm_lifts import ArmLifts
from counterrank.evaluation.arm_table import Pair
from counterrank.evaluation.exploration import rows_for
from counterrank.evaluation.metric_table import (
    HOLD,
    OPEN,
    SHIP,
    TEST,
    Rail,
    Standing,
    decision,
    judged,
)
from counterrank.evaluation.result import GuardrailResult
from counterrank.statistics import Quantity

_ACTIONS: dict[str, Action] = {SHIP: "ship", HOLD: "stop", TEST: "go on"}


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An arm that is no baseline: its lift and relative lift in the primary metric, and its guardrails."""

    name: str
    lift: Quantity
    relative: Quantity
    rails: Sequence[Rail]
    guardrails: Sequence[GuardrailResult]

    @classmethod
    def compared(cls, lifts: ArmLifts, pair: Pair) -> Self:
        """Return the second arm of a pair."""
        primary, rails = lifts.metrics.metric(lifts.metrics.primary), lifts.rails(pair)
        results = judged(rails, lifts.level, lifts.looks)
        return cls(lifts.name(pair), *lifts.reported(primary, pair), rails, results)

    def standing(self, lifts: ArmLifts, level: float, *, lower_is_better: bool) -> Standing:
        """Return the end of the lift's interval that holds for all candidates, and the other one as it is shown."""
        wide, shown = (
            decisive(
                self.lift.number(at_level, lifts.looks),
                self.relative.interval(at_level, lifts.looks),
            )
            for at_level in (level, lifts.level)
        )
        ends = (-wide[1], -shown[0]) if lower_is_better else (wide[0], shown[1])
        return *ends, "reliable"

    def rows_for_guardrails(self, lifts: ArmLifts) -> list[int | None]:
        """Return the rows in all from which each open guardrail is settled where nothing changes."""
        return [
            None if rail.lift is None else _rows_for(abs(result.limit), rail.lift, lifts)
            for rail, result in zip(self.rails, self.guardrails, strict=True)
            if result.status == OPEN
        ]


def _rows_for(size: float, lift: Quantity, lifts: ArmLifts) -> int | None:
    """Return the rows in all from which a lift of this size is seen with a chance of 80 %."""
    n = lifts.rows.log.n
    if not (size > 0 and lift.stderr > 0):
        return None
    return rows_for(size, n, lift.stderr, level=min(lifts.looks.level(lifts.level, n), 1 - 1e-12))


def decide(
    lifts: ArmLifts,
    candidates: Sequence[Candidate],
    findings: Sequence[Finding],
    *,
    practical: float,
    rows_a_day: float | None,
) -> ArmDecision:
    """Return what to do; of several arms that could be shipped, the one whose lift is surely largest is named.

    An arm that is not better although the test is large enough to see a lift of `practical` is stopped.
    """
    broken = tuple(finding for finding in findings if finding.status is FAILED)
    if broken:
        actions = {candidate.name: "stop" for candidate in candidates}
        return ArmDecision("stop", broken, None, actions, practical=practical)
    primary, n = lifts.metrics.metric(lifts.metrics.primary), lifts.rows.log.n
    # Each must be better at a level that holds for all of them together (Bonferroni).
    level = 1.0 - (1.0 - lifts.level) / len(candidates)
    standings = {
        candidate.name: candidate.standing(lifts, level, lower_is_better=primary.lower_is_better)
        for candidate in candidates
    }
    guardrails = [result for candidate in candidates for result in candidate.guardrails]
    proposed = decision(primary.name, standings, guardrails)
    actions = {name: _ACTIONS[action] for name, action in proposed.targets.items()}
    reasons = [*proposed.reasons]
    totals: list[int | None] = [n + 1]
    for candidate in candidates:
        if actions[candidate.name] != "go on":
            continue
        undecided = standings[candidate.name][0] <= 0
        total = _rows_for(practical, candidate.relative, lifts) if undecided else 0
        if undecided and total is not None and total <= n:
            actions[candidate.name] = "stop"
            reasons = [reason for reason in reasons if reason.target != candidate.name]
            reasons.append(_enough(candidate.name, primary.name, practical))
        else:
            totals += [total, *candidate.rows_for_guardrails(lifts)]
    order: tuple[Action, ...] = ("ship", "go on", "stop")
    action = next(possible for possible in order if possible in actions.values())
    # Beyond reach where one of them is.
    rows = None if action != "go on" or None in totals else max(filter(None, totals)) - n
    return ArmDecision(
        action,
        tuple(reason for reason in reasons if actions.get(str(reason.target)) == action),
        proposed.target,
        dict(actions),
        rows,
        None if rows is None or not rows_a_day else float(math.ceil(rows / rows_a_day)),
        practical,
    )


def _enough(name: str, metric: str, practical: float) -> Finding:
    return Finding(
        "primary-enough",
        FAILED,
        f"'{name}' is not better in '{metric}', the primary, although the test would show a lift of "
        f"{in_percent(practical)} four times in five",
        target=name,
    )
