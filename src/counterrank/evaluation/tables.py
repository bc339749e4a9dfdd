"""The rows of an evaluation: the log, each metric, pair, segment, weight, check, plan and the decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from counterrank.errors import UnknownNameError
from counterrank.estimators import Estimate
from counterrank.findings import DECISION, ESTIMATORS_SKIPPED, REASONS, Finding
from counterrank.records import Json, Record, optional, plain, value_of
from counterrank.statistics import Number
from counterrank.texts import suggestion
from counterrank.weights.diagnostics import Support, WeightReport

Level = Literal["insufficient", "directional", "reliable"]
#: Evidence levels, the lowest first.
LEVELS: tuple[Level, ...] = ("insufficient", "directional", "reliable")


def weakest(*levels: str) -> Level:
    """Return the lowest of evidence levels; what is no level counts as insufficient.

    >>> weakest("reliable", "directional"), weakest("reliable", "none")
    ('directional', 'insufficient')
    """
    known: list[str] = [*LEVELS]
    return LEVELS[min(known.index(one) if one in known else 0 for one in levels)]


@dataclass(frozen=True, slots=True)
class LogSummary(Record):
    """The log that was evaluated, and what its own policy earned."""

    n: int
    K: int
    fingerprint: str = ""
    #: The same whatever targets are evaluated on the rows.
    rows_fingerprint: str = ""
    #: What the logging policy earned per ranking.
    value: float = float("nan")
    stderr: float = float("nan")
    #: Independent pieces: rows, or buckets of units.
    units: int = 0
    #: Intervals hold at every look and are shortest at this many rows; None: one look.
    sequential: int | None = None
    position_weights: tuple[float, ...] = ()
    #: What a "reward" and a "ranking" are called in reports.
    words: dict[str, str] = optional(default_factory=dict)
    #: Events that the rewards were made of: rows, joined, orphans, duplicates.
    events: dict[str, int] = optional(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Number):
    """The difference of two targets on the same rows: `better` less `than`.

    The interval is Bonferroni-adjusted over all pairs, with both allowances for bias.
    """

    better: str
    than: str
    bias_allowance: float = 0.0
    #: Holm-adjusted over all pairs.
    p_value: float = float("nan")


@dataclass(frozen=True, slots=True)
class SegmentLift(Number):
    """The lift in a segment, and its interval adjusted for looking at all segments of a target."""

    relative: float = float("nan")
    adjusted_low: float = float("nan")
    adjusted_high: float = float("nan")
    p_value: float = float("nan")
    q_value: float = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(Number):
    """What a target would earn in one group of rows."""

    column: str
    label: str
    target: str
    estimator: str
    n: int
    ess: float
    lift: SegmentLift
    evidence: Level | None = None
    flags: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Segment({self.column}={self.label}, {self.target}: {self.lift.value:+.4g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPoint(Number):
    """The estimate of one interaction order: 1 is IIPS, K is IPS."""

    order: int
    ess: float = float("nan")
    estimator: str = ""

    def flaw(self) -> tuple[str, str] | None:
        """Return the order where it is none."""
        return None if self.order > 0 else ("order", "1 or more")


@dataclass(frozen=True, slots=True)
class Diagnostics(Record):
    """The weights behind each estimate, the path from IIPS to IPS, and what the logger rarely shows.

    In JSON the weights stand under "TARGET/ESTIMATOR", beside `order_path` and `support`.
    """

    weights: dict[str, WeightReport] = field(default_factory=dict)
    order_path: dict[str, tuple[OrderPoint, ...]] = field(default_factory=dict)
    support: dict[str, Support] = field(default_factory=dict)

    def of(self, target: str, estimator: str) -> WeightReport | None:
        """Return the report on the weights of one estimate, None where it rests on none."""
        return self.weights.get(f"{target}/{estimator}")

    def to_dict(self) -> Json:
        """Return the JSON form."""
        rest = {"order_path": self.order_path, "support": self.support}
        return {**plain(self.weights), **plain(rest)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return what `to_dict` wrote."""
        weights = {key: one for key, one in found.items() if "/" in key}
        rest = {key: found.get(key) or {} for key in ("order_path", "support")}
        return cls(
            value_of(dict[str, WeightReport], weights, "diagnostics"),
            value_of(
                dict[str, tuple[OrderPoint, ...]], rest["order_path"], "diagnostics.order_path"
            ),
            value_of(dict[str, Support], rest["support"], "diagnostics.support"),
        )

    def __getitem__(self, key: str) -> Any:
        return self.weights[key] if key in self.weights else Record.__getitem__(self, key)


#: The advice that any number of rows makes needless.
MORE_ROWS = "more rows"


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Record):
    """How far the evidence can be believed: a level, a sentence, and a reason for each check.

    >>> from counterrank.findings import WARNED
    >>> reason = Finding("units", WARNED, "80 rows", ("more rows",), "new")
    >>> verdict = Verdict("directional", "80 rows.", {"new": "directional"}, (reason,))
    >>> verdict, verdict["level"], verdict.reasons[0]["check"]
    (Verdict('directional', warn=['units']), 'directional', 'units')
    """

    #: The lowest level of all targets; "none" where no verdict was made.
    level: Level | Literal["none"] = "none"
    #: The level of each target and what decided it, in a sentence.
    summary: str = ""
    #: The level of each target.
    targets: dict[str, Level] = field(default_factory=dict)
    reasons: tuple[Finding, ...] = field(default=(), metadata={"rows": REASONS})

    def of(self, target: str) -> str:
        """Return the level of a target; that of all where it has none of its own."""
        return self.targets.get(target, self.level)

    def __repr__(self) -> str:
        """Return the level and the checks that did not pass."""
        blamed = {
            status: dict.fromkeys(one.code for one in self.reasons if one.status == status)
            for status in ("fail", "warn")
        }
        not_passed = [f"{status}={list(checks)}" for status, checks in blamed.items() if checks]
        return f"Verdict({', '.join([repr(self.level), *not_passed])})"

    def __str__(self) -> str:
        """Return the sentence, and a line for each check that did not pass."""
        lines = [
            f"  {one.status.word} {one.code}: {one.text}" for one in self.reasons if one.blamed
        ]
        return "\n".join([self.summary or self.level, *lines])


@dataclass(frozen=True, slots=True)
class Detectable(Record):
    """The smallest lift that so many rows can tell from zero."""

    rows: int
    lift: float


@dataclass(frozen=True, slots=True)
class RowsNeeded(Record):
    """The rows from which a relative lift can be detected; None where nobody could log so many."""

    relative: float
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Exploration(Record):
    """The standard error with a share `epsilon` of uniform choice, relative to today's."""

    epsilon: float
    stderr_ratio: float


@dataclass(frozen=True, slots=True)
class SamplePlan(Record):
    """What this log can detect, and what more rows or more exploration would give."""

    detectable_lift: float = float("nan")
    detectable_relative: float = float("nan")
    curve: tuple[Detectable, ...] = ()
    #: Rankings of an A/B test of the same precision; None where nobody would run it.
    ab_rows: int | None = None
    rows_for: tuple[RowsNeeded, ...] = ()
    #: The bias that the interval allows for, as a share of what the logger earns.
    allowance_relative: float = float("nan")
    exploration: tuple[Exploration, ...] = ()

    def __repr__(self) -> str:
        return f"SamplePlan(detectable_lift={self.detectable_lift:.4g}, ab_rows={self.ab_rows})"


@dataclass(frozen=True, slots=True)
class SensitivityRange(Record):
    """Where value and lift may lie if every weight is wrong by at most a factor `gamma`."""

    gamma: float
    low: float
    high: float
    lift_low: float
    lift_high: float


@dataclass(frozen=True, slots=True)
class Sensitivity(Record):
    """How the range of a value grows with the error of the propensities."""

    curve: tuple[SensitivityRange, ...] = ()
    #: The factor at which the sign of the lift may change; None: none up to the largest.
    sign_changes_at: float | None = None

    def __repr__(self) -> str:
        return f"Sensitivity(sign_changes_at={self.sign_changes_at})"


@dataclass(frozen=True, slots=True)
class JointLift(Record):
    """The lift of one target in one metric, with intervals that hold for all metrics together."""

    target: str
    estimator: str
    #: Standard error of the relative lift.
    relative_stderr: float = float("nan")
    adjusted_low: float = float("nan")
    adjusted_high: float = float("nan")
    adjusted_relative_low: float = float("nan")
    adjusted_relative_high: float = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class MetricResult:
    """What was found of one metric: estimates and lifts of each target, and how far to believe them."""

    name: str
    primary: bool
    #: How it was written: a column, or an expression such as any(click).
    expression: str
    #: "position", "page" or "ratio".
    kind: str
    unit: str
    lower_is_better: bool
    #: What the logging policy earned.
    value: float
    stderr: float
    estimates: tuple[Estimate, ...]
    recommended: dict[str, str]
    joint: tuple[JointLift, ...] = ()
    verdict: Verdict = field(default_factory=Verdict)
    segments: tuple[Segment, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    skipped: tuple[Finding, ...] = ()

    def estimate(self, target: str | None = None, estimator: str | None = None) -> Estimate:
        """Return one estimate; by default the recommended one of the first target."""
        wanted = target or self.estimates[0].target
        name = estimator or self.recommended.get(wanted, "")
        for one in self.estimates:
            if (one.target, one.estimator) == (wanted, name):
                return one
        known = [one.target for one in self.estimates]
        near = suggestion(wanted, known)
        raise UnknownNameError(
            f"metric '{self.name}' has no estimate of '{wanted}' by '{name or 'any estimator'}'{near}"
        )

    def joint_of(self, target: str) -> JointLift | None:
        """Return the lift with intervals for all metrics together; None where there is none."""
        return next((one for one in self.joint if one.target == target), None)

    def to_dict(self) -> Json:
        """Return the JSON form."""
        lifts = []
        for one in self.estimates:
            joint = self.joint_of(one.target)
            own = joint is not None and joint.estimator == one.estimator
            more = {} if joint is None or not own else joint.to_dict()
            lifts.append(
                {"target": one.target, "estimator": one.estimator, **one.lift.to_dict(), **more}
            )
        estimates = [one.to_dict() for one in self.estimates]
        if self.primary:
            # What was fitted stands at the top of the file already.
            estimates = [
                {key: item for key, item in one.items() if key != "details"} for one in estimates
            ]
        simple = (
            "name",
            "primary",
            "expression",
            "kind",
            "unit",
            "lower_is_better",
            "value",
            "stderr",
        )
        rest = ("recommended", "verdict", "segments", "comparisons")
        return {
            **{name: plain(getattr(self, name)) for name in simple},
            "estimates": plain(estimates),
            "lift": plain(lifts),
            **{name: plain(getattr(self, name)) for name in rest},
            "skipped": ESTIMATORS_SKIPPED.write(self.skipped),
        }

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{one.target}: {one.lift.value:+.4g}"
            for one in self.estimates
            if self.recommended.get(one.target) == one.estimator
        )
        return f"MetricResult({self.name}, {shown})"


@dataclass(frozen=True, slots=True)
class GuardrailResult(Record):
    """What the log says of one guardrail for one target, in all or in one group of rows."""

    expression: str
    target: str
    #: "safe", "broken" or "open".
    status: str
    #: Relative, or absolute where the guardrail has a unit; with an interval that holds for all
    #: guardrails of the target together.
    lift: float
    low: float
    high: float
    metric: str
    limit: float
    relative: bool = True
    #: One of `LEVELS`.
    evidence: str = ""
    unit: str = optional(default="")
    #: The column and the label of the group, where the guardrail is by a column.
    column: str = optional(default="")
    group: str = optional(default="")


@dataclass(frozen=True, slots=True, repr=False)
class ShipDecision(Record):
    """What to do: "ship", "hold" or "test", and why.

    Of several targets, `target` is the one to ship; `targets` has the action for each.
    """

    action: str = "test"
    reasons: tuple[Finding, ...] = field(default=(), metadata={"rows": DECISION})
    target: str | None = None
    targets: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        which = "" if self.target is None else f" {self.target!r}"
        return f"ShipDecision({self.action!r}{which}, {[one.code for one in self.reasons]})"

    def __str__(self) -> str:
        """Return the action and a line for each reason."""
        return "\n".join([self.action, *(f"  {one.text}" for one in self.reasons)])
