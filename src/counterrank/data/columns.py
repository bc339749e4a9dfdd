"""Columns of a log by name, how to cut them into groups, and whether units tell visitors apart.

Row ids for units say that all rows are independent. Contexts that come again and again say otherwise.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import ConfigError
from counterrank.common.texts import comma_separated, suggestion
from counterrank.data.log import RankingLog

#: More groups than this say little about any of them.
MAX_GROUPS = 40


@dataclass(frozen=True)
class Segmentation:
    """A column and, for a number with many values, the edges between its groups."""

    column: str
    edges: tuple[float, ...] | None = None

    def groups(self, batch: RankingLog) -> Iterator[tuple[str, Ints]]:
        """Yield (label, rows) of a batch."""
        yield from by_label(self.labels(batch))

    def labels(self, batch: RankingLog) -> NDArray[Any]:
        """Return the label of each row (n,)."""
        values = column_of(batch, self.column)
        if self.edges is None:
            return as_texts(values)
        names = interval_names(self.edges)
        index = np.searchsorted(np.array(self.edges), values.astype(np.float64), side="right")
        return np.where(np.isnan(values.astype(np.float64)), "missing", np.array(names)[index])


#: Letters of a label that are kept: NumPy gives every row the room of the longest text.
_LETTERS = 80
MISSING = "missing"


def as_texts(values: NDArray[Any]) -> NDArray[np.str_]:
    """Return values (n,) as labels.

    None is "missing", and what a long text has beyond 80 letters becomes a number that tells it
    from others.

    >>> as_texts(np.array(["a", None, 3, "x" * 99], dtype=object)).tolist()[:3]
    ['a', 'missing', '3']
    """
    if values.dtype.kind != "O" and values.dtype.itemsize <= _WIDE:
        return values.astype(str)
    return np.array([_label(value) for value in values.tolist()], dtype=np.str_)


#: Bytes of an entry in an array of texts that are all short enough.
_WIDE = 4 * _LETTERS


def _label(value: Any) -> str:
    if value is None:
        return MISSING
    text = str(value)
    if len(text) <= _LETTERS:
        return text
    return f"{text[: _LETTERS - 10]}… {zlib.crc32(text.encode('utf-8', 'backslashreplace')):08x}"


def by_label(labels: NDArray[Any]) -> Iterator[tuple[str, Ints]]:
    """Yield each label, in order, with its rows.

    >>> [(label, rows.tolist()) for label, rows in by_label(np.array(["b", "a", "b"]))]
    [('a', [1]), ('b', [0, 2])]
    """
    for label in np.unique(labels):
        yield str(label), np.flatnonzero(labels == label)


def column_of(batch: RankingLog, name: str) -> NDArray[Any]:
    """Return a column by name: carried along, behaviour, unit, or context (categories by their labels)."""
    if name in batch.columns:
        return _named(batch.columns[name])
    if name in ("behavior", "unit") and getattr(batch, name) is not None:
        array: NDArray[Any] = getattr(batch, name)
        return array
    if name in batch.context_names and batch.context is not None:
        values = batch.context[:, batch.context_names.index(name)]
        return _decoded(values, batch.categories[name]) if name in batch.categories else values
    available = [
        *batch.columns,
        *batch.context_names,
        *(["behavior"] if batch.behavior is not None else []),
    ]
    hint = suggestion(name, available)
    raise ConfigError(
        f"there is no column '{name}' to segment by{hint}; known: {comma_separated(dict.fromkeys(available))}"
    )


def segmentation(sample: RankingLog, name: str) -> Segmentation:
    """Decide from a sample how to cut a column: as it is when it has few values, in quarters when it is a number."""
    values = column_of(sample, name)
    if values.dtype.kind == "O":
        values = as_texts(values)
    distinct = np.unique(values[~np.isnan(values)] if values.dtype.kind == "f" else values)
    if len(distinct) <= MAX_GROUPS and (values.dtype.kind != "f" or len(distinct) <= 10):
        return Segmentation(name)
    if values.dtype.kind in "iuf":
        numbers = values.astype(np.float64)
        edges = np.unique(np.quantile(numbers[np.isfinite(numbers)], [0.25, 0.5, 0.75]))
        return Segmentation(name, tuple(float(edge) for edge in edges))
    raise ConfigError(
        f"column '{name}' has {len(distinct)} or more different values; segment by one with at "
        f"most {MAX_GROUPS}"
    )


def _named(values: NDArray[Any]) -> NDArray[Any]:
    """Return a column whose text and days have a name for what is missing: None has no place in an order."""
    if values.dtype.kind == "O":
        return as_texts(values)
    if values.dtype.kind == "M" and np.isnat(values).any():
        return np.where(np.isnat(values), "missing", values.astype(str))
    return values


def _decoded(values: Floats, labels: tuple[str, ...]) -> NDArray[Any]:
    names = np.array([*map(_label, labels), MISSING])
    codes = np.where(np.isnan(values), len(labels), values).astype(np.int64)
    return names[codes]


def interval_names(edges: tuple[float, ...]) -> list[str]:
    """Return what the groups between edges are called.

    >>> interval_names((1.0, 2.5))
    ['below 1', '1 to 2.5', '2.5 and above']
    """
    first = [f"below {edges[0]:.4g}"]
    middle = [f"{low:.4g} to {high:.4g}" for low, high in zip(edges, edges[1:], strict=False)]
    return [*first, *middle, f"{edges[-1]:.4g} and above"]


def epoch_unit(values: Floats) -> str | None:
    """Return the unit in which numbers count from 1970; None for plain numbers of days.

    >>> [epoch_unit(np.array([value])) for value in (1.7e9, 1.7e12, 17.0)]
    ['s', 'ms', None]
    """
    numbers = values[~np.isnan(values)]
    largest = float(numbers.max()) if len(numbers) else 0.0
    # Each limit is the year 1973 in its unit: seconds would reach that of milliseconds in 5138.
    limits = (("ns", 1e17), ("us", 1e14), ("ms", 1e11), ("s", 1e8))
    return next((unit for unit, limit in limits if largest > limit), None)


#: Units are row ids where this share of the rows has one of its own.
_OWN = 0.9
#: Contexts recur where each has so many rows on average; fewer different ones than this may be a
#: scale of few steps.
_ROWS_EACH, _FEWEST = 3, 64
#: Numbers with more decimals are measured, not counted: two visitors do not share them by chance.
_DECIMALS = 3


def units_are_rows(log: RankingLog) -> bool:
    """Whether nearly every row has a unit of its own."""
    return log.unit is not None and len(np.unique(log.unit)) >= _OWN * log.n


def shared_contexts(log: RankingLog) -> int | None:
    """Return how many contexts the rows share although nearly each has a unit of its own.

    None where units and contexts agree.

    Only numbers with many decimals count: those of different visitors differ.
    """
    if log.context is None or not units_are_rows(log):
        return None
    limit = log.n // _ROWS_EACH
    shared = [
        column
        for name, column in zip(log.context_names, log.context.T, strict=True)
        if name not in log.categories and _measured(column) and len(np.unique(column)) <= limit
    ]
    if not shared:
        return None
    contexts = len(np.unique(np.stack(shared, axis=1), axis=0))
    return contexts if _FEWEST <= contexts <= limit else None


def _measured(column: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    numbers = column[np.isfinite(column)]
    return len(numbers) > 0 and float((numbers != np.round(numbers, _DECIMALS)).mean()) > 0.5
