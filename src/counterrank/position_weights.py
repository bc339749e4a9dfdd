"""alpha_k: how much a reward at position k counts."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.errors import ConfigError

NAMES = ("uniform", "dcg")


def parse(weights: str | ArrayLike, length: int) -> NDArray[np.float64]:
    """Return alpha (K,) from "uniform", "dcg" (1/log2(k+1), Jarvelin & Kekalainen 2002), "1,.5,..."
    or numbers.

    >>> parse("dcg", 3).round(3).tolist()
    [1.0, 0.631, 0.5]
    >>> parse("1, 0.5", 2).tolist()
    [1.0, 0.5]
    """
    if isinstance(weights, str):
        return _named(weights.strip().lower(), length)
    values = np.asarray(weights, dtype=np.float64)
    if values.size == 0:
        return np.ones(length)
    return _checked(values, length)


def _named(name: str, length: int) -> NDArray[np.float64]:
    if name == "uniform":
        return np.ones(length)
    if name == "dcg":
        discount: NDArray[np.float64] = 1.0 / np.log2(np.arange(length) + 2.0)
        return discount
    try:
        values = np.array([float(part) for part in name.split(",")])
    except ValueError:
        raise ConfigError(
            f"position weights '{name}' are not understood; use uniform, dcg, or numbers like "
            "1,0.5,0.25"
        ) from None
    return _checked(values, length)


def _checked(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    if values.shape != (length,):
        raise ConfigError(
            f"there are {length} positions but {values.size} position weights; give one for each"
        )
    if not np.isfinite(values).all() or (values < 0).any() or not (values > 0).any():
        raise ConfigError(
            f"position weights must be finite, not negative and not all zero; got {values.tolist()}"
        )
    return values
