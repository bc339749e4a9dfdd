"""Base classes of policies that consist of named arrays, and checks of items and masks.

Array policies can be sliced by row and stored as data. The functions below the classes validate the
arguments of policy methods: logged items (n, K) and masks, which are sets of positions.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PolicyError, PropensityError
from counterrank.policies.base import CAPABILITIES, Policy, Rows, SubsetResult

#: Number of array cells that are processed at once.
CELLS = 4_000_000
#: The capabilities of a policy without a table of item probabilities.
EVERYTHING = CAPABILITIES - {"dist"}
#: Largest distance from one that the sum of a row of probabilities may have.
SUM_TOLERANCE = 1e-6
#: Takes rows (T,) and a mask (T, K) for each, sorted by row; returns log-probabilities and squared
#: relative errors (T,).
Answer = Callable[[Ints, Bools], tuple[Floats, Floats]]
#: The value of a stored field: an array, a number, or the components of a mixture.
Field = NDArray[Any] | float | Sequence[Policy]


class ArrayPolicy(Policy):
    """A policy described by fields: arrays with a row axis, and values shared by all rows.

    A row field of length 1 serves every row of a log. `take` and storage work on the fields alone.
    """

    row_fields: ClassVar[tuple[str, ...]] = ()
    shared_fields: ClassVar[tuple[str, ...]] = ()
    capabilities = EVERYTHING
    n_items: int = 0

    @property
    def n_rows(self) -> int:
        return max((len(getattr(self, name)) for name in self.row_fields), default=1)

    @property
    def n_actions(self) -> int:
        # Tables of scores and probabilities have a column for each action.
        return self.n_items or int(getattr(self, self.row_fields[-1]).shape[-1])

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

    def item_scores(self) -> Floats | None:
        return None

    def check(self) -> None:
        """Raise PolicyError when the fields do not describe a distribution."""

    def cells(self, length: int) -> int:
        """Return how many numbers `solve` keeps in memory for a row of `length` positions."""
        return length

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        items = as_actions(actions, self)
        sets = as_masks(masks, items)
        (n, K), J = items.shape, sets.shape[-2]
        log_prob, rel_var = np.zeros((2, n, J))
        step = max(1, CELLS // max(J * K, self.cells(K)))
        for first in range(0, n, step):
            rows = slice(first, first + step)
            shown = items[rows]
            masked = (sets if sets.ndim == 2 else sets[rows]) & (shown >= 0)[:, None, :]
            log_prob[rows], rel_var[rows] = self.take(rows).solve(shown, masked, first)
        return SubsetResult(log_prob, rel_var)

    @abstractmethod
    def solve(self, items: Ints, sets: Bools, first: int) -> tuple[Floats, Floats | float]:
        """Return log-probabilities (n, J) of masks (n, J, K) without padding, and squared relative errors.

        `first` is the number of the first row, for messages.
        """

    def refuse_longer(self, length: int) -> None:
        """Raise PolicyError if a ranking of `length` positions needs more items than there are."""
        if length > self.n_actions:
            raise PolicyError(
                f"cannot rank {length} positions with {self.n_actions} items without replacement"
            )


class ClosedFormPolicy(ArrayPolicy):
    """A policy whose subset probability is one vectorised formula."""

    def prepare(self, items: Ints) -> Any:
        """Return the first argument of `event` for items (n, K); it is computed once for all masks."""
        return items

    @abstractmethod
    def event(self, items: Any, mask: Bools) -> Floats:
        """Return (n,) log P(items at the masked positions) for items (n, K) and a mask (n, K) of shown items."""

    def solve(self, items: Ints, sets: Bools, first: int) -> tuple[Floats, float]:
        prepared, log_prob = self.prepare(items), np.zeros(sets.shape[:2])
        with np.errstate(divide="ignore"):
            for j in range(sets.shape[1]):
                # An empty set is certain.
                np.copyto(
                    log_prob[:, j], self.event(prepared, sets[:, j]), where=sets[:, j].any(axis=1)
                )
        return log_prob, 0.0


def as_actions(actions: ArrayLike, policy: Policy) -> Ints:
    """Return actions as (n, K) int64; raise PolicyError at the first entry that the policy cannot show."""
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
    # Without replacement an unknown item in the middle has no meaning: padding must trail.
    hole = (items[:, :-1] < 0) & (items[:, 1:] >= 0)
    if not policy.factored and hole.any():
        i, k = np.argwhere(hole)[0]
        raise PolicyError(
            f"row {i}: position {k + 1} is padding (-1) but position {k + 2} is not; pad at the end"
        )
    return items


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


def not_distribution(probs: Floats) -> Bools:
    """Return True for the rows of (n, C) that have a negative entry or do not sum to one."""
    # "Not good" rather than "bad": NaN fails every comparison.
    good: Bools = np.abs(probs.sum(axis=1) - 1) <= SUM_TOLERANCE
    return ~(good & (probs >= 0).all(axis=1))


def repeated(items: Ints) -> Bools:
    """Return (n,) True for rows of items (n, J) that contain an item twice."""
    ordered = np.sort(items, axis=1)
    repeats_item: Bools = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    return repeats_item


def answer_distinct(masks: Bools, log_prob: Floats, answer: Answer) -> tuple[Floats, Floats]:
    """Fill the NaNs of `log_prob` (n, J) with answers for the masks (n, J, K).

    `answer` is called once for equal masks of a row.
    """
    packed = np.packbits(masks, axis=2)
    first_equal = np.argmax((packed[:, :, None] == packed[:, None]).all(axis=3), axis=2)
    rows, column = np.nonzero(np.isnan(log_prob) & (first_equal == np.arange(masks.shape[1])))
    rel_var = np.zeros_like(log_prob)
    log_prob[rows, column], rel_var[rows, column] = answer(rows, masks[rows, column])
    return (
        np.take_along_axis(log_prob, first_equal, axis=1),
        np.take_along_axis(rel_var, first_equal, axis=1),
    )


def requested_twice(items: Ints, masks: Bools) -> Bools:
    """Return (n, J) True where a mask contains one item at two positions."""
    out = np.zeros(masks.shape[:2], bool)
    # Few rankings repeat an item, so positions are compared only in rows where sorting found a repeat.
    rows = np.flatnonzero(repeated(items))
    shown, sets = items[rows], masks[rows]
    equal_items = np.triu((shown[:, :, None] == shown[:, None, :]) & (shown >= 0)[:, None, :], k=1)
    out[rows] = np.einsum("njk,nkl,njl->nj", sets, equal_items, sets)
    return out


def superset_mask(masks: Bools, capability: str) -> Bools:
    """Return the smallest supersets of `masks` (..., K) whose probability `capability` provides.

    "prefix" extends each mask to all positions up to its last one, "joint" fills every non-empty
    mask, and "subset" changes nothing. "position" provides single positions only, so larger masks
    raise. The weight of a superset is unbiased if that of the mask is, but has a larger variance.

    >>> superset_mask(np.array([[False, True, False], [False, False, False]]), "prefix").tolist()
    [[True, True, False], [False, False, False]]
    """
    if capability == "subset":
        return masks
    if capability == "prefix":
        return np.logical_or.accumulate(masks[..., ::-1], axis=-1)[..., ::-1]
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
