"""What an estimator is: a plan made from the log, one additive pass, and a finish that gives an estimate.

`Estimator.plan(workspace)` fits whatever must be fitted (nothing, for IPS); `Plan.partial(view)`
turns a batch into something that adds; `Plan.finish(sum)` turns the sum into an `Estimate`. Plans
with equal keys share a pass.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Floats, Ints
from counterrank.blas import single_blas_thread
from counterrank.data.log import Probabilities, RankingLog
from counterrank.data.source import Source, Summand
from counterrank.errors import ConfigError, EstimatorError
from counterrank.estimators.behavior import BehaviorTree
from counterrank.estimators.names import parse
from counterrank.estimators.weights.diagnostics import one_unit
from counterrank.estimators.weights.moments import KindMoments, Moments, moments_of_ratios
from counterrank.estimators.weights.ratios import Ratios, common_numbers, ratios_of
from counterrank.messages import Message, code_of, say
from counterrank.models import Memo
from counterrank.records import Json, Record, optional
from counterrank.statistics import (
    ONCE,
    Contrast,
    Interval,
    Looks,
    Number,
    check_level,
    critical_value,
)


@dataclass(frozen=True, slots=True)
class PositionValue(Record):
    """The value at one position, and its standard error."""

    value: float
    stderr: float

    @classmethod
    def each(cls, values: Floats, variances: Floats) -> tuple[PositionValue, ...]:
        """Return the positions from their values and variances (K,)."""
        errors = np.sqrt(np.maximum(variances, 0.0))
        return tuple(cls(float(v), float(e)) for v, e in zip(values, errors, strict=True))


@dataclass(frozen=True, slots=True, repr=False)
class Lift(Number):
    """The difference to what the logging policy earned on the same rows.

    `value` with `stderr` and the interval `low` to `high` at the evaluation's level; `by_position`
    the same position by position; `relative` the difference as a share of what the logger earned,
    with an interval of its own (delta method), NaN when the logger earned nothing.
    """

    by_position: tuple[PositionValue, ...] = ()
    relative: float = float("nan")
    relative_low: float = float("nan")
    relative_high: float = float("nan")
    #: Standard error of the relative lift, and intervals that hold for all metrics together.
    relative_stderr: float | None = optional()
    adjusted_low: float | None = optional()
    adjusted_high: float | None = optional()
    adjusted_relative_low: float | None = optional()
    adjusted_relative_high: float | None = optional()

    @classmethod
    def of(
        cls, contrast: Contrast, level: float, looks: Looks, by_position: tuple[PositionValue, ...]
    ) -> Lift:
        """Return the lift of a contrast."""
        lift, relative = (one.number(level, looks) for one in (contrast.lift, contrast.relative))
        return cls(
            lift.value, lift.stderr, lift.low, lift.high, by_position,
            relative.value, relative.low, relative.high,
        )  # fmt: skip

    def __repr__(self) -> str:
        """Return value and interval; the positions alone would fill lines."""
        return f"Lift({self.value:+.6g} ({self.low:+.6g} to {self.high:+.6g}))"


@dataclass(frozen=True, slots=True, eq=False)
class Estimate(Record):
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
    `weighted`              the share of the estimate that weights move: 0 where it rests on models
    `unreached`             the share of the target that no weight reaches, so that models speak for it
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
    details: Json = field(default_factory=dict)
    moments: Moments | None = field(default=None, repr=False)
    #: The quantities behind the numbers, from which intervals at other levels follow.
    contrast: Contrast | None = field(default=None, repr=False)
    #: How often the log is looked at.
    looks: Looks = ONCE
    #: The interval at `level` of an estimate that was read from a file.
    ends: Interval | None = field(default=None, repr=False)
    allowance: float = 0.0
    basis: str = ""
    weighted: float = 1.0
    unreached: float = 0.0
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
        warnings = f", flags: {len(self.flags)}" if self.flags else ""
        ends = "no interval" if np.isnan(low) else f"{low:.6g} to {high:.6g}"
        return (
            f"{self.estimator} of {self.target}: {self.value:.6g} ({ends}), n = "
            f"{self.n:,}{warnings}"
        )

    def __repr__(self) -> str:
        """Return the same with the class's name: all fields would fill a screen."""
        return f"Estimate({self})"

    def interval(self, level: float | None = None, method: str = "t") -> Interval:
        """Return (low, high) at a confidence level (that of the evaluation by default)."""
        if method != "t":
            raise ConfigError(
                f"there is no interval method '{method}'",
                remedy="leave `method` out: an estimate has one interval, from its standard error "
                "by row or unit and the bias it allows for",
            )
        wanted = self.level if level is None else check_level(level)
        if self.contrast is not None:
            return self.contrast.value.interval(wanted, self.looks)
        if self.ends is None:
            half = critical_value(wanted) * self.stderr
            return self.value - half, self.value + half
        if wanted != self.level:
            raise ConfigError(
                f"a stored estimate has its interval at level {self.level}, not at {wanted}",
                remedy="evaluate the log again with that level",
            )
        return self.ends

    def lift_at(self, level: float, family: int = 1) -> tuple[Number, Number]:
        """Return the lift and the relative lift at another level, or of `family` lifts together."""
        if self.contrast is None:
            return Number(math.nan), Number(math.nan)
        lift, relative = self.contrast.lift, self.contrast.relative
        return lift.number(level, self.looks, family), relative.number(level, self.looks, family)

    def resting_on(
        self, contrast: Contrast, by_position: tuple[PositionValue, ...] | None = None
    ) -> Estimate:
        """Return the estimate with the numbers of other quantities; `by_position` are lifts."""
        places = self.lift.by_position if by_position is None else by_position
        return replace(
            self,
            value=contrast.value.value,
            stderr=contrast.value.stderr,
            allowance=contrast.value.allowance,
            lift=Lift.of(contrast, self.level, self.looks, places),
            contrast=contrast,
        )

    def flaw(self) -> tuple[str, str] | None:
        """Return the level where it is none."""
        return None if 0 < self.level < 1 else ("level", "between 0 and 1")

    @property
    def estimable(self) -> bool:
        """The log holds evidence on this value; where not, there is no value and `not_estimable` says why."""
        return not self.not_estimable

    @property
    def low(self) -> float:
        """Lower end of the interval at the evaluation's level."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """Upper end of the interval at the evaluation's level."""
        return self.interval()[1]

    def without_spread(self) -> Estimate:
        """Return the same value without errors and intervals, flagged: what one ranking or unit can tell."""
        flags = self.flags if one_unit() in self.flags else (one_unit(), *self.flags)
        bare = replace(
            self, by_position=_bare(self.by_position), flags=flags, details=_bare_details(self.details)
        )  # fmt: skip
        if self.contrast is None:
            return bare
        return bare.resting_on(self.contrast.without_error(), _bare(self.lift.by_position))

    def without_evidence(self, reason: str) -> Estimate:
        """Return the estimate without any value, error or interval, and the reason."""
        nothing = tuple(PositionValue(np.nan, np.nan) for _ in self.by_position)
        return replace(
            self,
            value=np.nan,
            stderr=np.nan,
            by_position=nothing,
            not_estimable=reason,
            lift=Lift(np.nan, np.nan, np.nan, np.nan, nothing),
            flags=(Message("not-estimable", reason), *self.flags),
            contrast=None,
        )

    def to_dict(self) -> Json:
        """Return the JSON form of the contract: full precision, plain types."""
        low, high = self.interval()
        result: Json = {
            "target": self.target,
            "estimator": self.estimator,
            "value": self.value,
            "stderr": self.stderr,
            "low": low,
            "high": high,
            "level": self.level,
            "by_position": [p.to_dict() for p in self.by_position],
            "ess": self.ess,
            "flags": list(self.flags),
            "flag_codes": [code_of(flag) for flag in self.flags],
            "estimable": self.estimable,
        }
        if not self.estimable:
            result["not_estimable"] = self.not_estimable
        if self.details:
            result["details"] = self.details
        return result


def nothing_known(target: str, estimator: str, n: int, reason: str) -> Estimate:
    """Return the estimate without value of an estimator that failed."""
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


State = TypeVar("State", bound=Summand)


class View(Memo):
    """A batch as one target sees it: ratios and rewards, computed once and shared by all estimators.

    What is kept by `once` must not depend on rewards: views of other rewards share it.
    """

    def __init__(self, batch: RankingLog, target: str, like: View | None = None) -> None:
        """Look at a batch.

        `like` is a view of the same rankings with another reward; ratios, draws and all else that does
        not depend on rewards are shared with it.
        """
        self.batch = batch
        self.target = target
        self.like = like
        self._standard: dict[str, KindMoments] = {}
        self._parts: dict[Hashable, View] = {}
        # Prepared rankings depend on whether rewards are of the page.
        same = like is not None and like.batch.page_reward == batch.page_reward
        self.memo: dict[Hashable, Any] = like.memo if like is not None and same else {}

    def part(self, key: Hashable, rows: Ints) -> View:
        """Return the view of some rows; views of other rewards share its ratios and draws too."""
        like = None if self.like is None else self.like.part(key, rows)
        if key not in self._parts:
            self._parts[key] = View(self.batch.take(rows), self.target, like)
        return self._parts[key]

    @property
    def draws_of(self) -> View:
        """The view whose draws of rankings are used: that of the first reward."""
        return self if self.like is None else self.like.draws_of

    @cached_property
    def numbers(self) -> tuple[str, Floats, Floats]:
        """The kind of probabilities both policies have, and the logger's and target's (n, K)."""
        return common_numbers(self.batch, self.target) if self.like is None else self.like.numbers

    @cached_property
    def ratios(self) -> Ratios:
        """The ratios of target to logger."""
        if self.like is not None:
            return replace(self.like.ratios, batch=self.batch)
        return ratios_of(self.batch, self.target, self.numbers)

    @cached_property
    def reward(self) -> Floats:
        """Rewards (n, K) in Fortran order, the layout in which sums over rows are fast."""
        return np.asfortranarray(self.batch.reward)

    def standard(self, kinds: Mapping[str, bool]) -> dict[str, KindMoments]:
        """Return moments and rows of standard weights, made in one pass and kept; see `moments_of_ratios`."""
        found = self._standard
        if any(k not in found or (full and found[k][0].gram is None) for k, full in kinds.items()):
            batch = self.batch
            _, logging, target = self.numbers
            found = self._standard = moments_of_ratios(
                target, logging, batch.lengths, batch.reward, alpha=batch.position_weights, kinds=kinds
            )  # fmt: skip
        return found

    @property
    def position_sums(self) -> Floats | None:
        """Sums of w and w^2 (2, K) of each item's own weight, padding as ones, where they were made."""
        if "position" not in self._standard:
            return None
        moments, _ = self._standard["position"]
        return moments.n * np.stack([moments.mean("w"), moments.mean("ww")])


@dataclass(frozen=True)
class Workspace(Memo):
    """The log, the target and the options of one evaluation; `once` shares what several estimators need."""

    source: Source
    target: str
    level: float = 0.95
    seed: int = 0
    #: Sum by unit too, for clustered errors.
    by_unit: bool = False
    looks: Looks = ONCE
    #: How a behaviour tree is grown where an estimator fits one; None: the default tree.
    tree: BehaviorTree | None = None
    memo: dict[Hashable, Any] = field(default_factory=dict)
    #: What does not depend on rewards: workspaces of other rewards of the same rows have it too.
    shared: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def first(self) -> RankingLog:
        """A small batch: K, names, kinds."""
        return self.source.first

    @cached_property
    def ratios(self) -> Ratios:
        """The ratios of the first rows, of the same kind as all others."""
        return ratios_of(self.first, self.target)

    def estimate(
        self,
        estimator: str,
        contrast: Contrast,
        by_position: tuple[PositionValue, ...],
        lifts: tuple[PositionValue, ...],
        **more: Any,
    ) -> Estimate:
        """Return the estimate of a contrast with the logger; `lifts` are those of the positions."""
        value = contrast.value
        return Estimate(
            self.target, estimator, value.value, value.stderr, by_position, level=self.level,
            lift=Lift.of(contrast, self.level, self.looks, lifts), contrast=contrast, looks=self.looks,
            allowance=value.allowance, **more,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part(Generic[State]):
    """What a plan makes of a batch: a state that adds, and what gives columns of its rows for paired comparisons."""

    state: State
    #: Columns (n,), made where they are asked for; `combination` makes the estimate of them.
    columns: Callable[[], list[Floats]]
    #: The columns (n,) behind the value of a position, by its number; `Plan.placed` makes the value of them.
    places: Callable[[int], list[Floats]]


class Plan(ABC, Generic[State]):
    """An estimator made ready for a log and a target."""

    #: Plans with equal keys compute the same state and share it.
    key: Hashable
    #: Among plans with equal keys, the one with the greatest detail makes the state for all.
    detail: int = 0
    #: The behaviour tree behind the weights, where one was fitted: shown in the report.
    behavior_model: BehaviorTree | None = None

    @abstractmethod
    def partial(self, view: View) -> Part[State]:
        """Return the additive state of a batch and its per-row totals."""

    @abstractmethod
    def finish(self, state: State) -> Estimate:
        """Return the estimate from the state of all rows."""

    def weights(self, view: View) -> Floats | None:
        """Return the weights (n, K) of a batch; None where the estimate is no mean of weighted rows."""
        return None

    def combination(self, state: State) -> Floats:
        """Return how the estimate combines the columns of `totals` (c,), for covariances between estimates."""
        return np.ones(1)

    def controls(self, state: State) -> int:
        """Return how many of those columns, the last ones, are controls of mean zero."""
        return 0

    @abstractmethod
    def placed(self, state: State) -> Floats:
        """Return how the value of each position combines its columns (K, c)."""

    def within(self, state: State) -> Plan[State]:
        """Return the plan for groups of the rows of this state, which follow what all rows decided."""
        return self

    def estimate(self, state: State) -> Estimate:
        """Return what `finish` makes of the state; of a single ranking or unit, the value alone."""
        found = self.finish(state)
        units = found.n if found.contrast is None else found.contrast.value.sample.units
        return found if units > 1 else found.without_spread()


class Estimator(ABC):
    """A recipe; holds parameters only."""

    #: The name in commands and results.
    name: str

    @abstractmethod
    def plan(self, workspace: Workspace) -> Plan[Any]:
        """Return the plan for a log and target, fitting what needs fitting."""

    def refuse_weight(self, log: RankingLog) -> None:
        """Raise where rows have weights and this estimator would not use them."""
        if log.weight is not None and not parse(self.name).fixed:
            raise EstimatorError(
                f"'{self.name}' fits to rows as if all had been kept, and these have weights "
                f"({say('--weight', 'COLUMN')})",
                remedy="use ips, iips, rips, order-2 or order-3, or their ratios (snips, sniips, ...)",
            )

    @single_blas_thread
    def estimate(
        self,
        log: RankingLog,
        target: str | Probabilities | ArrayLike,
        *,
        level: float = 0.95,
        seed: int = 0,
        by_unit: bool | None = None,
    ) -> Estimate:
        """Return the estimate on a log in memory; `target` is a column name, an array, a Propensity or a Policy.

        `by_unit` counts units, not rows, in standard errors (by default where the log has units).
        """
        from counterrank.data.source import MemorySource

        name = target if isinstance(target, str) else "target"
        whole = log if isinstance(target, str) else log.with_targets({name: target})
        units = whole.summed_by_unit if by_unit is None else by_unit or whole.weight is not None
        source = MemorySource(whole)
        self.refuse_weight(source.first)
        plan = self.plan(Workspace(source, name, level=level, seed=seed, by_unit=units))
        state = source.reduce(lambda batch: plan.partial(View(batch, name)).state, label=self.name)
        return plan.estimate(state)
