"""A policy's categories and items on another log: they are matched by name, not by code.

A policy has the codes of categories and the numbers of items of the log that it was learned on. Another
log has codes of its own, so each is looked up by its label. A label that the policy never saw counts as
missing, as it does in serving. A log that shares no label with the policy is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.errors import PolicyError

Labels = Mapping[str, tuple[str, ...]]

#: Labels that a message names at most.
_NAMED = 3


def code_tables(
    what: str,
    own_names: tuple[str, ...],
    own_labels: Labels,
    names: tuple[str, ...],
    labels: Labels,
) -> dict[int, Floats]:
    """Return, for each category whose codes differ from a log's, the policy's code by the log's.

    The last entry is for a missing one. `own_names` and `own_labels` are the columns that the policy
    reads, `names` and `labels` those of the log.
    """
    missing = [name for name in own_names if name not in names]
    if missing:
        raise PolicyError(
            f"the policy was learned with {what} {', '.join(missing)}, which this log has not"
        )
    if own_names != tuple(names):
        raise PolicyError(
            f"the policy was learned with {what} {', '.join(own_names) or 'of no kind'}, this log "
            f"has {', '.join(names) or 'none'}: name the same columns in the same order (--context)"
        )
    tables = {}
    for j, name in enumerate(names):
        own, given = own_labels.get(name, ()), labels.get(name, ())
        if bool(own) != bool(given):
            kinds = ("categories", "numbers") if own else ("numbers", "categories")
            raise PolicyError(
                f"the policy was learned with {kinds[0]} in '{name}', and this log has "
                f"{kinds[1]} there: give the column as it was"
            )
        if tuple(own) != tuple(given):
            tables[j] = _codes(name, own, given)
    return tables


def _codes(name: str, own: Sequence[str], given: Sequence[str]) -> Floats:
    place = {label: code for code, label in enumerate(own)}
    table = np.array([*(place.get(label, np.nan) for label in given), np.nan])
    if np.isnan(table).all():
        raise PolicyError(
            f"'{name}' has no label that the policy was learned with: it knows {_some(own)}, this "
            f"log has {_some(given)}"
        )
    return table


def translated(values: Floats, tables: Mapping[int, Floats]) -> Floats:
    """Return columns (..., p) with the policy's codes in place of a log's; NaN stays missing."""
    if not tables:
        return values
    out = values.copy()
    for j, table in tables.items():
        # A missing code finds the last entry, which is missing again.
        out[..., j] = table[np.nan_to_num(values[..., j], nan=-1.0).astype(np.int64)]
    return out


def coded(values: NDArray[Any], names: Sequence[str], labels: Labels) -> Floats:
    """Return columns (n, p) as numbers: labels of categories become codes, one that is not known is missing."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    out = np.full(values.shape, np.nan)
    for j, name in enumerate(names):
        place = {label: float(code) for code, label in enumerate(labels.get(name, ()))}
        for i, value in enumerate(values[:, j].tolist()):
            if place and isinstance(value, str):
                out[i, j] = place.get(value, np.nan)
            elif value is not None:
                out[i, j] = _number(value, name, i)
    return out


def _number(value: Any, name: str, row: int) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise PolicyError(f"'{name}' is {value!r} in row {row}, which is no number") from None


def item_numbers(items: Sequence[Any], log: RankingLog, *, features: bool) -> Ints | None:
    """Return the policy's number of each item of a log, the last entry for padding; None where they are the same.

    Items that the policy does not know get a number that it has not seen. Where it knows none of
    them it has nothing to go by but `features`.
    """
    named = bool(items) and isinstance(items[0], str)
    if log.action_names is None and not named:
        return None
    labels = log.action_names or tuple(str(item) for item in range(log.n_actions))
    place = {str(item): number for number, item in enumerate(items)}
    # Padding is -1, which finds the last entry: -1 again.
    table = np.array([*(place.get(label, len(items)) for label in labels), -1], dtype=np.int64)
    if (table[:-1] == len(items)).all() and (not features or named == (log.action_names is None)):
        raise PolicyError(
            f"the policy knows none of this log's items: it was learned with {_some(items)}, this "
            f"log has {_some(labels)}. Give items the ids that they had then"
        )
    return table


def _some(labels: Sequence[Any]) -> str:
    """Return the first labels.

    >>> _some(["a", "b", "c", "d"]), _some([7])
    ("'a', 'b', 'c' and 1 more", '7')
    """
    named = ", ".join(repr(label)[:40] for label in labels[:_NAMED])
    rest = len(labels) - _NAMED
    return f"{named} and {rest:,} more" if rest > 0 else named
