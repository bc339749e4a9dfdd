"""The scores that a policy gives to items, which are a feature of every reward model."""

from typing import Any

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.policies.arrays import ArrayPolicy
from counterrank.policies.autoregressive import Autoregressive
from counterrank.policies.base import Policy
from counterrank.policies.best_of import BestOf
from counterrank.policies.mixture import Mixture
from counterrank.policies.plackett_luce import PlackettLuce
from counterrank.policies.ranked import Deterministic
from counterrank.policies.scored import Scored
from counterrank.policies.slot_epsilon_greedy import SlotEpsilonGreedy

#: The largest catalogue for which a user-defined policy is evaluated at every item.
MAX_EVALUATED_ITEMS = 256


def attraction(policy: Any, items: Ints) -> Floats | None:
    """Return a policy's scores of items (n, S, K) minus the mean of the row, or None without scores.

    The scores of a target are usually the best single feature of a reward model, because they were
    made to predict the reward. For a policy without scores, such as a callback, the log-probability
    of showing the item first is used: for Plackett-Luce it equals the score up to a constant per row.
    """
    if isinstance(policy, Mixture):
        for component in policy.components:
            scores = attraction(component, items)
            if scores is not None and np.nanmax(np.abs(scores), initial=0.0) > 0:
                return scores
        return None
    if isinstance(policy, Scored):
        bound = (
            policy if policy.n_rows == len(items) else policy.take(np.zeros(len(items), np.int64))
        )
        places, offsets = bound.candidates.locate(items), bound.candidates.offsets
        values = np.append(bound.scores, np.nan)[
            np.where(places < 0, -1, offsets[:-1, None, None] + places)
        ]
        finite = np.isfinite(bound.scores)
        sums = np.add.reduceat(np.where(finite, bound.scores, 0.0), offsets[:-1])
        centre = sums / np.maximum(np.add.reduceat(finite, offsets[:-1], dtype=np.int64), 1)
    else:
        table = _item_scores(policy)
        if table is None:
            return None
        rows = np.arange(len(items)) % len(table)
        finite = np.isfinite(table)
        sums = np.where(finite, table, 0.0).sum(axis=1)
        centre = (sums / np.maximum(finite.sum(axis=1), 1))[rows]
        values = table[rows[:, None, None], np.maximum(items, 0)]
    out = values - centre[:, None, None]
    return np.where((items >= 0) & np.isfinite(out), out, np.nan)


def _item_scores(policy: Any) -> Floats | None:
    """Return a policy's scores or its log-probabilities of showing each item first, (n or 1, A).

    The result is None for policies of this package that have no scores (lists, independent positions).
    """
    if isinstance(policy, Autoregressive):
        empty_prefixes = np.empty((policy.n_rows, 0), dtype=np.int64)
        with np.errstate(divide="ignore"):
            first: Floats = np.log(policy.next_probs(policy.rows, empty_prefixes))
        return first
    if isinstance(policy, (ArrayPolicy, BestOf)) or not isinstance(policy, Policy):
        return score_table(policy)
    if "prefix" not in policy.capabilities or policy.n_actions > MAX_EVALUATED_ITEMS:
        return None
    items = np.broadcast_to(
        np.arange(policy.n_actions)[:, None], (policy.n_rows, policy.n_actions, 1)
    )
    return policy.prefix_log_probs(items)[:, :, 0]


def score_table(policy: Any) -> Floats | None:
    """Return a policy's scores (n or 1, A), higher is better, or None if it has none."""
    if isinstance(policy, PlackettLuce):
        return policy.scores
    if isinstance(policy, SlotEpsilonGreedy):
        return np.where(policy.rank >= 0, -np.log1p(np.maximum(policy.rank, 0)), -np.inf)
    if isinstance(policy, Deterministic):
        length = policy.ranking.shape[1]
        table = np.full((len(policy.ranking), policy.n_actions), -np.log1p(length))
        places = np.broadcast_to(-np.log1p(np.arange(length)), policy.ranking.shape)
        np.put_along_axis(table, np.maximum(policy.ranking, 0), places, axis=1)
        return table
    return None
