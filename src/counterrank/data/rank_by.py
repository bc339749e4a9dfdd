"""A policy made of a scorer of one's own, on the rows of a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.data.log import RankingLog
from counterrank.policies import Policy, parse_policy

#: Takes context (n, d) or None, candidates (n, C) and their features (n, C, p) or None; returns
#: scores (n, C).
Score = Callable[[Floats | None, NDArray[Any], Floats | None], Any]

#: Candidates that are scored at a time.
_CELLS = 500_000


def rank_by(log: RankingLog, score: Score, kind: str = "plackett-luce") -> Policy:
    """Return the policy that ranks a log's candidates by a score of one's own.

    Parameters
    ----------
    log
        The log that it will be evaluated on.
    score
        A function `score(context, candidates, features)` that returns a number for each candidate,
        (n, C). `context` (n, d) are the log's context columns, or None; `candidates` (n, C) its
        items, by name where they have names, -1 (or None) where a list is shorter; `features`
        (n, C, p) those of the items, or None. It is called for some rows at a time.
    kind
        How scores become rankings: "top", "plackett-luce:temperature=0.5", "epsilon:epsilon=0.1"
        and so on, as with `--policy`.

    Returns
    -------
    Policy
        A target for `evaluate`, on the rows of this log.

    Raises
    ------
    PolicyError
        The scores have another shape, or are no numbers.

    Examples
    --------
    >>> log = RankingLog(action=[[0, 1]], reward=[[1, 0]], propensity=[[.5, .5]], context=[[2.0]])
    >>> policy = rank_by(log, lambda context, candidates, features: -candidates * context, "top")
    >>> policy.sample(2, np.random.default_rng(0))[0, 0].tolist()
    [0, 1]
    """
    spec, sets = parse_policy(kind), log.candidates
    if sets is None:
        ids, size = np.arange(log.n_actions), max(1, _CELLS // log.n_actions)
        parts = [
            _scored(chunk, score, np.broadcast_to(ids, (chunk.n, len(ids))))
            for chunk in log.chunks(size)
        ]
        return spec.bind(scores=np.concatenate(parts))
    parts = []
    for rows in sets.blocks(_CELLS):
        block = sets.take(rows)
        items = block.dense(block.items, -1.0).astype(np.int64)
        parts.append(_scored(log.take(rows), score, items)[items >= 0])
    return spec.bind(candidates=sets, scores=np.concatenate(parts))


def _scored(log: RankingLog, score: Score, items: Ints) -> Floats:
    features = log.features_of(items) if log.item_feature_names else None
    candidates = items
    if log.action_names is not None:
        # Padding is -1, which finds the last entry.
        candidates = np.array([*log.action_names, None], dtype=object)[items]
    try:
        scores = np.asarray(score(log.context, candidates, features), dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise PolicyError(
            f"the score of rows from {log.start} on is no number: {problem}"
        ) from problem
    if scores.shape != items.shape:
        raise PolicyError(
            f"the score has shape {scores.shape}; it needs one number for each candidate, "
            f"{items.shape}"
        )
    bad = np.isnan(scores) & (items >= 0)
    if bad.any():
        row, place = np.argwhere(bad)[0]
        raise PolicyError(
            f"the score of candidate {place + 1} in row {log.start + row} is missing (NaN); give every "
            "candidate a number"
        )
    return scores
