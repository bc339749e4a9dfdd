"""The result of a plan: options with their costs and detectable lifts, and the chosen one."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace

from counterrank.common import atomic
from counterrank.common.records import Record, RecordResult
from counterrank.evaluation import sensible
from counterrank.policies import exploration_file, parse_policy


@dataclass(frozen=True, slots=True)
class Cost(Record):
    """The loss against production, relative to the reward of production.

    `rests_on` is "log" if it was estimated from the log, and "models" if it was predicted.
    """

    value: float
    low: float
    high: float
    rests_on: str


@dataclass(frozen=True, slots=True)
class DetectableLift(Record):
    """The smallest relative `lift` of a target that is detected from `rows` rankings with probability 80 %.

    The lift is None if there are too few effective rows. `estimator` is the best estimator, `stderr`
    its predicted standard error of the relative lift, `allowance` its possible bias, and `effective`
    its number of effective rows. `rows_needed` is the number of rows for the requested lift, or None
    if no realistic number suffices. `weekly` is the detectable lift from the rankings of a week, or
    None if their number is unknown.
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

    def by_auto(self, factor: float, requested: float, fewest: float) -> DetectableLift:
        """Return what `auto` detects, for which a lift must be a number of times as large.

        Its interval shrinks with the root of the rows. `requested` is the requested lift, `fewest` the effective
        rows below which there is no evidence.
        """

        def times(value: float | None) -> float | None:
            return None if value is None else value * factor

        rows: float | None = None
        if self.lift is not None:
            fewest_rows = fewest * self.rows / self.effective
            rows = max(self.rows * (self.lift * factor / requested) ** 2, fewest_rows)
        elif self.rows_needed is not None:
            rows = self.rows_needed * factor**2
        return replace(
            self,
            lift=times(self.lift),
            estimator="auto",
            stderr=times(self.stderr),
            allowance=times(self.allowance),
            rows_needed=None if rows is None else sensible(rows, self.rows),
            weekly=times(self.weekly),
        )


@dataclass(frozen=True, slots=True)
class ExplorationOption(Record):
    """A kind of exploration with its spec for `--logger`, its cost and the detectable lifts."""

    kind: str
    spec: str
    cost: Cost
    detectable: tuple[DetectableLift, ...]

    def worst(self, targets: tuple[str, ...]) -> float:
        """Return the largest detectable lift among targets, infinite if one is not detectable."""
        return self._largest("lift", targets)

    def needed(self, targets: tuple[str, ...]) -> float:
        """Return the rows needed for the requested lift of all targets, infinite if none suffice."""
        return self._largest("rows_needed", targets)

    def _largest(self, name: str, targets: tuple[str, ...]) -> float:
        values = [lift[name] for lift in self.detectable if lift.target in targets]
        return max((math.inf if value is None else value for value in values), default=math.inf)


@dataclass(frozen=True, slots=True)
class ExplorationPlan(RecordResult):
    """The result of `counterrank.plan`: options of exploration, and the chosen one.

    Attributes
    ----------
    options
        All options that were compared; the first is today's policy.
    frontier
        Indices of the options that no other option beats in both cost and detectable lift.
    chosen
        The index of the cheapest option that detects the requested lift; if there is none, of the
        option within the budget that detects the smallest lift.
    reached
        Whether the chosen option detects the requested lift from as many rows as the log has.
    judged
        The targets that count: the given candidates, or else the families of future rankers.
    rows, rows_per_week
        Number of rankings of the log, and of a week (None if unknown).
    detect, budget
        The requested relative lift, and the allowed relative loss.
    value
        The mean reward of production per ranking.
    notes
        Remarks on how to read the plan.

    Examples
    --------
    >>> lift = DetectableLift("new", 0.02, 1000, "ips", 0.01, 0.0, 900.0, 4000)
    >>> today = ExplorationOption("as today", "top", Cost(0.0, 0.0, 0.0, "log"), (lift,))
    >>> ExplorationPlan(
    ...     options=(today,),
    ...     frontier=(0,),
    ...     chosen=0,
    ...     reached=False,
    ...     judged=("new",),
    ...     rows=1000,
    ...     rows_per_week=None,
    ...     detect=0.01,
    ...     budget=0.01,
    ...     level=0.95,
    ...     value=1.2,
    ... )
    ExplorationPlan('top', cost=0, options=1)
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
        """The spec of the chosen option, for `--logger`."""
        return self.choice.spec

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chosen policy and the plan to a JSON file, for the server and for `--logger`."""
        best = self.choice
        notes = {"kind": best.kind, "cost": best.cost.value, "planned_for": list(self.judged)}
        text = exploration_file(parse_policy(best.spec), {**notes, "result": self.to_dict()})
        atomic.write_text(path, text)

    def __repr__(self) -> str:
        """Return the chosen option in a line."""
        return f"ExplorationPlan({self.spec!r}, cost={self.choice.cost.value:.4g}, options={len(self.options)})"
