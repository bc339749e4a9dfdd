"""The decision: a function of the primary's interval, the level of evidence and the guardrails."""

from collections.abc import Mapping, Sequence

from counterrank.evaluation.tables import GuardrailResult, ShipDecision
from counterrank.findings import FAILED, PASSED, WARNED, Finding, Outcome, worst

SHIP, HOLD, TEST = "ship", "hold", "test"
SAFE, BROKEN, OPEN = "safe", "broken", "open"
_ACTIONS = {PASSED: SHIP, WARNED: TEST, FAILED: HOLD}


#: What is known of a target in the primary metric, whose lifts are better when above zero: the lower end
#: of the lift's interval that holds for all candidates together, the upper end as it is shown, evidence.
Standing = tuple[float, float, str]


def decision(
    primary: str, standings: Mapping[str, Standing], guardrails: Sequence[GuardrailResult] = ()
) -> ShipDecision:
    """Return what to do about every candidate, and about all of them.

    Of several that could be shipped, the one whose lift is surely largest is named.
    """
    # Passed: ship. Failed: the primary is worse, whatever the level of evidence, or a guardrail is broken
    # on evidence that is more than insufficient. Warned: for a test to find out.
    reasons = {
        target: [
            _of_primary(primary, target, *one),
            *(_of_guardrail(row) for row in guardrails if row.target == target),
        ]
        for target, one in standings.items()
    }
    actions = {
        target: _ACTIONS[worst(row.status for row in rows)] for target, rows in reasons.items()
    }
    action = overall(list(actions.values()))
    best = None
    if action == SHIP:
        best = max((t for t in standings if actions[t] == SHIP), key=lambda t: standings[t][0])
    # Those that the action is about come first, the one to ship before all.
    order = sorted(reasons, key=lambda target: (target != best, actions[target] != action))
    shown = [
        row
        for target in order
        for row in reasons[target]
        if _ACTIONS[row.status] == actions[target]
    ]
    return ShipDecision(action, tuple(shown), best, actions)


def overall(actions: Sequence[str]) -> str:
    """Return the action for all candidates: ship one if one can be shipped, hold where all are held.

    >>> overall(["hold", "test"]), overall(["hold", "ship"]), overall(["hold"])
    ('test', 'ship', 'hold')
    """
    if SHIP in actions:
        return SHIP
    return HOLD if actions and all(action == HOLD for action in actions) else TEST


def _of_primary(name: str, target: str, low: float, high: float, evidence: str) -> Finding:
    if high < 0:
        doubt = "" if evidence != "insufficient" else ", although the evidence is insufficient"
        text = f"'{target}' is worse in '{name}', the primary{doubt}"
        return Finding("primary-worse", FAILED, text, target=target)
    if evidence == "insufficient":
        text = f"the evidence on '{name}' of '{target}' is insufficient"
        return Finding("primary-evidence", WARNED, text, target=target)
    if not low > 0:
        text = f"the log cannot tell whether '{target}' is better in '{name}', the primary"
        return Finding("primary-open", WARNED, text, target=target)
    if evidence != "reliable":
        text = f"'{target}' looks better in '{name}', but the evidence is {evidence}"
        return Finding("primary-evidence", WARNED, text, target=target)
    text = f"'{target}' is better in '{name}', the primary, on reliable evidence"
    return Finding("primary-better", PASSED, text, target=target)


def _of_guardrail(rail: GuardrailResult) -> Finding:
    group = f"{rail.column} = {rail.group}" if rail.column else ""
    title = f"'{rail.expression}'" + (f" in {group}" if group else "")
    code, status, text = _judged(rail, title)
    return Finding(code, status, text, target=rail.target, subject=group)


def _judged(rail: GuardrailResult, title: str) -> tuple[str, Outcome, str]:
    if rail.evidence == "insufficient":
        return "guardrail-evidence", WARNED, f"the evidence on {title} is insufficient"
    if rail.status == BROKEN:
        return "guardrail-broken", FAILED, f"{title} is broken"
    if rail.status == OPEN:
        text = f"{title} is open: the interval reaches to both sides of the limit"
        return "guardrail-open", WARNED, text
    if rail.evidence != "reliable":
        text = f"{title} looks safe, but the evidence is {rail.evidence}"
        return "guardrail-evidence", WARNED, text
    return "guardrail-safe", PASSED, f"{title} is safe"
