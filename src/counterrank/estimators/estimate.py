"""Estimate: a value, how sure we are, and what to be careful about."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics import ONE_UNIT
from counterrank.moments import Moments

if TYPE_CHECKING:
    from counterrank.inference import Evidence

Floats = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PositionValue:
    """The value at one position, and its standard error."""

    value: float
    stderr: float


@dataclass(frozen=True, slots=True)
class Lift:
    """The difference to what the logging policy earned on the same rows.

    `value` with `stderr` and the interval `low` to `high` at the evaluation's level; `by_position`
    the same position by position; `relative` the difference as a share of what the logger earned,
    with an interval of its own (delta method), NaN when the logger earned nothing.
    """

    value: float
    stderr: float
    low: float
    high: float
    by_position: tuple[PositionValue, ...] = ()
    relative: float = float("nan")
    relative_low: float = float("nan")
    relative_high: float = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """V = sum_k alpha_k V_k of a target policy, estimated from the log of another.

    ======================  ================================================================
    `target`, `estimator`   the names of the policy and of the estimator
    `value`, `stderr`       V per ranking and its standard error
    `interval(level)`       the confidence interval
    `by_position`           V_k and its standard error, first position first
    `ess`, `n`              effective and actual number of rankings
    `level`                 the confidence level of `low`, `high` and the lift's interval
    `lift`                  the paired difference to what the logging policy earned
    `flags`                 warnings in plain words
    `basis`                 the estimator whose weights and assumption the interval rests on;
                            its own name for most
    `allowance`             what the interval allows for bias beyond sampling error; most
                            estimators allow nothing
    `details`               what was fitted and chosen, for people: nothing decides on it
    ======================  ================================================================
    """

    target: str
    estimator: str
    value: float
    stderr: float
    by_position: tuple[PositionValue, ...]
    ess: float
    n: int
    level: float
    lift: Lift
    flags: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    moments: Moments | None = field(default=None, repr=False)
    #: An interval of the estimator's own making, which then is the default.
    interval_at: Callable[[float], Interval] | None = field(default=None, repr=False)
    #: What the other methods of `interval` start from.
    evidence: "Evidence | None" = field(default=None, repr=False)
    allowance: float = 0.0
    basis: str = ""
    #: Why the log cannot say anything about this value; empty where it can.
    not_estimable: str = ""

    def __post_init__(self) -> None:
        if not self.basis:
            object.__setattr__(self, "basis", self.estimator)

    def __str__(self) -> str:
        """Return one line: value, interval, and how many warnings."""
        if not self.estimable:
            return f"{self.estimator} of {self.target}: not estimable: {self.not_estimable}"
        low, high = self.interval()
        warnings = f", {len(self.flags)} flags" if self.flags else ""
        ends = "no interval" if np.isnan(low) else f"{low:.6g} to {high:.6g}"
        return (
            f"{self.estimator} of {self.target}: {self.value:.6g} ({ends}), n = "
            f"{self.n:,}{warnings}"
        )

    def interval(self, level: float | None = None, method: str = "t") -> Interval:
        """Return (low, high) at a confidence level (that of the evaluation by default).

        `method`: "t" (the estimate's own, the default), "normal", "bootstrap", "poisson",
        "bernstein" or "cressie-read"; see `counterrank.inference.intervals` for what each needs.
        """
        from counterrank.inference import interval, normal_interval, unavailable

        wanted = self.level if level is None else level
        if method == "t" and self.interval_at is not None:
            return self.interval_at(wanted)
        if self.evidence is not None:
            return interval(self.evidence, wanted, method)
        if method in ("t", "normal"):
            return normal_interval(self.value, self.stderr, wanted)
        raise unavailable(method, self.estimator)

    @property
    def estimable(self) -> bool:
        """The log holds evidence on this value; where not, there is no value and `not_estimable`
        says why.
        """
        return not self.not_estimable

    @property
    def low(self) -> float:
        """Lower end of the interval at the evaluation's level."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """Upper end of the interval at the evaluation's level."""
        return self.interval()[1]

    def without_spread(self) -> "Estimate":
        """Return the same value without errors and intervals, flagged: what one ranking or unit can
        tell.
        """
        flags = self.flags if ONE_UNIT in self.flags else (ONE_UNIT, *self.flags)
        lift = Lift(
            self.lift.value,
            np.nan,
            np.nan,
            np.nan,
            _bare(self.lift.by_position),
            self.lift.relative,
        )
        return replace(
            self, stderr=np.nan, by_position=_bare(self.by_position), lift=lift, flags=flags,
            details=_bare_details(self.details), interval_at=lambda level: (np.nan, np.nan),
        )  # fmt: skip

    def without_evidence(self, reason: str) -> "Estimate":
        """Return the estimate that is none: no value, error or interval anywhere, and the reason."""
        nothing = tuple(PositionValue(np.nan, np.nan) for _ in self.by_position)
        return replace(
            self,
            value=np.nan,
            stderr=np.nan,
            by_position=nothing,
            not_estimable=reason,
            lift=Lift(np.nan, np.nan, np.nan, np.nan, nothing),
            flags=(f"not-estimable: {reason}", *self.flags),
            evidence=None,
            interval_at=lambda level: (np.nan, np.nan),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form of the contract: full precision, plain types."""
        low, high = self.interval()
        result: dict[str, Any] = {
            "target": self.target,
            "estimator": self.estimator,
            "value": self.value,
            "stderr": self.stderr,
            "low": low,
            "high": high,
            "level": self.level,
            "by_position": [{"value": p.value, "stderr": p.stderr} for p in self.by_position],
            "ess": self.ess,
            "flags": list(self.flags),
            "estimable": self.estimable,
        }
        if not self.estimable:
            result["not_estimable"] = self.not_estimable
        if self.details:
            result["details"] = self.details
        return result


def nothing_known(target: str, estimator: str, n: int, reason: str) -> Estimate:
    """Return the estimate of an estimator that could not be finished."""
    lift = Lift(np.nan, np.nan, np.nan, np.nan)
    return Estimate(target, estimator, np.nan, np.nan, (), 0.0, n, 0.95, lift, not_estimable=reason)


def _bare(positions: tuple[PositionValue, ...]) -> tuple[PositionValue, ...]:
    return tuple(PositionValue(position.value, np.nan) for position in positions)


def _bare_details(found: Any) -> Any:
    """The details with no number where they have a standard error."""
    if isinstance(found, dict):
        return {
            key: np.nan if key.endswith("stderr") else _bare_details(value)
            for key, value in found.items()
        }
    return [_bare_details(value) for value in found] if isinstance(found, list) else found
