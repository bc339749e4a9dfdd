"""A tree fitted to a log that may not fit into memory: it grows on a sample.

The rows that are averaged also choose the models. Weights have heavy tails, so the variance of a
model depends on a few extreme rows of this very log. Two things correct for the double use: splits
are confirmed on units that took no part in the search, and the interval allows for the choice
(`Doubt`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from counterrank.behavior.behavior_tree import BehaviorTree
from counterrank.behavior.estimates import mse_estimate
from counterrank.behavior.masks import SET_NAMES, Candidate
from counterrank.behavior.objective import MSEEstimate
from counterrank.behavior.settings import SAMPLE_ROWS, SAMPLE_STREAM
from counterrank.behavior.storage import load_candidates
from counterrank.data.source import Source


def fit_source(
    source: Source,
    target: str,
    *,
    seed: int,
    tree: BehaviorTree | None = None,
    rows: int = SAMPLE_ROWS,
) -> BehaviorTree:
    """Return the tree fitted to a sample of `rows` rankings; variances are those of the whole log."""
    plan = BehaviorTree() if tree is None else tree
    log = source.sample(rows, np.random.default_rng([seed, SAMPLE_STREAM]))
    data, notes = plan.training_set(log, target, seed=seed)
    n_apply = source.n or log.n
    return replace(plan, forest=plan.grow(data, n_apply=n_apply, seed=seed, notes=notes))


def planned_tree(
    candidates: "str | Sequence[str | ArrayLike | Candidate] | None",
    mse: "str | MSEEstimate | None",
) -> BehaviorTree | None:
    """Return the tree that an evaluation's options ask for; None where they ask for nothing.

    `candidates` may be the name of a set, a file of models, or models.
    """
    if candidates is None and mse is None:
        return None
    plan = BehaviorTree()
    if isinstance(candidates, str) and candidates not in SET_NAMES:
        candidates = load_candidates(candidates)
    if candidates is not None:
        plan = replace(plan, candidates=candidates)
    # An unknown name is an error before anything is read.
    return plan if mse is None else replace(plan, mse=mse_estimate(mse))
