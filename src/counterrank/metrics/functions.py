"""Functions of a row's rewards: a small registry of metrics of the page, and a way to add one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Floats
from counterrank.errors import ConfigError


@dataclass(frozen=True, slots=True)
class PageFunction:
    """A function from rewards (n, K), zero where nothing was shown, to one number per ranking (n,).

    `keeps_positions` marks functions that return (n, K): their sum over positions is the metric, and
    nothing is lost by estimating it position by position.
    """

    name: str
    make: Callable[[Floats], Floats]
    keeps_positions: bool = False
    lower_is_better: bool = False
    #: The rewards must be known position by position.
    needs_positions: bool = False


def any_of(reward: Floats) -> Floats:
    """Return whether a ranking earned anything (n,).

    >>> any_of(np.array([[0.0, 2.0], [0.0, 0.0]])).tolist()
    [1.0, 0.0]
    """
    # A product with ones: NumPy takes ten times as long to go along short rows.
    count = (reward > 0.0) @ np.ones(reward.shape[1])
    return (count > 0.0).astype(np.float64)


def first_place(reward: Floats) -> Floats:
    """Return the position of the first reward above zero (n,), 0 where there is none.

    >>> first_place(np.array([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]])).tolist()
    [2.0, 0.0]
    """
    earned = reward > 0.0
    place = earned.argmax(axis=1)
    return np.where(earned[np.arange(len(reward)), place], place + 1.0, 0.0)


def reciprocal_rank(reward: Floats) -> Floats:
    """Return 1 / position of the first reward above zero (n,), 0 where there is none.

    >>> reciprocal_rank(np.array([[0.0, 2.0], [0.0, 0.0]])).tolist()
    [0.5, 0.0]
    """
    place = first_place(reward)
    return np.divide(1.0, place, out=np.zeros_like(place), where=place > 0)


def ndcg(reward: Floats) -> Floats:
    """Return the discounted gain of a ranking's rewards over that of the best order of them (n,).

    0 where nothing was earned (Jarvelin & Kekalainen 2002, gain r and discount 1 / log2(1 + k)).

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


#: Items shown, which no policy changes here: a logged ranking and the target's are equally long.
IMPRESSIONS = PageFunction("impressions", lambda reward: np.full(len(reward), np.nan))
#: The position of the first reward, summed over rankings that have one.
FIRST_PLACE = PageFunction("first", first_place, needs_positions=True)
ANY = PageFunction("any", any_of)

_registry: dict[str, PageFunction] = {}
for _function in (
    ANY,
    PageFunction("mrr", reciprocal_rank, needs_positions=True),
    PageFunction("ndcg", ndcg, needs_positions=True),
    PageFunction("count", counted, keeps_positions=True),
    PageFunction("sum", lambda reward: reward, keeps_positions=True),
    # In a long table every column stands at each position, also one with a number per ranking.
    PageFunction("once", lambda reward: reward[:, 0]),
):
    _registry[_function.name] = _function
#: Names that nobody else can register.
_BUILT_IN = tuple(_registry)
#: Words with a meaning of their own in expressions.
RESERVED = ("first", "share", "ranking", "per", "by", "has", "impressions")


def metric_functions() -> dict[str, PageFunction]:
    """Return the functions that expressions such as any(click) may use, by name."""
    return dict(_registry)


def page_metric(
    function: Callable[[Floats], Floats], of: str, *, name: str = ""
) -> tuple[PageFunction, str]:
    """Return a metric of one's own, to be given to `evaluate` as one of its `rewards`.

    Parameters
    ----------
    function
        From rewards (n, K), zero where nothing was shown, to one number per ranking (n,).
    of
        The reward it looks at.
    name
        What it is called in words; the function's own name by default.

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
        raise ConfigError(f"a metric of one's own is a function of rewards, got {function!r}")
    called = name or getattr(function, "__name__", "own")
    return PageFunction("own" if called == "<lambda>" else called, function), of


def register_metric(
    name: str, function: Callable[[Floats], Floats], *, lower_is_better: bool = False
) -> None:
    """Make NAME(reward) a metric of expressions and of the command line's plug-ins.

    Parameters
    ----------
    name
        A word; those of the built-in metrics are taken.
    function
        From rewards (n, K), zero where nothing was shown, to one number per ranking (n,).
    lower_is_better
        Whether a smaller value is the better one.

    Returns
    -------
    None
        The name is known from now on.

    Raises
    ------
    ConfigError
        The name is no word, or is taken.

    Examples
    --------
    >>> register_metric("twice", lambda clicks: ((clicks > 0).sum(axis=1) > 1).astype(float))
    >>> "twice" in metric_functions()
    True
    """
    reserved = (*_BUILT_IN, *RESERVED)
    if not name.isidentifier() or name in reserved:
        raise ConfigError(
            f"'{name}' cannot be the name of a metric: it is one word, and not one of "
            f"{', '.join(reserved)}"
        )
    _registry[name] = PageFunction(name, function, lower_is_better=lower_is_better)
