"""The result of learning: the policy, its certificate, the path, and the lift of segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from counterrank.common.arrays import Floats, Ints
from counterrank.common.records import (
    PAGE,
    Json,
    Path,
    Record,
    RecordResult,
    Result,
    optional,
    write_json,
)
from counterrank.data.columns import segmentation
from counterrank.data.log import RankingLog
from counterrank.learning.policy import LearnedPolicy
from counterrank.statistics import holm, means_of

if TYPE_CHECKING:
    from counterrank.report.document import Document


@dataclass(frozen=True, slots=True)
class Step(Record):
    """A step on the path from the logger (m = 1) to the learned policy.

    `value` is the lift on rows that the model was not fitted to, `low` the expected bound on the
    certifying rows, by which m is chosen, and `ess` the effective number of rows.
    """

    m: int
    value: float
    low: float
    ess: float

    @property
    def step(self) -> float:
        """The position on the path: 0 is the logger, 1 the limit of large m."""
        return 1.0 - 1.0 / self.m

    def to_dict(self) -> Json:
        """Return the JSON form."""
        return {**Record.to_dict(self), "step": self.step}


@dataclass(frozen=True, slots=True)
class Heaviest(Record):
    """The unit with the most certifying rows, and their share."""

    unit: str
    share: float


@dataclass(frozen=True, slots=True)
class CertifiedLift(Record):
    """The lift of the exported policy and its lower bound."""

    value: float
    stderr: float
    low: float
    level: float = 0.95


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


@dataclass(frozen=True, slots=True)
class SegmentGain(Record):
    """The lift of a segment on the certifying rows, with a simultaneous interval over segments."""

    column: str
    label: str
    n: int
    value: float
    stderr: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Certificate(RecordResult):
    """A lower bound of the lift of the exported policy, from rows that were not used to choose it."""

    SCHEMA, NAME, ROWS = "counterrank/learning/1", "learned policy", "path"
    REPORT = "counterrank.report.learning"

    #: Whether the policy is better than the logger at the requested level and all guardrails hold.
    certified: bool
    grade: str
    lift: CertifiedLift
    #: The mean reward of today's policy per ranking on the certifying rows, as `value`.
    logger: dict[str, float]
    sentence: str = ""
    kind: str = "best-of"
    name: str = ""
    #: What was maximised.
    metric: str = optional(default="reward")
    m: int = 1
    step: float = 0.0
    path: tuple[Step, ...] = ()
    rows: dict[str, int] = field(default_factory=dict)
    #: Approximate number of rows that would certify this gain; None if certified or without gain.
    more_rows: int | None = None
    #: Whether the gain on the learning rows is large enough to be believed.
    agreed: bool = True
    #: Whether visitors are known, by units or by a declaration.
    declared: bool = True
    #: The unit with the most rows, if it has so many that the bound is wider.
    heaviest: Heaviest | None = None
    segments: tuple[SegmentGain, ...] = ()
    #: How the model was fitted.
    model: Json = field(default_factory=dict)
    #: The name of the policy file, if one was written.
    policy: str | None = None
    #: Bounds of further metrics, each with a share of the error that the level allows.
    guardrails: tuple[GuardrailBound, ...] = optional(default=())

    @property
    def value(self) -> float:
        """The estimated lift."""
        return self.lift.value

    @property
    def stderr(self) -> float:
        """The standard error of the lift."""
        return self.lift.stderr

    @property
    def low(self) -> float:
        """The lower bound of the lift."""
        return self.lift.low

    @property
    def open_guardrails(self) -> list[GuardrailBound]:
        """The guardrails that are not certified to hold."""
        return [guardrail for guardrail in self.guardrails if not guardrail.safe]

    def __str__(self) -> str:
        """Return the certificate in one sentence."""
        return self.sentence


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Learned(Result):
    """The result of `counterrank.learn`: a policy and its certificate.

    Examples
    --------
    >>> import numpy as np
    >>> import counterrank as cr
    >>> rng = np.random.default_rng(0)
    >>> policy = cr.PlackettLuce(rng.normal(size=(600, 6)))
    >>> action = policy.sample(3, rng)[:, 0]
    >>> clicks = (rng.random(action.shape) < action / 6).astype(float)
    >>> log = cr.RankingLog(action=action, reward=clicks, propensity=policy)
    >>> learned = cr.learn(log, independent_rows=True)
    >>> learned.path[0].m, learned.certificate.rows["learn"]
    (1, 240)
    """

    SCHEMA, NAME, ROWS = Certificate.SCHEMA, Certificate.NAME, Certificate.ROWS

    policy: LearnedPolicy
    certificate: Certificate

    @property
    def path(self) -> tuple[Step, ...]:
        """The steps from the logger to the largest m that was compared."""
        return self.certificate.path

    def save(self, path: Path) -> None:
        """Write the policy and this result as JSON; `counterrank.load_policy` reads the policy."""
        self.policy.save(path, result=self.to_dict())

    def to_dict(self, policy: str | None = None) -> Json:
        """Return the JSON form; `policy` is the name of the file that was written, if one was."""
        return replace(self.certificate, policy=policy).to_dict()

    def to_json(self, path: Path | None = None, *, policy: str | None = None) -> str:
        """Return the result as JSON, and write it to `path` if one is given."""
        return write_json(self.to_dict(policy), path)

    def document(self, detail: int = PAGE) -> Document:
        """Return the report as blocks."""
        return self.certificate.document(detail)

    def __repr__(self) -> str:
        """Return the main numbers of the certificate."""
        certificate = self.certificate
        return (
            f"Learned(certified={certificate.certified}, m={certificate.m}, lift={certificate.value:.4g}, "
            f"low={certificate.low:.4g})"
        )


def segments_of(
    log: RankingLog, gains: Floats, unit: Ints, columns: Sequence[str], level: float
) -> tuple[SegmentGain, ...]:
    """Return the lift of each segment on the certifying rows, adjusted for multiple comparisons.

    Intervals are adjusted by Bonferroni's method, p-values by Holm's. Standard errors are those of
    means over units; a segment with one unit has none.
    """
    groups = [
        (column, label, rows)
        for column in columns
        for label, rows in segmentation(log, column).groups(log)
    ]
    lifts = [means_of([gains[rows]], unit[rows])[0] for _, _, rows in groups]
    adjusted = holm([lift.p_value(level) for lift in lifts])
    # Bonferroni for intervals, because Holm's method gives no intervals.
    numbers = (lift.number(level, family=len(groups)) for lift in lifts)
    return tuple(
        SegmentGain(
            column, label, len(rows), number.value, number.stderr, number.low, number.high, float(p)
        )
        for (column, label, rows), number, p in zip(groups, numbers, adjusted, strict=True)
    )
