"""Array types, whose shapes docstrings give, and records of arrays that add."""

from collections.abc import Mapping
from dataclasses import Field
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Record = TypeVar("Record")


class Summed:
    """A dataclass of sums over some rows: `one + other` are those over the rows of both.

    Numbers, arrays and records add; tuples add entry by entry and mappings key by key. What one of
    them does not have is None: a sum over some of the rows would pass for one over all.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Count(Summed):
    ...     n: int
    ...     by_label: dict
    >>> Count(1, {"a": 1}) + Count(2, {"a": 1, "b": 1})
    Count(n=3, by_label={'a': 2, 'b': 1})
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __add__(self, other: Self) -> Self:
        names = self.__dataclass_fields__
        return type(self)(*(_added(getattr(self, name), getattr(other, name)) for name in names))


def _added(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if isinstance(left, np.ndarray):  # most of them, and the last to be asked about is the slowest
        return left + right
    if isinstance(left, tuple):
        return tuple(map(_added, left, right))
    if isinstance(left, Mapping):
        return {**left, **{k: _added(left[k], v) if k in left else v for k, v in right.items()}}
    return left + right


def changed(record: Record, **values: Any) -> Record:
    """Return the same frozen record with other values of some fields, which are not checked again."""
    # Several times as fast as `copy`, which asks a record with slots for its state.
    copied = object.__new__(type(record))
    for name in copied.__dataclass_fields__:  # type: ignore[attr-defined]
        object.__setattr__(copied, name, values[name] if name in values else getattr(record, name))
    return copied
