"""A test whose rows are read for every ranker: plain and pooled differences of its arms, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats
from counterrank.data.encoding import context_columns
from counterrank.data.log import RankingLog
from counterrank.errors import ConfigError, LogError
from counterrank.estimators import (
    balance_weights,
    can_model,
    model_control,
    page_log_probs,
    prefix_log_probs,
    refuse_unserved,
)
from counterrank.findings import FAILED, NOTES, Finding
from counterrank.records import Json, Record, RecordResult
from counterrank.statistics import Number, Quantity, Strata, adjusted_mean, mean_of

#: Folds of the prediction from the context.
_FOLDS = 5


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
    REPORT = "counterrank.report.abtesting"

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

    def __repr__(self) -> str:
        """Return the lifts in a line."""
        lifts = ", ".join(
            f"{one.to}: {one.lift.value:+.4g} ({one.lift.low:+.4g} to {one.lift.high:+.4g})"
            for one in self.lifts
        )
        return f"ABTest(baseline={self.baseline!r}, {lifts})"


@dataclass(frozen=True, slots=True, eq=False)
class PooledTest:
    """A test made ready: the reward of each row, its arm and unit, and each arm's weight."""

    log: RankingLog
    names: Sequence[str]
    strata: Strata
    #: (n, K) weighted reward of each place; (A,) shares of the rows; (n, A) weights of whole pages.
    rewards: Floats
    shares: Floats
    weights: Floats
    #: (n, K) reward expected from the context alone, by rows that do not hold it; None without any.
    context: Floats | None
    seed: int

    @property
    def y(self) -> Floats:
        """Reward of each ranking (n,)."""
        return np.asarray(self.rewards.sum(axis=1))

    @classmethod
    def of(
        cls, log: RankingLog, labels: NDArray[np.str_], names: Sequence[str], seed: int
    ) -> PooledTest:
        """Return the test of a log; pages that their own arm never shows are refused."""
        strata = Strata.of(labels, log.unit)
        few = np.flatnonzero(strata.units_by_arm < 2)
        if len(few):
            raise LogError(
                f"arm '{names[few[0]]}' has one unit: how much units differ cannot be seen; a test "
                "needs several users in each arm"
            )
        log_prob = page_log_probs(log, names)
        for index, name in enumerate(names):
            rows = np.flatnonzero(strata.arm == index)
            refuse_unserved(log, name, rows, log_prob[rows, index, 0])
        rewards = log.reward * log.position_weights
        y = rewards.sum(axis=1)
        if float(np.ptp(y)) == 0.0:
            raise LogError(
                f"every ranking earned {y[0]:g}: a test without any difference in rewards says "
                "nothing of its rankers"
            )
        shares = np.bincount(strata.arm) / log.n
        weights = balance_weights(log_prob, shares)[..., 0]
        return cls(log, names, strata, rewards, shares, weights, _by_context(log, rewards), seed)

    def earned(self) -> tuple[Arm, ...]:
        """Return what each arm earned on its own rows."""
        units, found = self.strata.units_by_arm, []
        for index, name in enumerate(self.names):
            own = self.strata.arm == index
            alone = Strata.of(self.strata.arm[own], self.strata.unit[own])
            mean = mean_of(self.y[own], alone)
            found.append(Arm(name, int(own.sum()), int(units[index]), mean.value, mean.stderr))
        return tuple(found)

    def plain(self, source: int, to: int) -> Quantity:
        """Return the difference of the two arms' means."""
        coin = (self.strata.arm == to) / self.shares[to]
        other = (self.strata.arm == source) / self.shares[source]
        return mean_of((coin - other) * self.y, self.strata)

    def pooled(self, source: int, to: int, *, top_down: bool = False) -> Quantity:
        """Return the difference of weighted means of all rows, less what controls of mean zero explain.

        With `top_down` each place is weighed by the page down to it.
        """
        w = self.weights[..., None]
        if top_down:
            w = balance_weights(prefix_log_probs(self.log, self.names), self.shares)
        change = w[:, to] - w[:, source]  # (n, 1) or (n, K)
        # Constants, what the context says, and what a model says of the page.
        controls = [w[:, to] - 1.0, w[:, source] - 1.0]
        if self.context is not None:
            controls.append((change * self.context).sum(axis=1, keepdims=True))
        if can_model(self.log, self.names):
            said = model_control(
                self.log, self.names, (to, source), self.shares, seed=self.seed, top_down=top_down
            )
            controls.append(said[:, None])
        values = (change * self.rewards).sum(axis=1)
        return adjusted_mean(values, np.concatenate(controls, axis=1), self.strata)


def _by_context(log: RankingLog, rewards: Floats) -> Floats | None:
    """Return the rewards (n, K) that a ridge on the context expects, fitted without a row's fold."""
    x = context_columns(log)
    if x.shape[1] == 0 or log.n < 2 * x.shape[1]:
        return None
    known = ~np.isnan(x)
    mean = np.where(known, x, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, x - mean, 0.0)
    spread = np.sqrt((centred**2).mean(axis=0))
    centred = centred[:, spread > 0] / spread[spread > 0]
    fold = log.bucket % _FOLDS
    out = np.empty(rewards.shape)
    for f in range(_FOLDS):
        rest, own = fold != f, fold == f
        if not own.any() or not rest.any():
            out[own] = rewards.mean(axis=0)
            continue
        level, away = rewards[rest].mean(axis=0), centred[rest]
        gram = away.T @ away + np.eye(away.shape[1])
        out[own] = level + centred[own] @ np.linalg.solve(gram, away.T @ (rewards[rest] - level))
    return out
