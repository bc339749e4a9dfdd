"""Measures: functions of the rewards of a page, a registry to which users can add functions, and their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError, LogError
from counterrank.common.texts import suggestion
from counterrank.data.log import RankingLog


@dataclass(frozen=True, slots=True)
class PageFunction:
    """A function of rewards (n, K), with zeros for padding, that returns a number per ranking (n,).

    Functions with `keeps_positions` return (n, K), and the metric is the sum over positions.
    """

    name: str
    make: Callable[[Floats], Floats]
    keeps_positions: bool = False
    lower_is_better: bool = False
    #: Whether it requires rewards by position.
    needs_positions: bool = False


def any_of(reward: Floats) -> Floats:
    """Return whether a ranking earned anything (n,).

    >>> any_of(np.array([[0.0, 2.0], [0.0, 0.0]])).tolist()
    [1.0, 0.0]
    """
    # A product with ones, because NumPy's reduction over short rows takes ten times as long.
    count = (reward > 0.0) @ np.ones(reward.shape[1])
    return (count > 0.0).astype(np.float64)


def first_place(reward: Floats) -> Floats:
    """Return the position of the first reward above zero (n,), or 0 without reward.

    >>> first_place(np.array([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]])).tolist()
    [2.0, 0.0]
    """
    earned = reward > 0.0
    place = earned.argmax(axis=1)
    return np.where(earned[np.arange(len(reward)), place], place + 1.0, 0.0)


def reciprocal_rank(reward: Floats) -> Floats:
    """Return 1 / position of the first reward above zero (n,), or 0 without reward.

    >>> reciprocal_rank(np.array([[0.0, 2.0], [0.0, 0.0]])).tolist()
    [0.5, 0.0]
    """
    place = first_place(reward)
    return np.divide(1.0, place, out=np.zeros_like(place), where=place > 0)


def ndcg(reward: Floats) -> Floats:
    """Return the discounted gain of rewards divided by that of their best order (n,), 0 without reward.

    The gain is r and the discount 1 / log2(1 + k) (Jarvelin & Kekalainen 2002).

    >>> ndcg(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])).round(4).tolist()
    [1.0, 0.6309, 0.0]
    """
    discount = 1.0 / np.log2(np.arange(reward.shape[1]) + 2.0)
    gain = np.maximum(reward, 0.0)
    best = -np.sort(-gain, axis=1) @ discount
    share: Floats = np.divide(gain @ discount, best, out=np.zeros(len(gain)), where=best > 0)
    return share


def counted(reward: Floats) -> Floats:
    """Return 1 at each position with a reward above zero (n, K)."""
    return (reward > 0.0).astype(np.float64)


#: The number of shown items, which is the same for all policies because lengths are not changed.
IMPRESSIONS = PageFunction("impressions", lambda reward: np.full(len(reward), np.nan))
#: The position of the first reward, summed over rankings with a reward.
FIRST_PLACE = PageFunction("first", first_place, needs_positions=True)
ANY = PageFunction("any", any_of)

_registry = {
    function.name: function
    for function in (
        ANY,
        PageFunction("mrr", reciprocal_rank, needs_positions=True),
        PageFunction("ndcg", ndcg, needs_positions=True),
        PageFunction("count", counted, keeps_positions=True),
        PageFunction("sum", lambda reward: reward, keeps_positions=True),
        # For a number per ranking that a long table repeats at each position.
        PageFunction("once", lambda reward: reward[:, 0]),
    )
}
#: Names that cannot be registered.
_BUILT_IN = tuple(_registry)
#: Keywords of expressions.
RESERVED = ("first", "share", "ranking", "per", "by", "has", "impressions")


def metric_functions() -> dict[str, PageFunction]:
    """Return the functions of expressions such as any(click), by name."""
    return dict(_registry)


def page_metric(
    function: Callable[[Floats], Floats], of: str, *, name: str = ""
) -> tuple[PageFunction, str]:
    """Return a user-defined metric, for the `rewards` of `evaluate`.

    Parameters
    ----------
    function
        A function of rewards (n, K), with zeros for padding, that returns a number per ranking (n,).
    of
        The name of the reward.
    name
        The name of the metric; the function's name by default.

    Returns
    -------
    tuple[PageFunction, str]
        The function with its name, and the reward.

    Raises
    ------
    ConfigError
        The function cannot be called.

    Examples
    --------
    >>> import counterrank as cr
    >>> twice = cr.page_metric(lambda clicks: (clicks > 0).sum(axis=1) > 1, of="clicks", name="twice")
    >>> twice[0].name, twice[1]
    ('twice', 'clicks')
    """
    if not callable(function):
        raise ConfigError(f"a user-defined metric must be a function of rewards, got {function!r}")
    called = name or getattr(function, "__name__", "own")
    return PageFunction("own" if called == "<lambda>" else called, function), of


def register_metric(
    name: str, function: Callable[[Floats], Floats], *, lower_is_better: bool = False
) -> None:
    """Register a function, so that expressions can use it as NAME(reward).

    Parameters
    ----------
    name
        An identifier that is not the name of a built-in metric.
    function
        A function of rewards (n, K), with zeros for padding, that returns a number per ranking (n,).
    lower_is_better
        Whether smaller values are better.

    Returns
    -------
    None

    Raises
    ------
    ConfigError
        The name is not an identifier, or is reserved.

    Examples
    --------
    >>> register_metric("twice", lambda clicks: ((clicks > 0).sum(axis=1) > 1).astype(float))
    >>> "twice" in metric_functions()
    True
    """
    reserved = (*_BUILT_IN, *RESERVED)
    if not name.isidentifier() or name in reserved:
        raise ConfigError(
            f"'{name}' cannot be the name of a metric: names are identifiers other than "
            f"{', '.join(reserved)}"
        )
    _registry[name] = PageFunction(name, function, lower_is_better=lower_is_better)


#: The name of the reward of a log without named rewards.
SINGLE = "reward"


@dataclass(frozen=True, slots=True)
class Measure:
    """A number per ranking or per position that is a function of one reward."""

    operand: str
    function: PageFunction | None = None

    @property
    def text(self) -> str:
        """The expression of the measure."""
        if self.function is None or self.function is IMPRESSIONS:
            return self.operand
        return f"{self.function.name}({self.operand})"


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
            return log.reward[np.arange(log.n), log.lengths - 1]
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
