"""Split columns beside the context's own: partitions that are not parallel to an axis.

Algorithm 1 gives ||x||_2 <= 1 as its example of a partition. A threshold on the column `norm` is
that; one on a direction w is the half space w.x <= t. In Python any function of the contexts serves.
"""

from collections.abc import Callable, Sequence

import numpy as np

from counterrank.arrays import Floats
from counterrank.errors import ConfigError

#: From contexts (n, d) to a number a row (n,).
Column = Callable[[Floats], Floats]


def norm(context: Floats) -> Floats:
    """Return ||x||_2 of each row.

    >>> norm(np.array([[3.0, 4.0]])).tolist()
    [5.0]
    """
    length: Floats = np.linalg.norm(context, axis=1)
    return length


def column(name: str) -> Column:
    """Return the column of a name: `norm`, or the weights of a direction, such as `1,-1,0,0,0`.

    >>> column("1,-1")(np.array([[3.0, 4.0]])).tolist()
    [-1.0]
    """
    if name == "norm":
        return norm
    try:
        weights = np.array([float(part) for part in name.split(",")])
    except ValueError:
        weights = np.empty(0)
    if not (len(weights) and np.isfinite(weights).all() and weights.any()):
        raise ConfigError(
            f"{name!r} is no column to split on; say norm, or a weight for each column of the "
            "context, such as 1,-1,0,0,0"
        )

    def along(context: Floats) -> Floats:
        if len(weights) != context.shape[1]:
            raise ConfigError(
                f"the direction {name!r} has {len(weights)} weights, the context "
                f"{context.shape[1]} columns"
            )
        value: Floats = context @ weights
        return value

    return along


def with_columns(context: Floats, columns: Sequence[Column]) -> Floats:
    """Return the contexts (n, d) with the derived columns after their own."""
    return np.column_stack([context, *(make(context) for make in columns)])
