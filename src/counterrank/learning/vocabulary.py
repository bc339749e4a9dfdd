"""Translation of the categories and items of a log into the codes of a learned policy, by label.

The codes of categories and the numbers of items differ between the log that a policy was learned on and
other logs. A label that the policy does not know counts as missing, as it does in serving. A log that
shares no label with the policy is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.data.log import RankingLog

Labels = Mapping[str, tuple[str, ...]]

#: Number of labels that a message names.
_NAMED = 3


def code_tables(
    what: str,
    policy_names: tuple[str, ...],
    policy_labels: Labels,
    names: tuple[str, ...],
    labels: Labels,
) -> dict[int, Floats]:
    """Return tables from a log's codes to the policy's, for each category whose codes differ.

    The last entry of a table is for missing values. `policy_names` and `policy_labels` are the columns
    that the policy reads, `names` and `labels` those of the log.
    """
    missing = [name for name in policy_names if name not in names]
    if missing:
        raise PolicyError(
            f"the policy was learned with {what} {', '.join(missing)}, which this log does not have"
        )
    if policy_names != tuple(names):
        raise PolicyError(
            f"the columns of {what} differ: the policy has {', '.join(policy_names) or 'none'}, this "
            f"log {', '.join(names) or 'none'}; give the same columns in the same order (--context)"
        )
    tables = {}
    for j, name in enumerate(names):
        learned_labels, log_labels = policy_labels.get(name, ()), labels.get(name, ())
        if bool(learned_labels) != bool(log_labels):
            kinds = ("categories", "numbers") if learned_labels else ("numbers", "categories")
            raise PolicyError(
                f"the policy was learned with {kinds[0]} in '{name}', and this log has "
                f"{kinds[1]}; give the column in its former type"
            )
        if tuple(learned_labels) != tuple(log_labels):
            tables[j] = _codes(name, learned_labels, log_labels)
    return tables


def _codes(name: str, policy_labels: Sequence[str], log_labels: Sequence[str]) -> Floats:
    place = {label: code for code, label in enumerate(policy_labels)}
    table = np.array([*(place.get(label, np.nan) for label in log_labels), np.nan])
    if np.isnan(table).all():
        raise PolicyError(
            f"'{name}' has no label that the policy was learned with: it knows {_examples(policy_labels)}, this "
            f"log has {_examples(log_labels)}"
        )
    return table


def translate(values: Floats, tables: Mapping[int, Floats]) -> Floats:
    """Return columns (..., p) with the policy's codes instead of the log's; NaN stays NaN."""
    if not tables:
        return values
    out = values.copy()
    for j, table in tables.items():
        # The code -1 of missing values selects the last entry, which is NaN.
        out[..., j] = table[np.nan_to_num(values[..., j], nan=-1.0).astype(np.int64)]
    return out


def encode_labels(values: NDArray[Any], names: Sequence[str], labels: Labels) -> Floats:
    """Return columns (n, p) as numbers: labels become codes, and unknown labels become NaN.

    Raises PolicyError where a column without labels holds something else than a number.
    """
    if values.dtype.kind in "biuf":
        out = values.astype(np.float64)
    else:
        codes = [{label: code for code, label in enumerate(labels.get(name, ()))} for name in names]
        out = np.array(
            [[_code(value, codes[j]) for j, value in enumerate(row)] for row in values.tolist()]
        ).reshape(values.shape)
    for j, name in enumerate(names):
        wrong = np.flatnonzero(~np.isfinite(out[:, j]))
        # A label that is not known is like none that was learned from; a number has to be one.
        if len(wrong) and name not in labels:
            value = values[wrong[0], j]
            raise PolicyError(f"'{name}' is {value} in row {wrong[0]}, which is not a number")
    return out


def _code(value: Any, codes: Mapping[str, int]) -> float:
    try:
        return codes.get(value, np.nan) if codes and isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return np.nan


def item_numbers(items: Sequence[Any], log: RankingLog, *, features: bool) -> Ints | None:
    """Return a table from a log's items to the policy's item numbers, or None if they are the same.

    The last entry is for padding. Unknown items get a number beyond those of the policy. If all items
    are unknown, the policy can be used only if it has `features`.
    """
    named = bool(items) and isinstance(items[0], str)
    if log.action_names is None and not named:
        return None
    labels = log.action_names or tuple(str(item) for item in range(log.n_actions))
    place = {str(item): number for number, item in enumerate(items)}
    # The id -1 of padding selects the last entry, which is -1 again.
    table = np.array([*(place.get(label, len(items)) for label in labels), -1], dtype=np.int64)
    if (table[:-1] == len(items)).all() and (not features or named == (log.action_names is None)):
        raise PolicyError(
            f"the policy knows none of this log's items: it was learned with {_examples(items)}, this "
            f"log has {_examples(labels)}. Use the same ids"
        )
    return table


def _examples(labels: Sequence[Any]) -> str:
    """Return the first labels and the number of further ones.

    >>> _examples(["a", "b", "c", "d"]), _examples([7])
    ("'a', 'b', 'c' and 1 more", '7')
    """
    named = ", ".join(repr(label)[:40] for label in labels[:_NAMED])
    unnamed = len(labels) - _NAMED
    return f"{named} and {unnamed:,} more" if unnamed > 0 else named
