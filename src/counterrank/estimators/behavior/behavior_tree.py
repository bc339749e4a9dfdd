"""BehaviorTree: which behaviour model each context gets, chosen to minimise an estimate of the MSE."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Floats, Ints
from counterrank.common.atomic import write_text
from counterrank.common.errors import BehaviorError, ConfigError
from counterrank.data.log import Probabilities, RankingLog
from counterrank.data.source import MemorySource, Source
from counterrank.estimators.behavior import words
from counterrank.estimators.behavior.estimates import DEFAULT, MODELS, mse_estimate
from counterrank.estimators.behavior.forest import Forest, assemble, load_candidates, read_json
from counterrank.estimators.behavior.growth import Grower, TreeRows
from counterrank.estimators.behavior.masks import SETS, Candidate, candidates
from counterrank.estimators.behavior.modelled import has_closed_form
from counterrank.estimators.behavior.objective import MSEEstimate
from counterrank.estimators.behavior.random_growth import PrintedGrower, PublishedGrower
from counterrank.estimators.behavior.settings import (
    BINNING_STREAM,
    MOST_REWARD,
    PARTITION_STREAM,
    SAMPLE_ROWS,
    SAMPLE_STREAM,
    TreeLimits,
)
from counterrank.estimators.behavior.training import (
    Position,
    TrainingSet,
    prepare,
)
from counterrank.estimators.weights.ratios import Ratios, ratios_of
from counterrank.models import RewardModel, fit_close, train

#: How a tree may be grown.
GROWTHS = ("exhaustive", "printed", "published")


@dataclass(frozen=True, eq=False, kw_only=True)
class BehaviorTree:
    """A tree that assigns a behaviour model to each context (Kiyohara et al. 2023, section 3.2 and Algorithm 1).

    `mse` names the objective or is one (docs/explanation/behavior.md). Every position has a tree of
    its own, as in the published runs. `growth` is "exhaustive" (every cut of every feature),
    "printed" (Algorithm 1: random partitions, strict acceptance) or "published" (the search of the
    authors' code).

    Parameters
    ----------
    candidates
        What a leaf may choose from: the name of a list, names, masks or candidates.
    mse
        The estimate of the error that the tree minimises: a name, or an `MSEEstimate`.
    limits
        Depth, leaves, rows of a leaf and bins.
    forest
        The trees, where they are fitted already.
    growth
        The search: "exhaustive", "printed" or "published".

    Examples
    --------
    >>> import counterrank as cr
    >>> half = np.full((100, 2), 0.5)
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=half)
    >>> tree = BehaviorTree(candidates=cr.candidates(2)).fit(log, half)
    >>> print(tree)
    behaviour tree, objective 'pairs', grown on 100 rankings
    position 1   100 %  S            ■ ■  0.5 ± 0.098        all rankings
    position 2   100 %  C            ■ ■  0.5 ± 0.098        all rankings
    """

    candidates: str | Sequence[str | ArrayLike | Candidate] = "default"
    mse: str | MSEEstimate = DEFAULT
    limits: TreeLimits = field(default_factory=TreeLimits)
    forest: Forest | None = None
    growth: str = "exhaustive"

    def __post_init__(self) -> None:
        if self.growth not in GROWTHS:
            raise ConfigError(f"growth is one of {', '.join(GROWTHS)}, not {self.growth!r}")

    def fit(
        self, log: RankingLog, target: str | Probabilities | ArrayLike, *, seed: int = 0
    ) -> Self:
        """Return the tree grown on all rows of a log in memory."""
        name = target if isinstance(target, str) else "target"
        full = log if isinstance(target, str) else log.with_targets({name: target})
        fitted = fit_source(MemorySource(full), name, seed=seed, tree=self, rows=full.n)
        return replace(self, mse=fitted.mse, forest=fitted.forest)

    def training_set(
        self, log: RankingLog, target: str, *, seed: int, close: Sequence[RewardModel] = ()
    ) -> TrainingSet:
        """Return what trees grow on; `close` are what the objective "models" holds them against."""
        ratios, models = ratios_of(log, target), self.candidates
        if isinstance(models, str) and models == "default" and ratios.kind != "factored":
            # Sets of positions that depend on each other have no product of ratios: their
            # probabilities take a hundred times as long, or are not known.
            models = ("S", "C", "I")
        if np.abs(log.reward).max(initial=0.0) > MOST_REWARD:
            raise BehaviorError(
                f"no tree can be grown: squares of rewards above {MOST_REWARD:.0e} overflow"
            )
        rng = np.random.default_rng([seed, BINNING_STREAM])
        return prepare(ratios, target, candidates(log.K, models), self.limits, rng, close)

    def grow(self, data: TrainingSet, *, n_apply: int, seed: int) -> Forest:
        """Return the forest grown on a training set."""
        estimate, trees = mse_estimate(self.mse), []
        for k, y in enumerate(data.y):
            objective = estimate.objective(Position(data, k, n_apply, seed))
            options = objective, self.limits, data.bins.most, data.bins.categorical
            rng = np.random.default_rng([seed, k, PARTITION_STREAM])
            growers = {"printed": PrintedGrower, "published": PublishedGrower}
            grower = (
                growers[self.growth](*options, rng=rng)
                if self.growth in growers
                else Grower(*options)
            )
            trees.append(grower.grow(TreeRows.from_objective(objective, y, data.codes)))
        return assemble(trees, data, mse=estimate.name, n_apply=n_apply)

    @property
    def fitted(self) -> Forest:
        """The forest, or a complaint that there is none yet."""
        if self.forest is None:
            raise BehaviorError(
                "this BehaviorTree is not fitted; call .fit(log, target) or BehaviorTree.load(path)"
            )
        return self.forest

    def assign(self, context: ArrayLike | None, n: int | None = None) -> Ints:
        """Return model indices (n, K)."""
        return self.fitted.assign(context, n)

    def weights(self, batch: RankingLog, ratios: Ratios) -> Floats:
        """Return importance weights (n, K) of a batch under its assigned models."""
        return self.fitted.weights(batch.context, ratios)

    def describe(self) -> words.ForestDescription:
        """Return groups, rules, models, estimates and feature importance."""
        return words.describe(self.fitted)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted tree to a JSON file."""
        write_text(path, json.dumps(self.fitted.to_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BehaviorTree:
        """Return the fitted tree in a JSON file, after checking it."""
        unread, broken = f"cannot read the behaviour tree {path}", f"{path} is not a behaviour tree"
        document = read_json(path, unread, broken)
        try:
            forest = Forest.from_dict(document)
        except ConfigError as problem:
            raise BehaviorError(f"{path} is not a valid behaviour tree: {problem}") from problem
        models = [model.candidate() for model in forest.candidates]
        return cls(candidates=models, mse=forest.mse, forest=forest)

    def __str__(self) -> str:
        return (
            f"BehaviorTree(mse={self.mse!r}, not fitted)"
            if self.forest is None
            else words.text(self.forest)
        )


def fit_source(
    source: Source,
    target: str,
    *,
    seed: int,
    tree: BehaviorTree | None = None,
    rows: int = SAMPLE_ROWS,
    models: Callable[[], Sequence[RewardModel]] | None = None,
) -> BehaviorTree:
    """Return the tree fitted to a sample of `rows` rankings; variances are those of the whole log.

    The rows that are averaged also choose the models. Weights have heavy tails, so the variance of a
    model depends on a few extreme rows of this very log. The interval allows for the choice
    (`Doubt`). `models` gives the closed-form models, where others have use for them too.
    """
    plan = BehaviorTree() if tree is None else tree
    # Before the models draw theirs: smaller samples of a file are drawn from the largest.
    log = source.sample(rows, np.random.default_rng([seed, SAMPLE_STREAM]))
    close: Sequence[RewardModel] = ()
    if mse_estimate(plan.mse).name == MODELS:
        close = closed_form(source, target, seed) if models is None else models()
        plan = plan if close else replace(plan, mse="pairs")
    data = plan.training_set(log, target, seed=seed, close=close)
    return replace(plan, forest=plan.grow(data, n_apply=source.n or log.n, seed=seed))


def closed_form(source: Source, target: str, seed: int) -> Sequence[RewardModel]:
    """Return the closed-form models that predict unseen rows about as well as the best, if the log allows any."""
    allowed = has_closed_form(ratios_of(source.first, target), target)
    training = train(source, seed=seed) if allowed else None
    return () if training is None else fit_close(training, seed=seed).models


def planned_tree(
    candidates: str | Sequence[str | ArrayLike | Candidate] | None,
    mse: str | MSEEstimate | None,
) -> BehaviorTree | None:
    """Return the tree that an evaluation's options ask for; None where they ask for nothing.

    `candidates` may be the name of a set, a file of models, or models.
    """
    if candidates is None and mse is None:
        return None
    plan = BehaviorTree()
    if isinstance(candidates, str) and candidates not in SETS:
        candidates = load_candidates(candidates)
    if candidates is not None:
        plan = replace(plan, candidates=candidates)
    # An unknown name is an error before anything is read.
    return plan if mse is None else replace(plan, mse=mse_estimate(mse))
