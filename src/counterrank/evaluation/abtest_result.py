"""The result of an A/B test: arms, lifts, guardrails and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from counterrank.common.errors import ConfigError
from counterrank.common.findings import FAILED, Finding
from counterrank.common.options import SHARE
from counterrank.common.records import Json, Record, RecordResult, optional
from counterrank.common.texts import comma_separated
from counterrank.estimators import decisive
from counterrank.evaluation.arm_checks import SampleRatio
from counterrank.evaluation.result import GuardrailResult, Segment, unknown
from counterrank.statistics import Number

Action = Literal["ship", "stop", "go on"]
UNKNOWN = Number(math.nan)


@dataclass(frozen=True, slots=True)
class Arm(Record):
    """An arm: its rows, its units, and what it earned of a metric per ranking on them."""

    name: str
    rows: int
    units: int
    earned: float
    stderr: float


@dataclass(frozen=True, slots=True)
class ArmLift(Record):
    """What an arm earns more than another of a metric, per ranking.

    `plain` is the difference of the two means; `pooled` uses every row for both arms; `apart` is
    plain - pooled with the error of pairs, its interval three standard errors long to either side.
    `headline` names the one to report, `relative` is its relative lift, `saved` the share of the traffic
    that it saves: the plain difference is as sharp with 1 / (1 - saved) times the rows. `shared` is the
    share of rows whose page both arms could have shown.
    """

    source: str = field(metadata={"key": "from"})
    to: str
    plain: Number
    pooled: Number
    apart: Number
    headline: Literal["plain", "pooled"]
    saved: float
    shared: float
    notes: tuple[Finding, ...] = ()
    relative: Number = UNKNOWN

    @property
    def lift(self) -> Number:
        """The headline's difference."""
        return self.plain if self.headline == "plain" else self.pooled

    @property
    def decisive(self) -> tuple[float, float]:
        """The interval whose side of zero says better or worse, wherever that is said."""
        return decisive(self.lift, (self.relative.low, self.relative.high))

    @property
    def agree(self) -> bool:
        """Whether plain and pooled agree within three standard errors of their difference."""
        return self.apart.low <= 0.0 <= self.apart.high

    def to_dict(self) -> Json:
        """Return the JSON form."""
        return {**Record.to_dict(self), "agree": self.agree}


@dataclass(frozen=True, slots=True)
class ArmMetric(Record):
    """One metric of a test: what each arm earned, the lift of each over the baseline, and lifts in groups of rows."""

    name: str
    primary: bool
    arms: tuple[Arm, ...]
    lifts: tuple[ArmLift, ...]
    expression: str = ""
    unit: str = ""
    lower_is_better: bool = False
    segments: tuple[Segment, ...] = ()

    def lift(self, to: str) -> ArmLift:
        """Return the lift of an arm over the baseline."""
        for lift in self.lifts:
            if lift.to == to:
                return lift
        arm_names = comma_separated([lift.to for lift in self.lifts])
        raise ConfigError(
            f"there is no lift of '{to}' over '{self.lifts[0].source}'; arm_names: {arm_names}"
        )


@dataclass(frozen=True, slots=True)
class ArmDecision(Record):
    """What to do: ship an arm, stop the test, or let it go on, and for how long.

    `rows` are the further rankings of all arms together until a lift of `practical` would be seen with a
    chance of 80 %, `days` the days that they take; None where nobody would wait so long, or days are unknown.
    """

    action: Action
    reasons: tuple[Finding, ...] = ()
    target: str | None = None
    targets: dict[str, str] = field(default_factory=dict)
    rows: int | None = None
    days: float | None = None
    practical: float = SHARE


@dataclass(frozen=True, slots=True)
class ABTest(RecordResult):
    """A test: whether its arms can be compared, their lifts in every metric over the baseline, and what to do.

    `arms` and `lifts` are those of the primary metric.

    Examples
    --------
    >>> import counterrank as cr
    >>> half = [[.5, .5]] * 200
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 100, reward=[[1, 0], [0, 0]] * 100, propensity=half,
    ...                     columns={"arm": ["a", "a", "b", "b"] * 50}, targets={"a": half, "b": half})
    >>> [(lift.source, lift.to) for lift in cr.abtest(log, "arm", baseline="a").lifts]
    [('a', 'b')]
    """

    SCHEMA, NAME, ROWS = "counterrank/abtest/2", "A/B test", "lifts"
    REPORT = "counterrank.report.abtest"

    metrics: tuple[ArmMetric, ...]
    baseline: str
    level: float
    #: Intervals hold at every look, and are shortest at about so many rows; None: one look.
    sequential: int | None = None
    notes: tuple[Finding, ...] = ()
    guardrails: tuple[GuardrailResult, ...] = ()
    decision: ArmDecision | None = None
    sample_ratio: SampleRatio | None = None
    #: The rows of each day, where the log says days.
    rows_a_day: float | None = optional()

    @property
    def valid(self) -> bool:
        """Whether no check says that the arms cannot be compared."""
        return not any(finding.status is FAILED for finding in self.notes)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """What each arm earned of the primary metric."""
        return self.metric().arms

    @property
    def lifts(self) -> tuple[ArmLift, ...]:
        """The lifts in the primary metric."""
        return self.metric().lifts

    def metric(self, name: str | None = None) -> ArmMetric:
        """Return a metric by its name; by default the primary."""
        for metric in self.metrics:
            if metric.primary if name is None else metric.name == name:
                return metric
        raise unknown("metric", name or "primary", [metric.name for metric in self.metrics])

    def lift(self, to: str, metric: str | None = None) -> ArmLift:
        """Return the lift of an arm over the baseline, by default in the primary metric."""
        return self.metric(metric).lift(to)

    def to_dict(self) -> Json:
        """Return the JSON form; `arms` and `lifts` of the primary stand at the top, too."""
        written = RecordResult.to_dict(self)
        primary = self.metric().to_dict()
        return {**written, "arms": primary["arms"], "lifts": primary["lifts"]}

    @classmethod
    def updated(cls, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a file of version 1, which had one metric, under the names of today's fields."""
        if "metrics" in record or "lifts" not in record:
            return record
        single = {"arms": record.get("arms"), "lifts": record["lifts"]}
        return {**record, "metrics": [{"name": "reward", "primary": True, **single}]}

    def __repr__(self) -> str:
        """Return the lifts of the primary in a line."""
        lifts = ", ".join(
            f"{row.to}: {row.lift.value:+.4g} ({row.lift.low:+.4g} to {row.lift.high:+.4g})"
            for row in self.lifts
        )
        return f"ABTest(baseline={self.baseline!r}, {lifts})"
