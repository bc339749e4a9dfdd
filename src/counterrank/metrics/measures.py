"""Evaluation of a measure on a log: the same rankings with another reward."""

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import LogError
from counterrank.common.texts import suggestion
from counterrank.data.log import RankingLog
from counterrank.metrics.functions import IMPRESSIONS
from counterrank.metrics.metric import SINGLE, Measure


def measured(log: RankingLog, measure: Measure) -> RankingLog:
    """Return the log with a measure as its reward, by position or per ranking.

    Raises
    ------
    LogError
        The log does not have the reward, or not by position although the measure requires it.
    """
    if measure == Measure(SINGLE) and not log.rewards:
        return log
    alpha = log.position_weights if not log.page_reward else np.ones(log.K)
    return log.with_reward(measure_values(log, measure), alpha=alpha)


def measure_values(log: RankingLog, measure: Measure) -> Floats:
    """Return the measure of every ranking: (n, K), or (n,) if it is a number per ranking."""
    if measure.function is IMPRESSIONS:
        return log.lengths.astype(np.float64)
    reward = _operand(log, measure)
    if measure.function is None:
        return reward
    if reward.ndim == 1 and measure.function.needs_positions:
        raise LogError(
            f"'{measure.text}' needs a reward at each position, but '{measure.operand}' has one "
            "number per ranking"
        )
    values = measure.function.make(reward.reshape(log.n, -1))
    expected_shape = reward.shape if measure.function.keeps_positions else (log.n,)
    values = np.asarray(values, dtype=np.float64)
    if reward.ndim == 1 and values.shape == (log.n, 1):
        values = values[:, 0]
    if values.shape != expected_shape:
        raise LogError(
            f"the metric '{measure.text}' returns an array of shape {values.shape} for {log.n} "
            f"rankings; it must return one number each, shape ({log.n},)"
        )
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values.reshape(log.n, -1)).all(axis=1)))
        raise LogError(
            f"the metric '{measure.text}' is not finite in row {log.numbers[row]}",
            remedy="return a finite number for every ranking, such as 0 without reward",
        )
    return values


def _operand(log: RankingLog, measure: Measure) -> Floats:
    if measure.operand in log.rewards:
        return log.rewards[measure.operand]
    if measure.operand == SINGLE and not log.rewards:
        if log.page_reward:
            reward: Floats = log.reward[np.arange(log.n), log.lengths - 1]
            return reward
        return log.reward
    names = list(log.rewards) or [SINGLE]
    raise LogError(
        f"there is no reward '{measure.operand}' in this log{suggestion(measure.operand, names)}",
        remedy=f"rewards are {', '.join(names)}",
    )


def constant(text: str, value: float) -> LogError:
    """Return the error for a metric that does not vary."""
    return LogError(
        f"the metric '{text}' is {value:g} in every ranking, so its lift cannot be estimated",
        remedy="leave it out, or check whether the column is the right one",
    )
