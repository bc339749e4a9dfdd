"""What an estimator is: a plan made from the log, one additive pass, and a finish.

`Estimator.plan(workspace)` fits whatever must be fitted (nothing, for IPS); `Plan.partial(view)`
turns a batch into something that adds; `Plan.finish(sum)` turns the sum into an `Estimate`. Plans
with equal keys share a pass.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.estimators.estimate import Estimate
from counterrank.log import Probabilities, RankingLog
from counterrank.moments import Moments, Rewards, moments_of_ratios, rewards_of
from counterrank.ratios import Ratios, common_numbers, ratios_of
from counterrank.source import Source, Summand

Floats = NDArray[np.float64]
State = TypeVar("State", bound=Summand)
Made = TypeVar("Made")


class View:
    """A batch as one target sees it: ratios and rewards, computed once and shared by all
    estimators.
    """

    def __init__(self, batch: RankingLog, target: str) -> None:
        self.batch = batch
        self.target = target
        self._standard: dict[str, tuple[Moments, Floats]] = {}
        self._memo: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` gives, computed once for this batch and key."""
        if key not in self._memo:
            self._memo[key] = make()
        made: Made = self._memo[key]
        return made

    @cached_property
    def numbers(self) -> tuple[str, Floats, Floats]:
        """The kind of probabilities both policies have, and the logger's and target's (n, K)."""
        return common_numbers(self.batch, self.target)

    @cached_property
    def ratios(self) -> Ratios:
        """The ratios of target to logger."""
        return ratios_of(self.batch, self.target, self.numbers)

    @property
    def reward(self) -> Floats:
        """Rewards (n, K) in Fortran order, the layout the kernels like."""
        return self.rewards.values

    @cached_property
    def rewards(self) -> Rewards:
        """Rewards, their sums and what the logger earned: the same for every estimator."""
        return rewards_of(self.batch.reward, self.batch.position_weights)

    def standard(self, kind: str, also: Iterable[str] = ()) -> tuple[Moments, Floats]:
        """Return moments and row totals of a standard weight ("joint", "prefix", "position").

        Those of the kinds in `also` are made in the same pass and kept for when they are asked for.
        """
        if kind not in self._standard:
            batch = self.batch
            _, logging, target = self.numbers
            alpha, kinds = batch.position_weights, {kind, *also}
            found = moments_of_ratios(
                target, logging, batch.lengths, batch.reward, alpha=alpha, kinds=kinds
            )
            self._standard.update(found)
        return self._standard[kind]


@dataclass(frozen=True)
class Workspace:
    """The log, the target and the options of one evaluation; `once` shares what several estimators
    need.
    """

    source: Source
    target: str
    level: float = 0.95
    seed: int = 0
    #: Sum by unit too: clustered errors and bootstrap.
    by_unit: bool = False
    #: Collect the Gram matrix of contributions and weights too, whatever the aggregate:
    #: Cressie-Read intervals.
    full: bool = False
    memo: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def first(self) -> RankingLog:
        """A small batch: K, names, kinds."""
        return self.source.first

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` gives, computed once per key."""
        if key not in self.memo:
            self.memo[key] = make()
        made: Made = self.memo[key]
        return made


@dataclass(frozen=True, slots=True)
class Part(Generic[State]):
    """What a plan makes of a batch: a state that adds, and per-row totals (n, c) for paired
    comparisons.
    """

    state: State
    totals: Floats


class Plan(ABC, Generic[State]):
    """An estimator made ready for a log and a target."""

    #: Plans with equal keys compute the same state and share it.
    key: Hashable
    #: Among plans with equal keys, the one with the greatest detail makes the state for all.
    detail: int = 0

    @abstractmethod
    def partial(self, view: View) -> Part[State]:
        """Return the additive state of a batch and its per-row totals."""

    @abstractmethod
    def finish(self, state: State) -> Estimate:
        """Return the estimate from the state of all rows."""

    def combination(self, state: State) -> Floats:
        """Return how the estimate combines the columns of `totals` (c,), for covariances between
        estimates.
        """
        return np.ones(1)

    def estimate(self, state: State) -> Estimate:
        """Return what `finish` makes of the state; of a single ranking or unit, the value alone.

        Units are counted where the state sums by unit as `Moments` does: `buckets`, with the number
        of rows last.
        """
        found, units = self.finish(state), getattr(state, "buckets", None)
        if isinstance(units, np.ndarray) and len(units):
            return found if np.count_nonzero(units[:, -1]) > 1 else found.without_spread()
        return found if found.n > 1 else found.without_spread()

    def error_combination(self, state: State) -> Floats:
        """Return the combination whose error the estimate's interval rests on; the same, unless it
        says otherwise.
        """
        return self.combination(state)


class Estimator(ABC):
    """A recipe; holds parameters only."""

    #: The name in commands and results.
    name: str

    @abstractmethod
    def plan(self, workspace: Workspace) -> Plan[Any]:
        """Return the plan for a log and target, fitting what needs fitting."""

    def estimate(
        self,
        log: RankingLog,
        target: "str | Probabilities | ArrayLike",
        *,
        level: float = 0.95,
        seed: int = 0,
        by_unit: bool | None = None,
        full: bool = False,
    ) -> Estimate:
        """Return the estimate on a log in memory; `target` is a column name, an array, a Propensity
        or a Policy.

        `by_unit` also sums by unit (by default where the log has units), which bootstrap intervals
        need; `full` collects the Gram matrix, which Cressie-Read intervals need.
        """
        from counterrank.source import MemorySource

        name = target if isinstance(target, str) else "target"
        whole = log if isinstance(target, str) else log.with_targets({name: target})
        units = whole.unit is not None if by_unit is None else by_unit
        workspace = Workspace(
            MemorySource(whole), name, level=level, seed=seed, by_unit=units, full=full
        )
        plan = self.plan(workspace)
        state = workspace.source.reduce(
            lambda batch: plan.partial(View(batch, name)).state, label=self.name
        )
        return plan.estimate(state)
