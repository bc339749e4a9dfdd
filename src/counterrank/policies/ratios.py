"""Importance ratios of two policies for sets of positions."""

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PropensityError
from counterrank.policies.base import Policy, SubsetResult

#: Upper limit of the correction for a sampled denominator; larger ones are too noisy to apply.
MAX_CORRECTION = 0.5


def subset_log_ratio(
    logging: Policy,
    target: Policy,
    actions: Ints,
    masks: Bools,
    *,
    below: SubsetResult | None = None,
) -> tuple[Floats, Floats]:
    """Return log w (n, J) = log P_target(L) - log P_logging(L) and the squared relative error of w (n, J).

    Masks are (J, K) or (n, J, K). One call for many masks is faster than several, because single
    positions share a quadrature. If the denominator is sampled with squared relative error v0, its
    reciprocal is too large by v0 on average, so log(1 - min(v0, 1/2)) is added (second-order delta
    method). A probability of zero under the target gives a weight of zero (-inf). A probability of
    zero under the logging policy contradicts the log and raises PropensityError.
    """
    logging.require("subset")
    target.require("subset")
    below = logging.subset_log_prob(actions, masks) if below is None else below
    if (below.log_prob == -np.inf).any():
        i, j = np.argwhere(below.log_prob == -np.inf)[0]
        mask = masks[j] if masks.ndim == 2 else masks[i, j]
        positions = np.flatnonzero(mask & (actions[i] >= 0))
        raise PropensityError(
            f"row {i}: the logging policy never shows items {actions[i, positions].tolist()} at "
            f"positions {(positions + 1).tolist()}, yet they were logged; check that policy and "
            "log belong together"
        )
    above = target.subset_log_prob(actions, masks)
    correction = np.log1p(-np.minimum(below.rel_var, MAX_CORRECTION))
    # Equal policies use equal draws, so their ratio is exactly one and needs no correction.
    alike = (above.log_prob == below.log_prob) & (above.rel_var == below.rel_var)
    log_w = above.log_prob - below.log_prob + np.where(alike, 0.0, correction)
    return log_w, np.where(alike, 0.0, above.rel_var + below.rel_var)


def position_matrix(policy: Policy, actions: Ints) -> Floats:
    """Return (n, K, K): the probability that the item logged at position k is shown at position l.

    Each of the K cyclic shifts of the ranking gives K entries in one call. A ranking of L < K items
    is shifted within its L positions.
    """
    policy.require("position")
    n, K = actions.shape
    lengths = (actions >= 0).sum(axis=1)
    out = np.zeros((n, K, K))
    for length in np.unique(lengths):
        rows, k = np.flatnonzero(lengths == length), np.arange(length)
        policy_of_length = policy.take(rows)
        for turn in range(length):
            places = (k + turn) % length
            turned = np.roll(actions[rows, :length], turn, axis=1)
            chances = np.exp(policy_of_length.position_log_prob(turned))
            out[rows[:, None], k, places] = chances[:, places]
    return out
