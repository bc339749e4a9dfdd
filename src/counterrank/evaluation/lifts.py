"""What an A/B test says when every row is read for every ranker: arms, lifts, and how they are written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from counterrank.errors import ConfigError
from counterrank.findings import FAILED, NOTES, Finding
from counterrank.records import Json, Record, RecordResult
from counterrank.statistics import Number

if TYPE_CHECKING:
    from counterrank.report.document import Document


@dataclass(frozen=True, slots=True)
class Arm(Record):
    """An arm: its rows, its units, and what it earned per ranking on them."""

    name: str
    rows: int
    units: int
    earned: float
    stderr: float


@dataclass(frozen=True, slots=True)
class ArmLift(Record):
    """What an arm earns more than another, per ranking.

    `plain` is the difference of the two means; `pooled` uses every row for both arms; `apart` is
    plain - pooled with the error of pairs, its interval three standard errors long to either side.
    `headline` names the one to report, `saved` the share of the traffic that it saves: the plain
    difference is as sharp with 1 / (1 - saved) times the rows. `shared` is the share of rows whose
    page both arms could have shown.
    """

    source: str = field(metadata={"key": "from"})
    to: str
    plain: Number
    pooled: Number
    apart: Number
    headline: Literal["plain", "pooled"]
    saved: float
    shared: float
    notes: tuple[Finding, ...] = field(default=(), metadata={"rows": NOTES})

    @property
    def lift(self) -> Number:
        """The headline's difference."""
        return self.plain if self.headline == "plain" else self.pooled

    @property
    def agree(self) -> bool:
        """Whether plain and pooled agree within three standard errors of their difference."""
        return self.apart.low <= 0.0 <= self.apart.high

    def to_dict(self) -> Json:
        """Return the JSON form."""
        return {**Record.to_dict(self), "agree": self.agree}


@dataclass(frozen=True, slots=True)
class ABTest(RecordResult):
    """The arms of a test, the lift of each over the baseline, and what has to be said of both."""

    SCHEMA, NAME, ROWS = "counterrank/abtest/1", "A/B test", "lifts"

    arms: tuple[Arm, ...]
    lifts: tuple[ArmLift, ...]
    baseline: str
    level: float
    #: Intervals hold at every look, and are shortest at about so many rows; None: one look.
    sequential: int | None = None
    #: Whether it was declared that what stands below a place does not change its reward.
    top_down: bool = False
    notes: tuple[Finding, ...] = field(default=(), metadata={"rows": NOTES})

    @property
    def valid(self) -> bool:
        """Whether no check says that the arms cannot be compared."""
        return not any(one.status is FAILED for one in self.notes)

    def lift(self, to: str) -> ArmLift:
        """Return the lift of an arm over the baseline."""
        for one in self.lifts:
            if one.to == to:
                return one
        known = ", ".join(one.to for one in self.lifts)
        raise ConfigError(f"there is no lift of '{to}' over '{self.baseline}'; known: {known}")

    def document(self) -> Document:
        """Return what the test says, as blocks."""
        from counterrank.report import abtesting

        return abtesting.document(self)

    def __repr__(self) -> str:
        """Return the lifts in a line."""
        lifts = ", ".join(
            f"{one.to}: {one.lift.value:+.4g} ({one.lift.low:+.4g} to {one.lift.high:+.4g})"
            for one in self.lifts
        )
        return f"ABTest(baseline={self.baseline!r}, {lifts})"
