"""Policies that are nothing but named arrays: rows can be taken and the whole can be stored as
data.
"""

import copy
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from counterrank.policies.base import CAPABILITIES, Bools, Floats, Ints, Policy, Rows, SubsetResult
from counterrank.policies.questions import as_actions, as_masks, by_mask

EVERYTHING = CAPABILITIES - {"dist"}


class ArrayPolicy(Policy):
    """A policy described by fields: arrays with a row axis, and values shared by all rows.

    A row field of length 1 serves every row of a log. `take` and storage work on the fields alone.
    """

    row_fields: ClassVar[tuple[str, ...]] = ()
    shared_fields: ClassVar[tuple[str, ...]] = ()
    capabilities = EVERYTHING

    @property
    def n_rows(self) -> int:
        return max((len(getattr(self, name)) for name in self.row_fields), default=1)

    def take(self, rows: Rows) -> Self:
        chosen = copy.copy(self)
        for name in self.row_fields:
            values = getattr(self, name)
            setattr(chosen, name, values if len(values) == 1 else values[rows])
        return chosen

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Rebuild a policy from its stored fields, checked like a new one."""
        policy = cls.__new__(cls)
        for name in (*cls.row_fields, *cls.shared_fields):
            setattr(policy, name, fields[name])
        policy.check()
        return policy

    def check(self) -> None:
        """Raise PolicyError when the fields do not describe a distribution."""

    def spread(self, values: Any, rows: Ints) -> Any:
        """Return the given rows of a row field, or its only row."""
        return values if len(values) == 1 else values[rows]


class ClosedFormPolicy(ArrayPolicy):
    """A policy whose subset probability is one vectorised formula; prefixes and positions follow
    from it.
    """

    def prepare(self, items: Ints) -> Ints:
        """Return what `event` gets in place of the items, worked out once for all masks."""
        return items

    @abstractmethod
    def event(self, items: Ints, rows: Ints, mask: Bools) -> Floats:
        """Return (r,) log P(items at the masked positions) for rows (r,) with items (r, K)."""

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        items = as_actions(actions, self)
        sets = as_masks(masks, items)
        prepared = self.prepare(items)

        def evaluate(rows: Ints, mask: Bools) -> Floats:
            if not mask.any():
                return np.zeros(len(rows))
            with np.errstate(divide="ignore"):
                return self.event(prepared[rows], rows, mask)

        log_prob = by_mask(len(items), sets, evaluate)
        return SubsetResult(log_prob, np.zeros_like(log_prob))

    def prefix_log_prob(self, actions: Ints) -> Floats:
        K = np.shape(actions)[1]
        return self.subset_log_prob(actions, np.tri(K, dtype=bool)).log_prob

    def position_log_prob(self, actions: Ints) -> Floats:
        K = np.shape(actions)[1]
        return self.subset_log_prob(actions, np.eye(K, dtype=bool)).log_prob
