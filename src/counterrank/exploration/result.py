"""A plan as data: options with what they lose and what they buy, and the one that is chosen."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from counterrank import atomic
from counterrank.policies import exploration_file, parse_policy
from counterrank.records import Record, RecordResult


@dataclass(frozen=True, slots=True)
class Cost(Record):
    """The loss of the metric against production, relative to what production earns.

    `rests_on` is "log" where the log shows it, "models" where nothing but models of users does.
    """

    value: float
    low: float
    high: float
    rests_on: str


@dataclass(frozen=True, slots=True)
class DetectableLift(Record):
    """The smallest relative `lift` of a target that `rows` rankings show with probability 80 %.

    None where too few of them would count.

    `stderr` is the predicted standard error of the relative lift from that many rankings, `allowance`
    the bias that no number of them takes away, `estimator` the one that does best, `effective` its
    effective rows. `rows_needed` are those for the wanted lift, None where no sensible number does;
    `weekly` is the detectable lift of one week's rankings, None where these are not known.
    """

    target: str
    lift: float | None
    rows: int
    estimator: str
    stderr: float | None
    allowance: float | None
    effective: float
    rows_needed: int | None
    weekly: float | None = None


@dataclass(frozen=True, slots=True)
class ExplorationOption(Record):
    """A way to explore: its kind in words, the spec for `--logger`, what it loses and what it buys."""

    kind: str
    spec: str
    cost: Cost
    detectable: tuple[DetectableLift, ...]

    def worst(self, targets: tuple[str, ...]) -> float:
        """Return the largest detectable lift among targets; infinite where one is never shown."""
        return self._largest("lift", targets)

    def needed(self, targets: tuple[str, ...]) -> float:
        """Return the rows that show the wanted lift of all targets; infinite where none do."""
        return self._largest("rows_needed", targets)

    def _largest(self, name: str, targets: tuple[str, ...]) -> float:
        values = [lift[name] for lift in self.detectable if lift.target in targets]
        return max((math.inf if value is None else value for value in values), default=math.inf)


@dataclass(frozen=True, slots=True)
class ExplorationPlan(RecordResult):
    """What to randomise so that next rankers can be evaluated, and what it costs.

    Attributes
    ----------
    options
        All that was tried, today's policy first.
    frontier
        Numbers of the options that no other beats in both cost and detectable lift.
    chosen
        The number of the cheapest option that shows the wanted lift; else of the one that shows most
        within the budget.
    reached
        Whether the chosen option shows the wanted lift from as many rows as the log has.
    judged
        The targets that count: candidates where some were given, else the families of future rankers.
    rows, rows_per_week
        Rankings of the log, and of a week (None where it was not said).
    detect, budget
        The relative lift that is wanted, and the relative loss that is allowed.
    value
        What production earns per ranking.
    notes
        What has to be known to read the plan.
    """

    SCHEMA, NAME, ROWS = "counterrank/plan/1", "plan", "options"
    REPORT = "counterrank.report.plan"

    options: tuple[ExplorationOption, ...]
    frontier: tuple[int, ...]
    chosen: int
    reached: bool
    judged: tuple[str, ...]
    rows: int
    rows_per_week: float | None
    detect: float
    budget: float
    level: float
    value: float
    notes: tuple[str, ...] = ()

    @property
    def choice(self) -> ExplorationOption:
        """The chosen option."""
        return self.options[self.chosen]

    @property
    def spec(self) -> str:
        """The spec of the chosen option, as `--logger` takes it."""
        return self.choice.spec

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chosen policy to a JSON file, for the server and for `--logger`, with the plan inside."""
        best = self.choice
        notes = {"kind": best.kind, "cost": best.cost.value, "planned_for": list(self.judged)}
        text = exploration_file(parse_policy(best.spec), {**notes, "result": self.to_dict()})
        atomic.write_text(path, text)

    def __repr__(self) -> str:
        """Return the choice in a line."""
        return f"ExplorationPlan({self.spec!r}, cost={self.choice.cost.value:.4g}, options={len(self.options)})"
