"""The cross-fitted tree: grown on some units, applied to the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import ConfigError
from counterrank.log import RankingLog
from counterrank.ratios import Ratios
from counterrank.source import Source
from counterrank.tree import words
from counterrank.tree.behavior_tree import BehaviorTree
from counterrank.tree.forest import Forest, assemble, joined, weights_by_choice
from counterrank.tree.mse import mse_estimate
from counterrank.tree.settings import FOLDS, SAMPLE_ROWS, SAMPLE_STREAM, STABILITY_ROWS
from counterrank.tree.streaming import Stream, grow_streamed
from counterrank.tree.training import TrainingSet

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """F forests; a row of fold f = bucket mod F gets the forest grown without that fold.

    `stability` is the share of (ranking, position) pairs to which all forests give the same model.
    """

    trees: tuple[Forest, ...]
    together: Forest
    stability: float = 1.0
    notes: tuple[str, ...] = ()

    def weights(self, batch: RankingLog, ratios: Ratios) -> Floats:
        """Return importance weights (n, K), each row's by the forest that has not seen its unit."""
        choice = self.together.choice(batch.context, batch.n, batch.bucket)
        return weights_by_choice(self.together, choice, ratios)

    def describe(self) -> dict[str, Any]:
        """Return the forests as plain values for JSON, with stability and mean importance of each
        feature.
        """
        folds = [words.describe(forest) for forest in self.trees]
        names = self.trees[0].context_names
        return {
            "cross_fitted": len(self.trees) > 1,
            "stability": self.stability,
            "importance": {
                name: float(np.mean([fold["importance"][name] for fold in folds])) for name in names
            },
            "notes": list(self.notes),
            "folds": folds,
        }


def fit_cross_fitted(
    source: Source,
    target: str,
    *,
    seed: int,
    tree: BehaviorTree | None = None,
    folds: int = FOLDS.value,
    rows: int = SAMPLE_ROWS.value,
    grow_on: str = "sample",
) -> CrossFitted:
    """Return forests, one for each fold left out, grown on a sample of `rows` rankings or on the
    whole stream.

    `grow_on` "sample" holds the sample in memory; "stream" passes over the source once a level,
    with bins fixed by the sample. Variances are those of the whole log either way.
    """
    if grow_on not in ("sample", "stream"):
        raise ConfigError(f"grow_on is '{grow_on}'; use 'sample' or 'stream'")
    plan = BehaviorTree() if tree is None else tree
    log = source.sample(rows, np.random.default_rng([seed, SAMPLE_STREAM]))
    # Bins come from all folds' contexts, no rewards among them: nothing to overfit with.
    data, notes = plan.training_set(log, target, seed=seed)
    n_apply = source.n or log.n
    parts = [log.bucket % folds != f for f in range(folds)]
    if not all(part.any() for part in parts):
        # One unit, or very few: nothing is left to grow on when they are taken out.
        notes = (*notes, "not cross-fitted: too few units; the choice of behaviour is optimistic")
        folds, parts = 1, [np.ones(log.n, dtype=bool)]
    if grow_on == "stream":
        trees = _streamed(plan, data, source, notes, folds=folds, n_apply=n_apply)
    else:
        fresh = np.zeros(data.fresh, dtype=bool)
        kept = [np.concatenate([part, fresh]) for part in parts]
        trees = plan.grow(data, kept, n_apply=n_apply, seed=seed, notes=notes)
    return CrossFitted(tuple(trees), joined(trees), _stability(trees, data), notes)


def _streamed(
    plan: BehaviorTree,
    data: TrainingSet,
    source: Source,
    notes: tuple[str, ...],
    *,
    folds: int,
    n_apply: int,
) -> list[Forest]:
    if not plan.per_position:
        raise ConfigError(
            "grow_on='stream' grows one tree a position; use grow_on='sample' with "
            "per_position=False"
        )
    estimate = mse_estimate(plan.mse)
    stream = Stream(
        source=source,
        target=data.target,
        candidates=data.candidates,
        bins=data.bins,
        limits=plan.limits,
        tails=data.tails,
        folds=folds,
    )
    return [
        assemble(growers, data, mse=estimate.name, notes=notes)
        for growers in grow_streamed(stream, estimate, n_apply=n_apply)
    ]


def _stability(trees: Sequence[Forest], data: TrainingSet) -> float:
    context = data.context[: min(data.log.n, STABILITY_ROWS.value)]
    models = [forest.assign(context, len(context)) for forest in trees]
    same = np.all([m == models[0] for m in models], axis=0)
    return float(same.mean())
