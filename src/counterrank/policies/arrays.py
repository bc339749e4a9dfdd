"""Policies made of named arrays, whose rows can be taken and which can be stored as data.

Below them are the questions that policies answer: logged items (n, K) and sets of positions, which are
checked, made distinct and enlarged.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PolicyError, PropensityError
from counterrank.policies.base import CAPABILITIES, Policy, Rows, SubsetResult

EVERYTHING = CAPABILITIES - {"dist"}
#: What a stored policy is made of: an array or a number, and policies where it mixes some.
Field = NDArray[Any] | float | Sequence[Policy]


class ArrayPolicy(Policy):
    """A policy described by fields: arrays with a row axis, and values shared by all rows.

    A row field of length 1 serves every row of a log. `take` and storage work on the fields alone.
    Prefixes and positions follow from `subset_log_prob`, unless a policy has a quicker way.
    """

    row_fields: ClassVar[tuple[str, ...]] = ()
    shared_fields: ClassVar[tuple[str, ...]] = ()
    capabilities = EVERYTHING
    n_items: int

    @property
    def n_rows(self) -> int:
        return max((len(getattr(self, name)) for name in self.row_fields), default=1)

    @property
    def n_actions(self) -> int:
        return self.n_items

    def prefix_log_prob(self, actions: Ints) -> Floats:
        return self.subset_log_prob(actions, np.tri(np.shape(actions)[1], dtype=bool)).log_prob

    def position_log_prob(self, actions: Ints) -> Floats:
        return self.subset_log_prob(actions, np.eye(np.shape(actions)[1], dtype=bool)).log_prob

    def take(self, rows: Rows) -> Self:
        chosen = copy.copy(self)
        for name in self.row_fields:
            values = getattr(self, name)
            setattr(chosen, name, values if len(values) == 1 else values[rows])
        return chosen

    @classmethod
    def from_fields(cls, fields: Mapping[str, Field]) -> Self:
        """Rebuild a policy from its stored fields, checked like a new one."""
        policy = cls.__new__(cls)
        for name in (*cls.row_fields, *cls.shared_fields):
            setattr(policy, name, fields[name])
        policy.check()
        return policy

    def check(self) -> None:
        """Raise PolicyError when the fields do not describe a distribution."""

    def refuse_longer(self, length: int) -> None:
        """Raise where a ranking without replacement would have more positions than there are items."""
        if length > self.n_actions:
            raise PolicyError(
                f"cannot rank {length} positions with {self.n_actions} items without replacement"
            )

    def spread(self, values: Any, rows: Ints) -> Any:
        """Return the given rows of a row field, or its only row."""
        return values if len(values) == 1 else values[rows]


class ClosedFormPolicy(ArrayPolicy):
    """A policy whose subset probability is one vectorised formula."""

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
            # An empty set is certain.
            if not mask.any():
                return np.zeros(len(rows))
            with np.errstate(divide="ignore"):
                return self.event(prepared[rows], rows, mask)

        log_prob = by_mask(len(items), sets, evaluate)
        return SubsetResult(log_prob, np.zeros_like(log_prob))


#: Takes row numbers (r,) and one mask (K,), returns log-probabilities (r,).
Evaluate = Callable[[Ints, Bools], Floats]


def as_actions(actions: ArrayLike, policy: Policy) -> Ints:
    """Return actions as (n, K) int64 that fit the policy, or say which entry does not."""
    items = np.asarray(actions)
    if items.ndim != 2 or not np.issubdtype(items.dtype, np.integer):
        raise PolicyError(
            f"actions must be (n, K) integers, got {items.dtype} of shape {items.shape}"
        )
    items = np.ascontiguousarray(items, dtype=np.int64)
    if policy.n_rows not in (1, len(items)):
        raise PolicyError(
            f"the policy has {policy.n_rows} rows and the actions {len(items)}; "
            "bind the policy to the same rows with policy.take(rows)"
        )
    bad = (items < -1) | (items >= policy.n_actions)
    if bad.any():
        i, k = np.argwhere(bad)[0]
        raise PolicyError(
            f"row {i}, position {k + 1}: action {items[i, k]} is not one of "
            f"0..{policy.n_actions - 1} (-1 pads shorter rankings)"
        )
    if not policy.factored:
        _check_padding(items)
    return items


def _check_padding(items: Ints) -> None:
    """Without replacement an unknown item in the middle has no meaning: padding must trail."""
    hole = (items[:, :-1] < 0) & (items[:, 1:] >= 0)
    if hole.any():
        i, k = np.argwhere(hole)[0]
        raise PolicyError(
            f"row {i}: position {k + 1} is padding (-1) but position {k + 2} is not; pad at the end"
        )


def as_masks(masks: ArrayLike, items: Ints) -> Bools:
    """Return masks as (J, K) or (n, J, K) booleans that fit the actions."""
    sets = np.asarray(masks)
    n, K = items.shape
    fits = sets.ndim in (2, 3) and sets.shape[-1] == K and (sets.ndim == 2 or len(sets) == n)
    if sets.dtype != np.bool_ or not fits:
        raise PolicyError(
            f"masks must be booleans of shape (J, {K}) or ({n}, J, {K}), got {sets.dtype} of "
            f"shape {sets.shape}"
        )
    return sets


def repeated(items: Ints) -> Bools:
    """Return (n,) True where one item stands at two of the positions (n, J): impossible without replacement."""
    ordered = np.sort(items, axis=1)
    same: Bools = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    return same


def pack(masks: Bools) -> Ints:
    """Return (..., W) integer codes of masks (..., K), 62 positions a word: equal codes, equal masks."""
    K = masks.shape[-1]
    words = []
    # 62, not 64: sums of powers of two must stay below the sign bit.
    for start in range(0, max(K, 1), 62):
        part = masks[..., start : start + 62].astype(np.int64)
        words.append(part @ (1 << np.arange(part.shape[-1], dtype=np.int64)))
    return np.stack(words, axis=-1)


def by_mask(n: int, masks: Bools, evaluate: Evaluate) -> Floats:
    """Return (n, J) by calling `evaluate` once for each distinct mask, on all rows that need it."""
    J, K = masks.shape[-2:]
    out = np.empty((n, J))
    flat, codes = masks.reshape(-1, K), pack(masks.reshape(-1, K))
    # One word a mask: sorting plain integers is ten times faster.
    keys = codes[:, 0] if codes.shape[1] == 1 else codes
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    if masks.ndim == 2:
        everyone = np.arange(n)
        for u, mask in enumerate(flat[first]):
            out[:, inverse == u] = evaluate(everyone, mask)[:, None]
        return out
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(len(first) + 1))
    values = out.reshape(-1)
    for u, mask in enumerate(flat[first]):
        cells = order[bounds[u] : bounds[u + 1]]
        # A row may ask for one mask in several columns; it is worked out once.
        rows, where = np.unique(cells // J, return_inverse=True)
        values[cells] = evaluate(rows, mask)[where]
    return out


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
    from counterrank.policies.kernels.rows import first_equal

    same = first_equal(pack(masks))
    rows, column = np.nonzero(wanted & (same == np.arange(same.shape[1])))
    return Tasks(rows, column, masks[rows, column], same)


def repeats(items: Ints, masks: Bools) -> Bools:
    """Return (n, J): one item is asked for at two masked positions."""
    out = np.zeros(masks.shape[:2], bool)
    # Hardly a log shows an item twice in a ranking: pairs are compared only where sorting found one.
    for i in np.flatnonzero(repeated(items)):
        pairs = np.argwhere(np.triu(items[i][:, None] == items[i], k=1) & (items[i] >= 0))
        out[i] = (masks[i][:, pairs[:, 0]] & masks[i][:, pairs[:, 1]]).any(axis=1)
    return out


def superset_mask(masks: Bools, capability: str) -> Bools:
    """Return the smallest masks containing `masks` (..., K) whose probability `capability` supplies.

    "prefix" closes each mask to the positions up to its last; "joint" fills every mask that is not
    empty; "subset" changes nothing; "position" supplies single positions only and cannot be
    enlarged to. A weight on a larger set is unbiased whenever that on the smaller one is, but its
    variance is larger.

    >>> superset_mask(np.array([[False, True, False], [False, False, False]]), "prefix").tolist()
    [[True, True, False], [False, False, False]]
    """
    if capability == "subset":
        return masks
    if capability == "prefix":
        closed: Bools = np.logical_or.accumulate(masks[..., ::-1], axis=-1)[..., ::-1]
        return closed
    if capability == "joint":
        return np.broadcast_to(masks.any(axis=-1, keepdims=True), masks.shape).copy()
    if capability == "position":
        if (masks.sum(axis=-1) > 1).any():
            raise PropensityError(
                "marginal propensities (kind 'position') support single positions only; no larger "
                "set is known"
            )
        return masks
    raise PropensityError(
        f"unknown capability '{capability}'; one of 'subset', 'prefix', 'joint', 'position'"
    )
