"""BehaviorTree: which behaviour model each context gets, chosen to minimise an estimate of the MSE."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.behavior.candidates import Candidate, candidates
from counterrank.behavior.tree.assemble import assemble
from counterrank.behavior.tree.forest import Forest, weights_by_choice
from counterrank.behavior.tree.grower import Grower
from counterrank.behavior.tree.ground import Ground, prepare
from counterrank.behavior.tree.limits import Limits
from counterrank.behavior.tree.local import grow
from counterrank.behavior.tree.objective import MSEEstimate
from counterrank.behavior.tree.plant import supported
from counterrank.errors import BehaviorError
from counterrank.log import Probabilities, RankingLog
from counterrank.ratios import Ratios, ratios_of
from counterrank.selection.mse import registry

if TYPE_CHECKING:
    from rich.console import RenderableType

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class BehaviorTree:
    """A tree that assigns a behaviour model to each context (Kiyohara et al. 2023, section 3.2 and Algorithm 1).

    `mse` names the objective or is one (`docs/mse-estimates.md`); `per_position` grows one tree for each position,
    the published form, otherwise one c(x) serves all. Fitting on a log and estimating on the same rows is
    optimistic: `AIPS(behavior="fit")` fits on some units and applies to the others.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=np.full((100, 2), .5))
    >>> tree = BehaviorTree(candidates=candidates(2)).fit(log, np.full((100, 2), .5))
    >>> tree.assign(None, n=2).tolist()
    [[0, 0], [0, 0]]
    """

    candidates: Sequence[Candidate] | None = None
    mse: str | MSEEstimate = registry.DEFAULT
    per_position: bool = True
    limits: Limits = field(default_factory=Limits)
    forest: Forest | None = None

    def fit(self, log: RankingLog, target: "str | Probabilities | ArrayLike", *, seed: int = 0) -> Self:
        """Return the tree grown on all rows of a log in memory."""
        name = target if isinstance(target, str) else "target"
        full = log if isinstance(target, str) else log.with_targets({name: target})
        ground, notes = self.ground(full, name, seed=seed)
        rows = ground.is_logged() > 0
        return replace(self, forest=self.grow(ground, rows, n_apply=full.n, seed=seed, notes=notes))

    def ground(self, log: RankingLog, target: str, *, seed: int) -> tuple[Ground, tuple[str, ...]]:
        """Return what trees grow on, and notes about candidates that had to be left out."""
        wanted = list(candidates(log.K) if self.candidates is None else self.candidates)
        usable, notes = supported(wanted, ratios_of(log.take(slice(0, 1)), target))
        ground = prepare(
            log,
            target,
            usable,
            self.limits,
            per_position=self.per_position,
            rng=np.random.default_rng([seed, 31]),
            fresh=getattr(registry.get(self.mse), "sample", None),
        )
        return ground, notes

    def grow(self, ground: Ground, rows: Bools, *, n_apply: int, seed: int, notes: tuple[str, ...] = ()) -> Forest:
        """Return the forest grown on the chosen rows (n,) of the ground."""
        estimate = registry.get(self.mse)
        growers = []
        for slot in range(len(ground.slots)):
            position = ground.position(slot, rows, n_apply=n_apply, seed=seed)
            objective = estimate.objective(position)
            grower = Grower(objective, self.limits, ground.bins.counts, ground.bins.categorical)
            assert position.y is not None
            stats = ground.statistics(slot, objective, position.y)
            everywhere = rows | (ground.is_logged() == 0)
            grow(grower, stats, ground.codes, everywhere)
            growers.append(grower)
        return assemble(
            growers,
            ground.slots,
            ground.bins,
            candidates=ground.candidates,
            names=ground.log.context_names,
            categories=ground.log.categories,
            mse=estimate.name,
            notes=notes,
        )

    @property
    def fitted(self) -> Forest:
        """The forest, or a complaint that there is none yet."""
        if self.forest is None:
            raise BehaviorError("this BehaviorTree is not fitted; call .fit(log, target) or BehaviorTree.load(path)")
        return self.forest

    def assign(self, context: "ArrayLike | None", n: int | None = None) -> Ints:
        """Return model indices (n, K), or (n,) when one model serves all positions."""
        return self.fitted.assign(context, n)

    def weights(self, batch: RankingLog, ratios: Ratios) -> Floats:
        """Return importance weights (n, K) of a batch under its assigned models."""
        return forest_weights(self.fitted, batch, ratios)


def forest_weights(forest: Forest, batch: RankingLog, ratios: Ratios) -> Floats:
    """Return importance weights (n, K) of a batch under the models a forest assigns."""
    choice = forest.assign(batch.context, batch.n)
    full = choice if choice.ndim == 2 else np.repeat(choice[:, None], batch.K, axis=1)
    return weights_by_choice(forest.candidates, full, ratios)
