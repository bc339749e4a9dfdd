"""What an estimator is: fitted to a log, it says numbers of each row, and solves their sums.

`Estimator.fit(workspace)` fits whatever must be fitted (nothing, for IPS); `Fitted.columns(view)` names numbers
of the rows of a batch; `Fitted.solve(sums, more)` turns their sums into a `Solution`: quantities over the
columns, from which every lift, ratio and difference follows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.blas import single_blas_thread
from counterrank.common.errors import ConfigError, EstimatorError
from counterrank.common.messages import Message, code_of, say
from counterrank.common.records import Json, Record, optional
from counterrank.data.log import Probabilities, RankingLog
from counterrank.data.source import Source
from counterrank.estimators.behavior import BehaviorTree
from counterrank.estimators.columns import Columns, LogSums, logged, summed
from counterrank.estimators.solution import Solution, Traits
from counterrank.estimators.weights.diagnostics import one_unit
from counterrank.estimators.weights.moments import KindMoments, Moments, moments_of_ratios
from counterrank.estimators.weights.ratios import (
    LoggerAnswers,
    Ratios,
    common_numbers,
    ratios_of,
)
from counterrank.models import Memo
from counterrank.statistics import (
    ONCE,
    ColumnSums,
    Interval,
    Key,
    Looks,
    Number,
    Quantity,
    check_level,
    contrast,
    critical_value,
)


@dataclass(frozen=True, slots=True)
class PositionValue(Record):
    """The value at one position, and its standard error."""

    value: float
    stderr: float


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

    @property
    def decisive(self) -> Interval:
        """The interval whose side of zero says better or worse, wherever that is said."""
        return decisive(self, (self.relative_low, self.relative_high))

    def __repr__(self) -> str:
        """Return value and interval; the positions alone would fill lines."""
        return f"Lift({self.value:+.6g} ({self.low:+.6g} to {self.high:+.6g}))"


def decisive(lift: Number, relative: Interval) -> Interval:
    """Return the interval of a lift, up to zero where that of the relative lift holds zero.

    The second is an approximation of its own (delta method), and both are shown: what is called better or
    worse must be so in either.

    >>> decisive(Number(2.0, 1.0, 0.1, 3.9), (-0.01, 0.4)), decisive(Number(2.0, 1.0, 0.1, 3.9), (math.nan, math.nan))
    ((0.0, 3.9), (0.1, 3.9))
    """
    low, high = relative
    return min(lift.low, 0.0) if low <= 0.0 else lift.low, max(
        lift.high, 0.0
    ) if high >= 0.0 else lift.high


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

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> estimate = cr.IIPS().estimate(log, [[1, .5], [.5, .5]])
    >>> estimate.estimator, estimate.value, [position.value for position in estimate.by_position]
    ('iips', 1.5, [1.0, 0.5])
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
    #: The value, and the pair whose difference is the lift: intervals at other levels follow from them.
    quantity: Quantity | None = field(default=None, repr=False)
    pair: tuple[Quantity, Quantity] | None = field(default=None, repr=False)
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

    #: What the weights of `basis` assume.
    traits: Traits | None = field(default=None, repr=False)

    @classmethod
    def from_solution(
        cls,
        solution: Solution,
        target: str,
        estimator: str,
        *,
        level: float = 0.95,
        looks: Looks = ONCE,
        pair: tuple[Quantity, Quantity] | None = None,
        places: Sequence[tuple[Quantity, Quantity]] | None = None,
    ) -> Estimate:
        """Return the estimate of a solution; where there is no evidence the value is NaN.

        Parameters
        ----------
        solution
            What the estimator made of the sums.
        target, estimator
            The names of the policy and of the estimator.
        level, looks
            How intervals are made.
        pair, places
            The values whose difference is the lift, of the page and of each position; by default the value
            and what the logger earned.
        """
        value, pair = solution.total, pair or (solution.total, solution.logged)
        flags, details = solution.flags, solution.details
        if value.sample.units < 2:
            # One ranking or unit has no error, also not in what is told of the fit.
            flags = flags if one_unit() in flags else (one_unit(), *flags)
            details = _without_errors(details)
        if places is None:
            places = list(zip(solution.positions, solution.logged_positions, strict=True))
        lifts = [k.zero_like() if k is base else k - base for k, base in places]
        by_position, lifts_by_position = (
            tuple(PositionValue(quantity.value, quantity.stderr) for quantity in quantities)
            for quantities in (solution.positions, lifts)
        )
        lift, relative = (quantity.number(level, looks) for quantity in contrast(*pair))
        estimate = cls(
            target,
            estimator,
            value.value,
            value.stderr,
            by_position,
            solution.ess,
            value.sample.n,
            level,
            Lift(*lift.figures, lifts_by_position, relative.value, relative.low, relative.high),
            flags,
            details,
            solution.moments,
            value,
            pair,
            looks,
            allowance=value.allowance,
            basis=solution.basis or estimator,
            weighted=solution.weighted,
            unreached=solution.unreached,
            traits=solution.traits,
        )
        reason = solution.not_estimable
        return estimate.without_evidence(reason) if reason else estimate

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
        asked_level = self.level if level is None else check_level(level)
        if self.quantity is not None:
            return self.quantity.interval(asked_level, self.looks)
        if self.ends is None:
            half = critical_value(asked_level) * self.stderr
            return self.value - half, self.value + half
        if asked_level != self.level:
            raise ConfigError(
                f"a stored estimate has its interval at level {self.level}, not at {asked_level}",
                remedy="evaluate the log again with that level",
            )
        return self.ends

    def lift_at(self, level: float, family: int = 1) -> tuple[Number, Number]:
        """Return the lift and the relative lift at another level, or of `family` lifts together."""
        if self.pair is None:
            return Number(math.nan), Number(math.nan)
        lift, relative = contrast(*self.pair)
        return lift.number(level, self.looks, family), relative.number(level, self.looks, family)

    def flaw(self) -> tuple[str, str] | None:
        """Return ('level', reason) if the level is outside (0, 1)."""
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
            quantity=None,
            pair=None,
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


def _without_errors(details: Any) -> Any:
    """Return details with no number where they have a standard error."""
    if isinstance(details, dict):
        return {
            key: np.nan if key.endswith("stderr") else _without_errors(value)
            for key, value in details.items()
        }
    return [_without_errors(value) for value in details] if isinstance(details, list) else details


class View(Memo):
    """A batch as one target sees it: ratios and rewards, computed once and shared by all estimators.

    What is kept by `once` must not depend on rewards: views of other rewards share it.
    """

    def __init__(
        self,
        batch: RankingLog,
        target: str,
        template: View | None = None,
        *,
        within: tuple[View, Ints] | None = None,
        by_logger: LoggerAnswers | None = None,
    ) -> None:
        """Look at a batch.

        `template` is a view of the same rankings with another reward; ratios, draws and all else that does
        not depend on rewards are shared with it. `within` is the view of which this one has some rows,
        and these rows; `by_logger` the logger's answers, which views of other targets share.
        """
        self.batch = batch
        self.target = target
        self.template = template
        self.within = within
        self.by_logger: LoggerAnswers = {} if by_logger is None else by_logger
        self._standard: dict[str, KindMoments] = {}
        #: The views of all rewards, this one too.
        self.views: WeakSet[View] = WeakSet() if template is None else template.views
        self.views.add(self)
        self._parts: dict[Hashable, View] = {}
        # Prepared rankings depend on whether rewards are of the page.
        alike = template is not None and template.batch.page_reward == batch.page_reward
        self.memo: dict[Hashable, Any] = template.memo if template is not None and alike else {}

    def part(self, key: Hashable, rows: Ints) -> View:
        """Return the view of some rows; views of other rewards share its ratios and draws too."""
        template = None if self.template is None else self.template.part(key, rows)
        if key not in self._parts:
            self._parts[key] = View(
                self.batch.take(rows), self.target, template, within=(self, rows)
            )
        return self._parts[key]

    @property
    def draws_of(self) -> View:
        """The view whose draws of rankings are used: that of the first reward."""
        return self if self.template is None else self.template.draws_of

    @cached_property
    def numbers(self) -> tuple[str, Floats, Floats]:
        """The kind of probabilities both policies have, and the logger's and target's (n, K)."""
        return (
            common_numbers(self.batch, self.target)
            if self.template is None
            else self.template.numbers
        )

    @cached_property
    def ratios(self) -> Ratios:
        """The ratios of target to logger."""
        if self.template is not None:
            return replace(self.template.ratios, batch=self.batch)
        if self.within is not None:
            parent, rows = self.within
            return parent.ratios.part(self.batch, self.target, rows, self.by_logger)
        return ratios_of(self.batch, self.target, self.numbers, self.by_logger)

    @cached_property
    def reward(self) -> Floats:
        """Rewards (n, K) in Fortran order, the layout in which sums over rows are fast."""
        return np.asfortranarray(self.batch.reward)

    @cached_property
    def shown(self) -> Bools:
        """Where an item stands (n, K), in the same layout."""
        return np.asfortranarray(self.batch.action >= 0)

    def standard(self, kinds: Collection[str]) -> dict[str, KindMoments]:
        """Return moments and rows of standard weights, of all rewards in one pass; see `moments_of_ratios`."""
        if not self._standard.keys() >= set(kinds):
            _, logging, target = self.numbers
            alpha = self.batch.position_weights
            views = [self, *self.views.difference([self])]
            views = [view for view in views if (view.batch.position_weights == alpha).all()]
            rewards = [view.batch.reward for view in views]
            tables = moments_of_ratios(
                target, logging, self.batch.lengths, rewards, alpha=alpha, kinds=kinds
            )
            for view, table in zip(views, tables, strict=True):
                view._standard = table
        return self._standard

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
    #: The metric that the source's rewards are.
    metric: str = "reward"
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


class Fitted(ABC):
    """An estimator fitted to a metric and a target of a log, ready for a pass over all rows.

    ================  ========================================================================
    `name`            the name of the estimator
    `workspace`       what it was fitted to
    `traits`          what it assumes of users
    `key`             fits with equal keys say the same of each row
    `mean_of`         the row total of which the estimate is the mean, where it is one
    `behavior_model`  the behaviour tree behind the weights, where one was fitted
    ================  ========================================================================
    """

    name: str
    workspace: Workspace
    traits: Traits
    key: Key
    mean_of: Key | None = None
    behavior_model: BehaviorTree | None = None

    @abstractmethod
    def columns(self, view: View) -> Columns:
        """Return what the estimator says of the rows of a batch."""

    @abstractmethod
    def solve(self, sums: ColumnSums, extras: Any, overall: Solution | None = None) -> Solution:
        """Return the solution over some rows.

        Parameters
        ----------
        sums
            The sums of all columns, also of other estimators.
        extras
            The sum of what `Columns.extras` returned.
        overall
            The solution over all rows, where these are a group of them.
        """

    def weights(self, view: View) -> Floats | None:
        """Return the weights (n, K) of a batch; None where the estimate is no mean of weighted rows."""
        return None

    def sums(self, batch: RankingLog) -> LogSums:
        """Return the sums over a batch of what this estimator alone needs."""
        return sums_of_fits(batch, [self])

    def solution(self, state: LogSums) -> Solution:
        """Return the solution over sums that hold this estimator's columns."""
        return self.solve(state.sums, state.extras[self.key])

    def estimate(self, state: LogSums) -> Estimate:
        """Return the estimate over sums that hold this estimator's columns."""
        space = self.workspace
        return Estimate.from_solution(
            self.solution(state), space.target, self.name, level=space.level, looks=space.looks
        )


def sums_of_fits(batch: RankingLog, fits: Sequence[Fitted]) -> LogSums:
    """Return the sums over a batch of what some fits of one metric and target need."""
    space = fits[0].workspace
    view = View(batch, space.target)
    earned = {logged(space.metric): batch.reward @ batch.position_weights}
    columns = {fit.key: fit.columns(view) for fit in fits}
    return summed(batch, earned, columns, by_unit=space.by_unit)


class Estimator(ABC):
    """A description: name, options, traits. It holds parameters only."""

    #: The name in commands and results.
    name: str
    #: Rows of the largest sample that a fit draws, where that is the largest of an evaluation.
    sampled_rows: ClassVar[int] = 0

    @property
    def traits(self) -> Traits:
        """What the estimator assumes of users; by default something of its own."""
        return Traits(self.name)

    @abstractmethod
    def fit(self, workspace: Workspace) -> Fitted:
        """Return the estimator fitted to a log and a target."""

    def refuse_weight(self, log: RankingLog) -> None:
        """Raise where rows have weights and this estimator would not use them."""
        if log.weight is not None and not self.traits.takes_row_weights:
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
        with_target = log if isinstance(target, str) else log.with_targets({name: target})
        units = (
            with_target.summed_by_unit
            if by_unit is None
            else by_unit or with_target.weight is not None
        )
        source = MemorySource(with_target)
        self.refuse_weight(source.first)
        fitted = self.fit(Workspace(source, name, level=level, seed=seed, by_unit=units))
        return fitted.estimate(source.reduce(fitted.sums, label=self.name))
