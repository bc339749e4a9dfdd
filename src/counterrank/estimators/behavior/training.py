"""The rows that trees of one log and target are grown on: binned contexts, and what each behaviour model contributes.

Contexts become small integers: quantile bins of numbers, codes of categories, 0 for missing.
Contributions are w r of every model the log supports; `tails` corrects their second moments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import BehaviorError
from counterrank.data.log import RankingLog
from counterrank.estimators.behavior import settings
from counterrank.estimators.behavior.masks import Candidate
from counterrank.estimators.behavior.modelled import Modelled, modelled_value
from counterrank.estimators.behavior.pairs import PairRows, excess, inflation, pair_rows
from counterrank.estimators.weights.ratios import Ratios, capability_of
from counterrank.models import RewardModel

Codes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Bins:
    """How each feature is binned: edges of numbers; for categories the code of each bin."""

    edges: tuple[Floats, ...]
    categorical: Bools  # (d,)

    @property
    def most(self) -> int:
        """The largest number of bins of a feature, the one for missing values included."""
        pairs = zip(self.edges, self.categorical, strict=True)
        return max((len(e) + (1 if cat else 2) for e, cat in pairs), default=1)

    def codes(self, context: Floats) -> Codes:
        """Return bin numbers (d, n): 0 missing, then 1, 2, ... in rising order."""
        out = np.empty(context.shape[::-1], dtype=np.uint8)
        for f, edges in enumerate(self.edges):
            place, valid = np.searchsorted(edges, context[:, f]), ~np.isnan(context[:, f])
            if self.categorical[f]:
                valid = edges[np.minimum(place, len(edges) - 1)] == context[:, f]
            out[f] = np.where(valid, place + 1, 0)
        return out


def make_bins(context: Floats, categorical: Bools, *, limit: int, rng: np.random.Generator) -> Bins:
    """Return quantile bins (at most `limit` a feature); of categories the most frequent, the rest count as missing.

    >>> make_bins(np.array([[1.0], [2.0], [4.0], [8.0], [np.nan]]), np.array([False]), limit=2,
    ...           rng=np.random.default_rng(0)).edges[0].tolist()
    [3.0]
    """
    if len(context) > settings.QUANTILE_ROWS:
        context = context[rng.choice(len(context), size=settings.QUANTILE_ROWS, replace=False)]
    edges = []
    for f in range(context.shape[1]):
        values = context[:, f]
        values = values[~np.isnan(values)]
        if not categorical[f]:
            edges.append(_quantile_edges(values, limit))
            continue
        categories, count = np.unique(values, return_counts=True)
        common = np.sort(categories[np.argsort(-count, kind="stable")[:limit]])
        # One code where every value is missing: `codes` compares each value with a neighbour.
        edges.append(common if len(common) else np.zeros(1))
    return Bins(tuple(edges), categorical)


def _quantile_edges(values: Floats, limit: int) -> Floats:
    """Return increasing edges between values that occur, so that no value lies on an edge by accident."""
    quantile_ranks = (np.arange(1, limit) * len(values)) // limit
    ordered = np.sort(values)
    rises = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1  # where a new value begins
    if len(rises) >= limit:
        # A quantile in the middle of a value repeated many times is moved to where the next value
        # begins.
        rises = np.unique(rises[np.minimum(np.searchsorted(rises, quantile_ranks), len(rises) - 1)])
    return (ordered[rises - 1] + ordered[rises]) / 2


def supported(
    requested: "list[Candidate]", ratios: Ratios
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Return the candidates that the log's propensities can weigh, and a note about the others."""
    good = [c for c in requested if capability_of(c.mask) in ratios.supports]
    if not good:
        raise BehaviorError(
            f"'{ratios.kind}' propensities support none of the candidates "
            f"{', '.join(c.name for c in requested)}; add S (whole ranking), C (items above) or I "
            "(own item), whichever the propensities describe"
        )
    dropped = [c.name for c in requested if c not in good]
    note = (
        f"candidates: '{ratios.kind}' propensities cannot give weights for "
        f"{', '.join(dropped)}; left out"
    )
    return tuple(good), ((note,) if dropped else ())


def models_of(candidates: Sequence[Candidate]) -> list[Ints]:
    """Return the numbers (M,) of the candidates at each position; those that coincide there are one."""
    masks = np.stack([c.mask for c in candidates])  # (M, K, K)
    total, by_position = masks.sum(axis=(1, 2)), []
    for k in range(masks.shape[1]):
        first: dict[bytes, int] = {}
        for m, row in enumerate(masks[:, k]):
            key = row.tobytes()
            # C and I are one model at the first position: it goes by the simpler name.
            if key not in first or total[m] < total[first[key]]:
                first[key] = m
        by_position.append(np.array(list(first.values()), dtype=np.int64))
    return by_position


def contributions(
    ratios: Ratios, candidates: Sequence[Candidate], models: Sequence[Ints]
) -> tuple[list[Floats], Floats]:
    """Return w r of the models at each position, (n, M) each, and the mean of w^2 (K, candidates)."""
    log = ratios.batch
    # Position by position and model by model in memory: a column is made of what is still in the cache.
    out = [np.empty((len(numbers), log.n)) for numbers in models]
    squares = np.empty((log.K, len(candidates)))
    masks = np.stack([candidate.mask for candidate in candidates])
    for k, numbers in enumerate(models):
        reward = np.ascontiguousarray(log.reward[:, k])
        # Candidates that coincide here are one model.
        square_of: dict[bytes, float] = {}
        for m, w in zip(numbers, out[k], strict=True):
            ratios.fill(masks[m], k, w)
            with np.errstate(over="ignore"):  # told below
                square_of[masks[m, k].tobytes()] = float(w @ w) / log.n
            w *= reward
        squares[k] = [square_of[row.tobytes()] for row in masks[:, k]]
    if not np.isfinite(squares).all():
        k = int(np.argmax(~np.isfinite(squares).all(axis=1)))
        raise BehaviorError(
            f"no tree can be grown: squares of the weights at position {k + 1} overflow. Look for "
            "logging propensities near zero"
        )
    return [table.T for table in out], squares


@dataclass(slots=True, kw_only=True)
class TrainingSet:
    """Binned contexts and contributions of the rows in memory.

    `y` are contributions of the models at each position; the values from pairs stand beside them.
    """

    log: RankingLog
    candidates: tuple[Candidate, ...]
    models: list[Ints]  # the numbers of the candidates at each position
    bins: Bins
    codes: Codes  # (d, n)
    y: list[Floats]  # of each position (n, M)
    pairs: PairRows
    triples: float  # the trust in effects of triples
    pair_values: Floats  # (K,) the values from pairs
    tails: Floats  # (K, M)
    ratios: Ratios
    notes: tuple[str, ...] = ()
    modelled: Modelled | None = None  # the value by a reward model
    #: What MSE estimates computed once for all positions.
    shared: dict[str, Any] = field(default_factory=dict)

    @property
    def with_missing(self) -> tuple[str, ...]:
        """Names of the context columns that have missing values."""
        gaps = (self.codes == 0).any(axis=1)
        return tuple(name for name, gap in zip(self.log.context_names, gaps, strict=True) if gap)


@dataclass(frozen=True, slots=True)
class Position:
    """One position as an MSE estimate sees it: the rows of a training set, and what is known about M models.

    The estimate will be of `n_apply` rows.
    """

    data: TrainingSet
    index: int
    n_apply: int
    seed: int = 0

    @property
    def contrast(self) -> tuple[int, int]:
        """The models with the most items, the reference for bias, and with the fewest."""
        masks = [self.data.candidates[m].mask for m in self.data.models[self.index]]
        by_size = np.argsort([-mask[self.index].sum() for mask in masks], kind="stable")
        return int(by_size[0]), int(by_size[-1])

    @property
    def tails(self) -> Floats:
        """Factors (M,) by which the log understates second moments."""
        factors: Floats = self.data.tails[self.index, self.data.models[self.index]]
        return factors

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.data.models[self.index])

    @property
    def n_grow(self) -> int:
        """Rows that the tree is grown on."""
        return self.data.log.n

    @property
    def y(self) -> Floats:
        """Contributions (n, M)."""
        return self.data.y[self.index]


def prepare(
    ratios: Ratios,
    target: str,
    requested: list[Candidate],
    limits: settings.TreeLimits,
    rng: np.random.Generator,
    models: Sequence[RewardModel] = (),
) -> TrainingSet:
    """Return binned contexts and contributions of a log, by the candidates that its propensities can weigh."""
    log, (candidates, notes) = ratios.batch, supported(requested, ratios)
    context = np.empty((log.n, 0)) if log.context is None else log.context
    categorical = np.array([name in log.categories for name in log.context_names], dtype=bool)
    bins = make_bins(context, categorical, limit=limits.bins_for(log.n), rng=rng)
    numbers = models_of(candidates)
    y, squares = contributions(ratios, candidates, numbers)
    v = excess(log, target, ratios)
    pairs = pair_rows(ratios, v)
    trust, triples = pairs.shares()
    return TrainingSet(
        log=log,
        candidates=candidates,
        models=numbers,
        bins=bins,
        codes=bins.codes(context),
        y=y,
        pairs=pairs,
        triples=triples,
        pair_values=pairs.values(trust, triples),
        tails=inflation(v, candidates, squares),
        ratios=ratios,
        notes=notes,
        modelled=modelled_value(models, ratios, target) if models else None,
    )
