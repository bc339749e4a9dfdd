"""What an evaluation says of each metric, each guardrail, and what to do."""

from dataclasses import dataclass, field

from counterrank.errors import UnknownNameError
from counterrank.estimators import Estimate
from counterrank.evaluation.tables import Comparison, Segment, Skipped, Verdict
from counterrank.records import Json, Record, optional, plain
from counterrank.texts import suggestion


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
    skipped: tuple[Skipped, ...] = ()

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
        rest = ("recommended", "verdict", "segments", "comparisons", "skipped")
        return {
            **{name: plain(getattr(self, name)) for name in simple},
            "estimates": plain(estimates),
            "lift": plain(lifts),
            **{name: plain(getattr(self, name)) for name in rest},
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


@dataclass(frozen=True, slots=True)
class DecisionReason(Record):
    """One reason of a decision: `code` is for scripts."""

    target: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Record):
    """What to do: "ship", "hold" or "test", and why.

    Of several targets, `target` is the one to ship; `targets` has the action for each.
    """

    action: str = "test"
    reasons: tuple[DecisionReason, ...] = ()
    target: str | None = None
    targets: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        which = "" if self.target is None else f" {self.target!r}"
        return f"Decision({self.action!r}{which}, {[one.code for one in self.reasons]})"

    def __str__(self) -> str:
        """Return the action and a line for each reason."""
        return "\n".join([self.action, *(f"  {one.reason}" for one in self.reasons)])
