"""What to do after a test: ship an arm, stop, or go on, and for how long."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from counterrank.common.findings import FAILED, Finding
from counterrank.common.texts import in_percent
from counterrank.estimators import decisive
from counterrank.evaluation.abtest_result import Action, ArmDecision
from counterrank.evaluation.arm_lifts import ArmLifts, Rail
from counterrank.evaluation.exploration import rows_for
from counterrank.evaluation.metric_table import HOLD, OPEN, SHIP, TEST, Standing, decision
from counterrank.statistics import Quantity

_ACTIONS: dict[str, Action] = {SHIP: "ship", HOLD: "stop", TEST: "go on"}


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An arm that is no baseline: its lift and relative lift in the primary metric, and its guardrails."""

    name: str
    lift: Quantity
    relative: Quantity
    rails: Sequence[Rail]

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

    def rows_for_primary(self, practical: float, lifts: ArmLifts) -> int | None:
        """Return the rows in all from which a relative lift of `practical` is seen with a chance of 80 %."""
        return _rows_for(practical, self.relative, lifts)

    def rows_for_guardrails(self, lifts: ArmLifts) -> int | None:
        """Return the rows in all from which open guardrails are settled where nothing changes; 0 where none is open."""
        totals = [
            None if lift is None else _rows_for(abs(rail.limit), lift, lifts)
            for rail, lift in self.rails
            if rail.status == OPEN
        ]
        return _largest([0, *totals])


def _rows_for(size: float, lift: Quantity, lifts: ArmLifts) -> int | None:
    n = lifts.rows.log.n
    if not (size > 0 and lift.stderr > 0):
        return None
    return rows_for(size, n, lift.stderr, level=min(lifts.looks.level(lifts.level, n), 1 - 1e-12))


def decide(
    lifts: ArmLifts,
    rails: Mapping[str, Sequence[Rail]],
    findings: Sequence[Finding],
    *,
    practical: float,
    rows_a_day: float | None,
) -> ArmDecision:
    """Return what to do; of several arms that could be shipped, the one whose lift is surely largest is named.

    An arm that is not better although the test is large enough to see a lift of `practical` is stopped.
    """
    primary = lifts.metrics.metric(lifts.metrics.primary)
    candidates = [
        Candidate(name, *lifts.reported(primary, pair), rails[name])
        for pair in lifts.pairs
        for name in (lifts.name(pair),)
    ]
    broken = tuple(finding for finding in findings if finding.status is FAILED)
    if broken:
        actions = {candidate.name: "stop" for candidate in candidates}
        return ArmDecision("stop", broken, None, actions, practical=practical)
    # Each must be better at a level that holds for all of them together (Bonferroni).
    level = 1.0 - (1.0 - lifts.level) / len(candidates)
    standings = {
        candidate.name: candidate.standing(lifts, level, lower_is_better=primary.lower_is_better)
        for candidate in candidates
    }
    judged = [rail for candidate in candidates for rail, _ in candidate.rails]
    proposed = decision(primary.name, standings, judged)
    actions = {name: _ACTIONS[action] for name, action in proposed.targets.items()}
    reasons = [*proposed.reasons]
    further: list[int | None] = []
    for candidate in candidates:
        if actions[candidate.name] != "go on":
            continue
        undecided = standings[candidate.name][0] <= 0
        rows = candidate.rows_for_primary(practical, lifts) if undecided else 0
        if undecided and rows is not None and rows <= lifts.rows.log.n:
            actions[candidate.name] = "stop"
            reasons = [reason for reason in reasons if reason.target != candidate.name]
            reasons.append(_enough(candidate.name, primary.name, practical))
        else:
            further.append(_further([rows, candidate.rows_for_guardrails(lifts)], lifts.rows.log.n))
    order: tuple[Action, ...] = ("ship", "go on", "stop")
    action = next(possible for possible in order if possible in actions.values())
    rows = _largest(further) if action == "go on" else None
    return ArmDecision(
        action,
        tuple(reason for reason in reasons if actions.get(str(reason.target)) == action),
        proposed.target,
        dict(actions),
        rows,
        None if rows is None or not rows_a_day else float(math.ceil(rows / rows_a_day)),
        practical,
    )


def _largest(totals: Sequence[int | None]) -> int | None:
    """Return the largest of some numbers of rows; None where one of them is beyond reach."""
    reached = [total for total in totals if total is not None]
    return max(reached) if len(reached) == len(totals) else None


def _further(totals: Sequence[int | None], n: int) -> int | None:
    """Return the further rows up to the largest of some totals."""
    largest = _largest(totals)
    return None if largest is None else max(largest - n, 1)


def _enough(name: str, metric: str, practical: float) -> Finding:
    return Finding(
        "primary-enough",
        FAILED,
        f"'{name}' is not better in '{metric}', the primary, although the test would show a lift of "
        f"{in_percent(practical)} four times in five",
        target=name,
    )
