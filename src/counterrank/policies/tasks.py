"""The distinct (row, mask) pairs behind a question, and the way back to (n, J)."""

from dataclasses import dataclass

import numpy as np

from counterrank.policies.base import Bools, Floats, Ints
from counterrank.policies.events import pack


@dataclass(frozen=True, slots=True)
class Tasks:
    """Masks (T, K) to answer for rows (T,), sorted by row; `column` and `same` scatter the answers."""

    rows: Ints
    column: Ints
    masks: Bools
    same: Ints

    def scatter(self, values: Floats, out: Floats) -> Floats:
        """Return `out` (n, J) with the answers put in, repeated for equal masks."""
        out[self.rows, self.column] = values
        return np.take_along_axis(out, self.same, axis=1)


def without_padding(items: Ints, sets: Bools) -> Bools:
    """Return (n, J, K): the masked positions that hold an item."""
    return sets & (items >= 0)[:, None, :]


def distinct(masks: Bools, wanted: Bools) -> Tasks:
    """Return the tasks of masks (n, J, K) that are wanted (n, J), equal masks of a row once."""
    from counterrank.policies.kernels.policy_masks import first_equal

    same = first_equal(pack(masks))
    rows, column = np.nonzero(wanted & (same == np.arange(same.shape[1])))
    return Tasks(rows, column, masks[rows, column], same)


def repeats(items: Ints, masks: Bools) -> Bools:
    """Return (n, J): one item is asked for at two masked positions."""
    out = np.zeros(masks.shape[:2], bool)
    ordered = np.sort(items, axis=1)
    twice = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    for i in np.flatnonzero(twice):
        pairs = np.argwhere(np.triu(items[i][:, None] == items[i], k=1) & (items[i] >= 0))
        out[i] = (masks[i][:, pairs[:, 0]] & masks[i][:, pairs[:, 1]]).any(axis=1)
    return out
