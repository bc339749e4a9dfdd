"""What the verdict looks at: all that is known about one target's recommended estimate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from counterrank.estimators import Estimate
from counterrank.moments import Moments


@dataclass(frozen=True, slots=True)
class Rival:
    """An estimate of the same value that assumes less, and how far the recommended one is from it."""

    name: str
    difference: float
    stderr: float
    #: Its own weights are good enough for the difference to mean something.
    usable: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence for one target; no check reads whether the lift is up or down."""

    estimate: Estimate
    logged: float
    units: int
    outcomes: float
    #: Moments of the weights behind the estimate.
    moments: Moments | None = None
    #: They are those of another estimate, which this one mixes with more: what they show can warn, not fail.
    borrowed: bool = False
    rivals: Sequence[Rival] = ()
    #: Why there is no assumption to check, when there is none.
    assumption_free: bool = False
    #: Share of the target's probability on items the logger hardly shows, by position; empty when unknown.
    unsupported: Sequence[float] = ()
    practical: float | None = None
    estimated_propensity: bool = False
    #: Findings of the audit that failed.
    failed_audit: Sequence[dict[str, Any]] = ()
    #: The factor by which estimated propensities must be wrong to turn the lift's sign.
    sign_changes_at: float | None = None
