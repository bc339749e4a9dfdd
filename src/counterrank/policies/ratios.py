"""Importance ratios of two policies for sets of positions, each worked out once."""

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PropensityError
from counterrank.policies.arrays import as_actions, as_masks
from counterrank.policies.base import Policy

#: Most the correction for a sampled denominator may take off: beyond it the draws say too little.
MAX_CORRECTION = 0.5


class SubsetRatios:
    """Ratios target / logging of one log's rows; answers are kept, by set where all rows have the same.

    Ask for many sets at once where possible: single positions share one quadrature.
    """

    def __init__(self, logging: Policy, target: Policy, actions: Ints) -> None:
        logging.require("subset")
        target.require("subset")
        self.logging, self.target = logging, target
        self.actions = as_actions(actions, logging)
        self._known: dict[bytes, tuple[Floats, Floats]] = {}

    def log_ratio(self, masks: Bools) -> tuple[Floats, Floats]:
        """Return log w (n, J) and its squared relative error (n, J) for masks (J, K) or (n, J, K)."""
        sets = as_masks(masks, self.actions)
        if sets.ndim == 3:
            question = sets.tobytes()
            if question not in self._known:
                self._known[question] = _log_ratio(self.logging, self.target, self.actions, sets)
            return self._known[question]
        keys = [mask.tobytes() for mask in sets]
        new = {key: j for j, key in enumerate(keys) if key not in self._known}
        if new:
            found = _log_ratio(self.logging, self.target, self.actions, sets[list(new.values())])
            for column, key in enumerate(new):
                self._known[key] = found[0][:, column], found[1][:, column]
        log_w, rel_var = zip(*(self._known[key] for key in keys), strict=True)
        return np.column_stack(log_w), np.column_stack(rel_var)


def _log_ratio(
    logging: Policy, target: Policy, actions: Ints, masks: Bools
) -> tuple[Floats, Floats]:
    """Return log w (n, J) = log P_target(L) - log P_logging(L), and the squared relative error of w.

    A sampled denominator makes 1/P too large by its squared relative error v0 on average: log(1 -
    min(v0, 1/2)) is added (delta method, second order). Zero under the target is a weight of zero
    (-inf); zero under the logging policy cannot have been logged and raises, naming the row.
    """
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
