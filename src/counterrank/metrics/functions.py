"""Functions of the rewards of a page, and a registry to which users can add functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError


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

_registry: dict[str, PageFunction] = {}
for _function in (
    ANY,
    PageFunction("mrr", reciprocal_rank, needs_positions=True),
    PageFunction("ndcg", ndcg, needs_positions=True),
    PageFunction("count", counted, keeps_positions=True),
    PageFunction("sum", lambda reward: reward, keeps_positions=True),
    # For a number per ranking that a long table repeats at each position.
    PageFunction("once", lambda reward: reward[:, 0]),
):
    _registry[_function.name] = _function
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
