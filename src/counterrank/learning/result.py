"""The result of learning: the policy, its certificate, the path, and who gains or loses by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.columns import as_texts
from counterrank.data.log import RankingLog
from counterrank.errors import ConfigError
from counterrank.learning.guardrails import GuardrailBound
from counterrank.learning.policy import LearnedPolicy
from counterrank.records import PAGE, Json, Path, Record, RecordResult, Result, optional, write_json
from counterrank.statistics import critical_value, holm, means_of, two_sided

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
        """0 is the logger, 1 fully learned."""
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
class SegmentGain(Record):
    """What a segment gains on the certifying rows; the interval counts all segments."""

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
    """A lower bound of the lift of the exported policy, from rows that played no part in choosing it."""

    SCHEMA, NAME, ROWS = "counterrank/learning/1", "learned policy", "path"
    REPORT = "counterrank.report.learning"

    #: Whether the policy is better than the logger at the level asked for, and no guardrail open.
    certified: bool
    grade: str
    lift: CertifiedLift
    #: What today's policy earned per ranking on the certifying rows: its `value`.
    logger: dict[str, float]
    sentence: str = ""
    kind: str = "best-of"
    name: str = ""
    m: int = 1
    step: float = 0.0
    path: tuple[Step, ...] = ()
    rows: dict[str, int] = field(default_factory=dict)
    #: About how many rows would certify this gain, where these did not; None where there is no gain.
    more_rows: int | None = None
    #: Whether the gain on the learning rows is large enough to be believed.
    agreed: bool = True
    #: Whether the log says which rows belong to one visitor, by units or by a declaration.
    declared: bool = True
    #: A unit with so many rows that the bound is wider.
    heaviest: Heaviest | None = None
    segments: tuple[SegmentGain, ...] = ()
    #: What the model was fitted with, for people.
    model: Json = field(default_factory=dict)
    #: The name of the policy file, where one was written.
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
        """Guardrails that these rows cannot show to hold."""
        return [one for one in self.guardrails if not one.safe]

    def __str__(self) -> str:
        """Return the certificate in one sentence."""
        return self.sentence


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Learned(Result):
    """The result of `counterrank.learning`: a policy and its certificate."""

    SCHEMA, NAME, ROWS = Certificate.SCHEMA, Certificate.NAME, Certificate.ROWS

    policy: LearnedPolicy
    certificate: Certificate

    @property
    def path(self) -> tuple[Step, ...]:
        """From the logger to the largest m that was tried."""
        return self.certificate.path

    def save(self, path: Path) -> None:
        """Write the policy as JSON, with this result inside; `counterrank.load_policy` reads the policy."""
        self.policy.save(path, result=self.to_dict())

    def to_dict(self, policy: str | None = None) -> Json:
        """Return the JSON form; `policy` is the name of the file that was written, if one was."""
        return replace(self.certificate, policy=policy).to_dict()

    def to_json(self, path: Path | None = None, *, policy: str | None = None) -> str:
        """Return the result as JSON, and write it to `path` if one is given."""
        return write_json(self.to_dict(policy), path)

    def document(self, detail: int = PAGE) -> Document:
        """Return what was learned, as blocks."""
        return self.certificate.document(detail)

    def __repr__(self) -> str:
        """Return the certificate in short."""
        found = self.certificate
        return (
            f"Learned(certified={found.certified}, m={found.m}, lift={found.value:.4g}, "
            f"low={found.low:.4g})"
        )


#: Labels of a segment column at most; more is an id.
_MOST_LABELS = 50


def segments_of(
    part: RankingLog, gains: Floats, unit: Ints, columns: Sequence[str], level: float
) -> tuple[SegmentGain, ...]:
    """Return the lift of each segment on the certifying rows, adjusted for looking at many.

    Intervals are Bonferroni's over all segments, p-values Holm's; both count units. A segment of one
    unit has no error.
    """
    found: list[tuple[str, str, int, float, float]] = []
    for column in columns:
        if column not in part.columns:
            raise ConfigError(
                f"there is no column '{column}' to look at; known: "
                f"{', '.join(part.columns) or 'none'}"
            )
        values = as_texts(np.asarray(part.columns[column]))
        labels = np.unique(values)
        if len(labels) > _MOST_LABELS:
            raise ConfigError(
                f"segment column '{column}' has {len(labels):,} values; at most {_MOST_LABELS}"
            )
        for label in labels:
            own = values == label
            (mean,) = means_of([gains[own]], unit[own])
            found.append((column, str(label), int(own.sum()), mean.value, mean.stderr))
    adjusted = holm([two_sided(value, stderr) for *_, value, stderr in found])
    # Bonferroni for intervals: Holm's steps order p-values and give no ends.
    z = critical_value(1.0 - (1.0 - level) / max(len(found), 1))
    return tuple(
        SegmentGain(*row, row[3] - z * row[4], row[3] + z * row[4], float(p))
        for row, p in zip(found, adjusted, strict=True)
    )
