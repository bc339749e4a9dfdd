"""What a policy thinks of items: the one feature that every reward model should know."""

from typing import Any

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.policies.arrays import ArrayPolicy
from counterrank.policies.autoregressive import Autoregressive
from counterrank.policies.base import Policy
from counterrank.policies.best_of import BestOf
from counterrank.policies.mixture import Mixture
from counterrank.policies.plackett_luce import PlackettLuce
from counterrank.policies.ranked import Deterministic
from counterrank.policies.scored import Scored
from counterrank.policies.slot_epsilon_greedy import SlotEpsilonGreedy

#: Items about each of which a policy of the user's own is asked; of more items it has no scores.
MOST_ASKED = 256


def attraction(policy: Any, items: Ints) -> Floats | None:
    """Return a policy's score of items (n, S, K) less its row's mean; None where it has none.

    People choose a target because they think it good, so its own scores are the best single feature
    that a reward model can have. A policy without scores, such as a function, has the log-probability
    of showing the item first, which is the score of a Plackett-Luce policy less a number of its row.
    """
    if isinstance(policy, Mixture):
        for part in policy.components:
            scores = attraction(part, items)
            if scores is not None and np.nanmax(np.abs(scores), initial=0.0) > 0:
                return scores
        return None
    if isinstance(policy, Scored):
        own = policy if policy.n_rows == len(items) else policy.take(np.zeros(len(items), np.int64))
        places, offsets = own.candidates.locate(items), own.candidates.offsets
        values = np.append(own.scores, np.nan)[
            np.where(places < 0, -1, offsets[:-1, None, None] + places)
        ]
        finite = np.isfinite(own.scores)
        sums = np.add.reduceat(np.where(finite, own.scores, 0.0), offsets[:-1])
        centre = sums / np.maximum(np.add.reduceat(finite, offsets[:-1], dtype=np.int64), 1)
    else:
        table = _opinions(policy)
        if table is None:
            return None
        rows = np.arange(len(items)) % len(table)
        finite = np.isfinite(table)
        sums = np.where(finite, table, 0.0).sum(axis=1)
        centre = (sums / np.maximum(finite.sum(axis=1), 1))[rows]
        values = table[rows[:, None, None], np.maximum(items, 0)]
    out = values - centre[:, None, None]
    return np.where((items >= 0) & np.isfinite(out), out, np.nan)


def _opinions(policy: Any) -> Floats | None:
    """Return a policy's scores, or its log-probabilities of showing each item first (n or 1, A).

    Policies of this package without scores are lists or independent positions, whose models need none.
    """
    if isinstance(policy, Autoregressive):
        nothing = np.empty((policy.n_rows, 0), dtype=np.int64)
        with np.errstate(divide="ignore"):
            first: Floats = np.log(policy.next_probs(policy.rows, nothing))
        return first
    if isinstance(policy, (ArrayPolicy, BestOf)) or not isinstance(policy, Policy):
        return score_table(policy)
    if "prefix" not in policy.capabilities or policy.n_actions > MOST_ASKED:
        return None
    items = np.broadcast_to(
        np.arange(policy.n_actions)[:, None], (policy.n_rows, policy.n_actions, 1)
    )
    return policy.prefix_log_probs(items)[:, :, 0]


def score_table(policy: Any) -> Floats | None:
    """Return a policy's scores (n or 1, A), higher is better; None where it has none."""
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
