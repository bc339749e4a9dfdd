"""What the arms of a test earn: every metric of every arm, as quantities over the same units.

    table.metric(metric, arm)                 from the rows that the arm served
    table.metric(metric, arm, pair)           from all rows, by the weights of two arms that are compared
    table.pair(metric, pair, pooled=True)     what the second arm of a pair and the first one earn
    table.group(rows)                         the table of a group of rows

Every number of a row is made once. Groups, ratios, lifts and guardrails are operations on quantities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import LogError
from counterrank.data.encoding import context_columns
from counterrank.data.log import RankingLog
from counterrank.estimators import (
    balance_weights,
    can_model,
    model_control,
    page_log_probs,
    refuse_unserved,
)
from counterrank.metrics import IMPRESSIONS, Measure, Metric, Metrics, constant, measured
from counterrank.statistics import Quantity, Strata, adjusted_mean, mean_of

#: The numbers of the baseline and of the arm that is compared with it.
Pair = tuple[int, int]
#: Folds of the prediction from the context.
_FOLDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class ServedRows:
    """The rows of a test: who served them, and how likely each arm was to show their pages.

    `shares` (A,) of the rows by arm; `weights` (n, A), the probability of each page under an arm over that
    under the mixture of all.
    """

    log: RankingLog
    names: Sequence[str]
    strata: Strata
    shares: Floats
    weights: Floats

    @classmethod
    def from_log(
        cls, log: RankingLog, labels: NDArray[np.str_], names: Sequence[str]
    ) -> ServedRows:
        """Return the rows of a log; pages that their own arm never shows are refused."""
        strata = Strata.from_arrays(labels, log.unit)
        alone = np.flatnonzero(strata.units_by_arm < 2)
        if len(alone):
            raise LogError(
                f"arm '{names[alone[0]]}' has one unit: how much units differ cannot be seen; a test "
                "needs several users in each arm"
            )
        log_prob = page_log_probs(log, names)
        for index, name in enumerate(names):
            rows = np.flatnonzero(strata.arm == index)
            refuse_unserved(log, name, rows, log_prob[rows, index])
        shares = np.bincount(strata.arm) / log.n
        return cls(log, names, strata, shares, balance_weights(log_prob, shares))

    def served_by(self, index: int) -> Ints:
        """Return the rows of an arm."""
        return np.flatnonzero(self.strata.arm == index)


@dataclass(frozen=True, eq=False)
class ArmTable:
    """Numbers of each row, of which every mean of an arm is made.

    ============  =================================================================================
    `strata`      the arm and the unit of each row
    `served`      (n, A) one over the share of the arm that served the row, 0 for the others
    `weights`     (n, A) weights of the pages
    `rewards`     (n,) what the page earned of each measure
    `controls`    (n, J) numbers of mean zero, by measure and pair of arms
    ============  =================================================================================
    """

    strata: Strata
    served: Floats
    weights: Floats
    rewards: Mapping[Measure, Floats]
    controls: Mapping[tuple[Measure, Pair], Floats]

    @classmethod
    def from_rows(
        cls, rows: ServedRows, metrics: Metrics, pairs: Sequence[Pair], seed: int
    ) -> ArmTable:
        """Return the table of a test; a measure that does not vary is refused."""
        served = (rows.strata.arm[:, None] == np.arange(len(rows.names))) / rows.shares
        rewards: dict[Measure, Floats] = {}
        controls: dict[tuple[Measure, Pair], Floats] = {}
        for measure in dict.fromkeys(m for metric in metrics.all_metrics for m in metric.measures):
            log = measured(rows.log, measure)
            earned: Floats = log.reward @ log.position_weights
            if measure.function is not IMPRESSIONS and float(np.ptp(earned)) == 0.0:
                raise _constant(measure, float(earned[0]), named=metrics.named)
            rewards[measure] = earned
            modelled = can_model(log, rows.names) and measure.function is not IMPRESSIONS
            expected = expected_from_context(log, earned)
            for pair in pairs:
                columns = _controls(rows.weights, pair, expected)
                if modelled:
                    source, to = pair
                    columns.append(
                        model_control(log, rows.names, (to, source), rows.shares, seed=seed)
                    )
                controls[measure, pair] = np.column_stack(columns)
        return cls(rows.strata, served, rows.weights, rewards, controls)

    def value(self, measure: Measure, arm: int, pair: Pair | None = None) -> Quantity:
        """Return what an arm earns of a measure: from its own rows, or from all rows beside the other of a pair."""
        earned = self.rewards[measure]
        if pair is None:
            return mean_of(self.served[:, arm] * earned, self.strata)
        return adjusted_mean(
            self.weights[:, arm] * earned, self.controls[measure, pair], self.strata
        )

    def metric(self, metric: Metric, arm: int, pair: Pair | None = None) -> Quantity:
        """Return a metric of an arm."""
        values = [self.value(measure, arm, pair) for measure in metric.measures]
        return values[0] if len(values) == 1 else values[0] / values[1]

    def pair(self, metric: Metric, pair: Pair, *, pooled: bool) -> tuple[Quantity, Quantity]:
        """Return what the second arm of a pair earns, and what the first one does."""
        base, value = (self.metric(metric, arm, pair if pooled else None) for arm in pair)
        return value, base

    def group(self, inside: Ints) -> ArmTable | None:
        """Return the table of some rows; None where an arm has fewer than two units there."""
        arm = self.strata.arm[inside]
        A = self.served.shape[1]
        strata = Strata.from_arrays(arm, self.strata.unit[inside])
        if len(np.unique(arm)) < A or (strata.units_by_arm < 2).any():
            return None
        # By chance the arms have other shares here than in all rows, for which weights and controls have
        # mean zero: rows count so that the shares are the same.
        shares = np.bincount(self.strata.arm) / len(self.strata.arm)
        counts = (shares * len(arm) / np.bincount(arm, minlength=A))[arm]
        return ArmTable(
            strata,
            self.served[inside] * counts[:, None],
            self.weights[inside] * counts[:, None],
            {measure: earned[inside] for measure, earned in self.rewards.items()},
            {key: table[inside] * counts[:, None] for key, table in self.controls.items()},
        )


def _constant(measure: Measure, value: float, *, named: bool) -> LogError:
    if named:
        return constant(measure.text, value)
    return LogError(
        f"every ranking earned {value:g}: a test without any difference in rewards says nothing of "
        "its rankers"
    )


def _controls(weights: Floats, pair: Pair, expected: Floats | None) -> list[Floats]:
    """Return numbers (n,) of mean zero: constants, and what the context says."""
    source, to = pair
    new, old = weights[:, to], weights[:, source]
    context = [] if expected is None else [(new - old) * expected]
    return [new - 1.0, old - 1.0, *context]


def expected_from_context(log: RankingLog, earned: Floats) -> Floats | None:
    """Return the rewards (n,) that a ridge on the context expects, fitted without a row's fold; None without any."""
    x = context_columns(log)
    if x.shape[1] == 0 or log.n < 2 * x.shape[1]:
        return None
    finite = ~np.isnan(x)
    mean = np.where(finite, x, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    centred = np.where(finite, x - mean, 0.0)
    spread = np.sqrt((centred**2).mean(axis=0))
    centred = centred[:, spread > 0] / spread[spread > 0]
    fold = log.bucket % _FOLDS
    expected = np.full(log.n, earned.mean())
    for f in range(_FOLDS):
        inside, outside = fold == f, fold != f
        if inside.any() and outside.any():
            level, columns = earned[outside].mean(), centred[outside]
            gram = columns.T @ columns + np.eye(columns.shape[1])
            slopes = np.linalg.solve(gram, columns.T @ (earned[outside] - level))
            expected[inside] = level + centred[inside] @ slopes
    return expected
