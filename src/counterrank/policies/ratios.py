"""Importance ratios of two policies for sets of positions."""

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PropensityError
from counterrank.policies.base import Policy

#: Most the correction for a sampled denominator may take off: beyond it the draws say too little.
MAX_CORRECTION = 0.5


def subset_log_ratio(
    logging: Policy, target: Policy, actions: Ints, masks: Bools
) -> tuple[Floats, Floats]:
    """Return log w (n, J) = log P_target(L) - log P_logging(L) and the squared relative error of w (n, J).

    Masks are (J, K) or (n, J, K); ask for many sets at once: single positions share one quadrature.
    A sampled denominator makes 1/P too large by its squared relative error v0 on average: log(1 -
    min(v0, 1/2)) is added (delta method, second order). Zero under the target is a weight of zero
    (-inf); zero under the logging policy cannot have been logged and raises, naming the row.
    """
    logging.require("subset")
    target.require("subset")
    below = logging.subset_log_prob(actions, masks)
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
    # Equal policies answer from equal draws: the ratio is one without error, nothing to correct.
    alike = (above.log_prob == below.log_prob) & (above.rel_var == below.rel_var)
    log_w = above.log_prob - below.log_prob + np.where(alike, 0.0, correction)
    return log_w, np.where(alike, 0.0, above.rel_var + below.rel_var)


def position_matrix(policy: Policy, actions: Ints) -> Floats:
    """Return (n, K, K): the probability that the item logged at k stands at l, by turning the ranking round.

    Each turn asks for all K items at once; a ranking of L < K items is turned within its L
    positions.
    """
    policy.require("position")
    n, K = actions.shape
    lengths = (actions >= 0).sum(axis=1)
    out = np.zeros((n, K, K))
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        part, items = policy.take(rows), actions[rows, :length]
        k = np.arange(length)
        for turn in range(length):
            at = (k + turn) % length
            turned = np.empty_like(items)
            turned[:, at] = items
            out[rows[:, None], k, at] = np.exp(part.position_log_prob(turned))[:, at]
    return out
