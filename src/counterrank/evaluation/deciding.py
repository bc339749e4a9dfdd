"""One decision from many metrics: ship, hold or test, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from counterrank.messages import Message
from counterrank.metrics import Guardrail

SHIP, HOLD, TEST = "ship", "hold", "test"
SAFE, BROKEN, OPEN = "safe", "broken", "open"


def status_of(guardrail: Guardrail, low: float, high: float) -> str:
    """Return what an interval of the lift says of a guardrail.

    >>> from counterrank.metrics import parse_guardrail
    >>> rail = parse_guardrail("revenue >= -0.01")
    >>> [status_of(rail, *ends) for ends in ((-0.005, 0.1), (-0.1, -0.02), (-0.1, 0.1))]
    ['safe', 'broken', 'open']
    """
    if not guardrail.above:
        low, high = -high, -low
    limit = guardrail.limit if guardrail.above else -guardrail.limit
    if low >= limit:
        return SAFE
    return BROKEN if high < limit else OPEN


@dataclass(frozen=True, slots=True)
class Watched:
    """One guardrail for one target, or for one group of rows: what it says and on what evidence."""

    guardrail: Guardrail
    status: str
    #: The evidence level of the metric.
    evidence: str
    group: str = ""

    @property
    def title(self) -> str:
        """How it is called in a sentence."""
        return f"'{self.guardrail.text}'" + (f" in {self.group}" if self.group else "")


@dataclass(frozen=True, slots=True)
class JudgedTarget:
    """What is known of one target: the primary's lift, better when above zero, and its guardrails."""

    target: str
    primary: str
    low: float
    high: float
    evidence: str
    watched: Sequence[Watched] = ()


def decide(one: JudgedTarget) -> tuple[str, tuple[Message, ...]]:
    """Return the action for one target and the reasons for it, the decisive ones first.

    Ship: the primary is better, every guardrail is safe, and the evidence on all of them is
    reliable. Hold: the primary is worse, or a guardrail is broken, on evidence that is more than
    insufficient. All else is for a test to find out.
    """
    told = [*_primary(one), *(reason for rail in one.watched for reason in _watched(rail))]
    for action in (HOLD, TEST):
        decisive = [reason for kind, reason in told if kind == action]
        if decisive:
            return action, tuple(decisive)
    return SHIP, tuple(reason for _, reason in told)


Told = list[tuple[str, Message]]


def _primary(one: JudgedTarget) -> Told:
    name, target = one.primary, one.target
    if one.evidence == "insufficient":
        text = f"the evidence on '{name}' of '{target}' is insufficient"
        return [(TEST, Message("primary-evidence", text))]
    if one.high < 0:
        return [(HOLD, Message("primary-worse", f"'{target}' is worse in '{name}', the primary"))]
    if not one.low > 0:
        text = f"the log cannot tell whether '{target}' is better in '{name}', the primary"
        return [(TEST, Message("primary-open", text))]
    if one.evidence != "reliable":
        text = f"'{target}' looks better in '{name}', but the evidence is {one.evidence}"
        return [(TEST, Message("primary-evidence", text))]
    text = f"'{target}' is better in '{name}', the primary, on reliable evidence"
    return [(SHIP, Message("primary-better", text))]


def _watched(rail: Watched) -> Told:
    if rail.evidence == "insufficient":
        text = f"the evidence on {rail.title} is insufficient"
        return [(TEST, Message("guardrail-evidence", text))]
    if rail.status == BROKEN:
        return [(HOLD, Message("guardrail-broken", f"{rail.title} is broken"))]
    if rail.status == OPEN:
        text = f"{rail.title} is open: the interval reaches to both sides of the limit"
        return [(TEST, Message("guardrail-open", text))]
    if rail.evidence != "reliable":
        text = f"{rail.title} looks safe, but the evidence is {rail.evidence}"
        return [(TEST, Message("guardrail-evidence", text))]
    return [(SHIP, Message("guardrail-safe", f"{rail.title} is safe"))]


def overall(actions: Sequence[str]) -> str:
    """Return the action for all candidates: ship one if one can be shipped, hold where all are held.

    >>> overall(["hold", "test"]), overall(["hold", "ship"]), overall(["hold"])
    ('test', 'ship', 'hold')
    """
    if SHIP in actions:
        return SHIP
    return HOLD if actions and all(action == HOLD for action in actions) else TEST
