"""Parameters of simulations within their bounds, or an error that names them."""

import math
from numbers import Integral, Real
from typing import Any

from counterrank.errors import ConfigError


def between(name: str, value: Any, low: float, high: float = math.inf, *, meaning: str) -> float:
    """Return a finite number within [low, high]; `meaning` says in the error what it is.

    >>> between("epsilon", 0.3, 0, 1, meaning="a probability, between 0 and 1")
    0.3
    """
    if not isinstance(value, Real) or not math.isfinite(value) or not low <= float(value) <= high:
        raise ConfigError(f"{name} is {value!r}; it is {meaning}")
    return float(value)


def whole(name: str, value: Any, least: int) -> int:
    """Return a whole number that is `least` or more.

    >>> whole("seed", 7, 0)
    7
    """
    if not isinstance(value, Integral) or value < least:
        raise ConfigError(f"{name} is {value!r}; it is a whole number, {least} or more")
    return int(value)
