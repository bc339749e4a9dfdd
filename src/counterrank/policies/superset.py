"""Masks enlarged to what logged propensities can support."""

import numpy as np

from counterrank.errors import PropensityError
from counterrank.policies.base import Bools


def superset_mask(masks: Bools, capability: str) -> Bools:
    """Return the smallest masks containing `masks` (..., K) whose probability `capability` supplies.

    "prefix" closes each mask to the positions up to its last; "joint" fills every mask that is not empty;
    "subset" changes nothing; "position" supplies single positions only and cannot be enlarged to. A weight on a
    larger set is unbiased whenever that on the smaller one is, but its variance is larger.

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
                "marginal propensities (kind 'position') support single positions only; no larger set is known"
            )
        return masks
    raise PropensityError(f"unknown capability '{capability}'; one of 'subset', 'prefix', 'joint', 'position'")
