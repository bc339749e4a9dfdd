"""Unbiased weights and lifts of the policies that serve the best of m drawn rankings.

Suppose that B of L draws of the logger have a smaller list value q than the logged ranking. The weight
of best of m is m C(B, m-1) / C(L, m-1), and its mean of q is sum_j C(j-1, m-1) / C(L, m) q_(j) over the
sorted draws. Both are averages over all sets of m draws, so they are unbiased for every m.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import ConfigError
from counterrank.common.messages import say
from counterrank.data.columns import as_texts, column_of
from counterrank.data.log import RankingLog
from counterrank.data.source import reporter
from counterrank.learning.result import GuardrailBound
from counterrank.metrics import Guardrail, Metrics, measured
from counterrank.models import policy_draws
from counterrank.policies import Policy, RowRandom, drawn_weight, draws_below, without_rounding

#: A function of rows (b,) and rankings (b, D, K) that returns list values (b, D).
ListValue = Callable[[Ints, Ints], Floats]

#: Number of rankings that are drawn and scored at once.
_BLOCK = 8_192
#: The random stream of the keys that break ties.
_TIES = 1


@dataclass(frozen=True, slots=True, eq=False)
class DrawnValues:
    """List values of logged rankings (n,) and of sorted draws (n, L), and how many draws are smaller (n,)."""

    logged: Floats
    ordered: Floats
    below: Ints

    @property
    def draws(self) -> int:
        """Number of reference draws per row."""
        return int(self.ordered.shape[1])

    def weight(self, m: int) -> Floats:
        """Return unbiased weights (n,) of best-of-m against the logger, each in [0, m]."""
        return drawn_weight(self.below, self.draws, m)

    def mean(self, m: int, cap: float) -> Floats:
        """Return unbiased means (n,) of min(q, cap) under best-of-m."""
        return np.minimum(self.ordered, cap) @ best_of_shares(self.draws, m)


def best_of_shares(draws: int, m: int) -> Floats:
    """Return the probability that each of L sorted draws is the best of m of them: C(j-1, m-1) / C(L, m).

    >>> best_of_shares(3, 2).round(4).tolist()
    [0.0, 0.3333, 0.6667]
    """
    # Python integers, so that only the division rounds.
    all_sets = comb(draws, m)
    return np.array([comb(j, m - 1) / all_sets for j in range(draws)])


def draw(
    log: RankingLog, logger: Policy, value: ListValue, draws: int, seeds: tuple[int, ...]
) -> DrawnValues:
    """Return list values of the logged rankings and of `draws` new rankings for each row.

    The random numbers of a row are a function of `seeds` and the row's number.
    """
    progress = reporter()
    progress.begin("drawing rankings", log.n)
    logged_values, below = np.empty(log.n), np.empty(log.n, dtype=np.int64)
    ordered = np.empty((log.n, draws))
    size = max(1, _BLOCK // draws)
    for first in range(0, log.n, size):
        rows = np.arange(first, min(first + size, log.n))
        block = log.take(rows)
        policy = logger if logger.n_rows == 1 else logger.take(rows)
        # Rounded, so that a ranking ties with itself when it is scored in another batch.
        logged_scores = without_rounding(value(rows, block.action[:, None, :]))
        drawn = without_rounding(value(rows, policy_draws(block, policy, draws, seeds)))
        # Ties are broken by random keys, so that ranks are uniform under the logger for any q.
        keys = RowRandom(block.numbers, [*seeds, _TIES]).random((len(rows), 1 + draws))
        logged_values[rows] = logged_scores[:, 0]
        below[rows] = draws_below(logged_scores, drawn, keys)
        ordered[rows] = np.sort(drawn, axis=1)
        progress.advance(len(rows))
    return DrawnValues(logged_values, ordered, below)


@dataclass(frozen=True, slots=True, eq=False)
class WatchedRewards:
    """A guardrail with its rewards (n,), zero outside its group, and the largest possible reward."""

    guardrail: Guardrail
    earned: Floats
    max_reward: float
    group: str = ""

    def margins(self, weight: Floats) -> Floats:
        """Return margins (n,) whose mean is positive if and only if the guardrail holds.

        A relative limit L requires E[(w - 1) r] >= L E[r], so the margin is (w - 1 - L) r. For an
        absolute limit it is (w - 1) r - L.
        """
        gain = (weight - 1.0) * self.earned
        rail = self.guardrail
        excess: Floats = gain - rail.limit * (self.earned if rail.relative else 1.0)
        return excess if rail.above else -excess

    def lowest(self, largest: float) -> float:
        """Return a lower limit of the margins if no weight exceeds `largest`."""
        rail = self.guardrail
        # Margins increase with the weight if the guardrail is a lower limit, otherwise they decrease.
        worst = replace(self, earned=np.array([0.0, self.max_reward]))
        return float(worst.margins(np.array(0.0 if rail.above else largest)).min())

    def bound(self, weight: Floats, margin: float) -> GuardrailBound:
        """Return the bound of the lift that corresponds to a bound of the mean margin."""
        rail = self.guardrail
        scale = float(self.earned.mean()) if rail.relative else 1.0
        if not (scale > 0 and np.isfinite(margin)):
            scale = np.nan
        return GuardrailBound(
            rail.text,
            "safe" if margin / scale >= 0 else "open",
            float(((weight - 1.0) * self.earned).mean()) / scale,
            rail.limit + (margin if rail.above else -margin) / scale,
            rail.limit,
            rail.unit,
            self.group,
        )


def watched_rewards(log: RankingLog, metrics: Metrics, grade: str) -> list[WatchedRewards]:
    """Return the guardrails on the rows of a log, with an entry for each group of guardrails by column.

    Raises
    ------
    ConfigError
        The metric of a guardrail is a ratio, or grade "free" needs a range of its rewards.
    """
    rails: list[WatchedRewards] = []
    for rail in metrics.guardrails:
        metric = metrics.metric(rail.metric)
        if metric.ratio:
            raise ConfigError(
                f"the metric of the guardrail '{rail.text}' is a ratio, for which there is no bound; "
                "use its numerator instead"
            )
        metric_log = measured(log, metric.measures[0])
        earned = metric_log.reward @ metric_log.position_weights
        counted = np.isin(metric_log.reward, (0.0, 1.0)).all()
        if grade == "free" and (not counted or earned.min() < 0):
            raise ConfigError(
                f"the rewards of the guardrail '{rail.text}' are not 0 or 1, and grade 'free' would "
                f"need their range; use {say('--grade', 'assumed')}"
            )
        max_reward = float(metric_log.position_weights.sum()) if not metric_log.page_reward else 1.0
        if not rail.by:
            rails.append(WatchedRewards(rail, earned, max_reward))
            continue
        labels = as_texts(column_of(log, rail.by))
        rails += [
            WatchedRewards(
                rail, np.where(labels == label, earned, 0.0), max_reward, f"{rail.by} = {label}"
            )
            for label in rail.among(np.unique(labels).tolist())
        ]
    return rails


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The rows of one side of the split, with list values of logged and drawn rankings.

    `totals` (n,) are the rewards of rankings minus `shift`, so that they lie in [0, max_total]. `unit`
    (n,) is the number of each row's unit (of the row, if the log has no units). `rails` are the
    guardrails on these rows.
    """

    log: RankingLog
    unit: Ints
    totals: Floats
    max_total: float
    shift: float
    drawn: DrawnValues
    rails: Sequence[WatchedRewards] = ()

    @property
    def counts(self) -> Floats:
        """The number of rows of each unit."""
        return self.unit_sums(np.ones(self.log.n))

    def unit_sums(self, values: Floats) -> Floats:
        """Return sums over units of values by row."""
        return np.bincount(self.unit, values).astype(np.float64)

    def lifts(self, m: int, cap: float) -> Floats:
        """Return unbiased lifts (n,) of best-of-m over the logger, with control variate c = min(q, cap).

        The lift is (w - 1)(r - c) + E_m c - E_1 c. The terms with c have mean zero for any q.
        """
        w = self.drawn.weight(m)
        control = np.minimum(self.drawn.logged, cap)
        return (
            (w - 1.0) * (self.totals - control) + self.drawn.mean(m, cap) - self.drawn.mean(1, cap)
        )

    def expected(self, m: int) -> float:
        """Return the lift of best-of-m according to the model."""
        return float((self.drawn.mean(m, np.inf) - self.drawn.mean(1, np.inf)).mean())

    def lowest(self, m: int, cap: float) -> float:
        """Return a lower limit of the lifts: w = m, r = 0, c = cap, or w = 0, r = max_total, c = 0."""
        return -max((m - 1) * cap, self.max_total)
