"""estimate_propensities(): from a log without them to one with, flagged; and the same for a source
of any size.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import PropensityError
from counterrank.kernels.hashing import BUCKETS
from counterrank.log import RankingLog
from counterrank.policies import Policy
from counterrank.propensity_models.lists import by_list
from counterrank.propensity_models.model import PropensityModel, Recipe, fit_model, parse, refit
from counterrank.source import Source
from counterrank.sources import MemorySource, mapped

Ints = NDArray[np.int64]

#: Bootstrap replicates for the uncertainty that estimated propensities add.
REPLICATES = 20
#: Rows of a large log on which the model is fitted.
FITTED_ROWS = 100_000


def estimate_propensities(
    log: RankingLog, method: str = "auto", *, kind: str | None = None, seed: int = 0
) -> RankingLog:
    """Return the log with estimated propensities: cross-fitted, calibrated by position, and flagged
    in `notes`.

    `method`: "logistic" or "boosting" on the context, "frequency:COLUMNS" within groups of rows,
    "by-list:COLUMNS" for few different lists per group; "auto" is logistic. `kind` is that of the
    targets unless given.

    >>> rng = np.random.default_rng(0)
    >>> log = RankingLog(action=rng.integers(2, size=(500, 1)), reward=np.ones((500, 1)), propensity=np.ones((500, 1)))
    >>> estimated = estimate_propensities(log, kind="factored")
    >>> bool(np.abs(estimated.propensity.values - 0.5).max() < 0.1), estimated.notes[0][:20]
    (True, 'estimated-propensity')
    """
    name, columns = parse(method)
    if name == "by-list":
        return by_list(log, columns)
    return fit_model(
        log, _recipe(name, columns, kind or kind_of(log, tuple(log.targets)), seed)
    ).apply(log)


def estimated_source(
    source: Source,
    method: str,
    *,
    targets: Sequence[str],
    seed: int = 0,
    replicates: int = REPLICATES,
) -> tuple[Source, list[Source]]:
    """Return the source with estimated propensities, and bootstrap replicates of it.

    A replicate resamples the buckets of units (Poisson counts) and estimates the propensities anew
    on what it drew.
    """
    name, columns = parse(method)
    rng = np.random.default_rng([seed, 71])
    if name == "by-list":
        log = _in_memory(source)
        drawn = [resampled(log, rng.poisson(1.0, BUCKETS)) for _ in range(replicates)]
        return MemorySource(by_list(log, columns)), [
            MemorySource(by_list(one, columns)) for one in drawn
        ]
    sample = source.sample(FITTED_ROWS, rng)
    recipe = _recipe(name, columns, kind_of(sample, targets), seed)
    model = fit_model(sample, recipe)
    count = min(replicates, 5) if recipe.method == "boosting" else replicates
    others: list[Source] = []
    for counts in rng.poisson(1.0, (count, BUCKETS)):
        change = _Redrawn(refit(sample, model, recipe, counts.astype(np.float64)), counts)
        others.append(mapped(source, change))
    return mapped(source, model.apply), others


class _Redrawn:
    """Resampled rows with the propensities of a model refitted on the same draw."""

    def __init__(self, model: PropensityModel, counts: Ints) -> None:
        self.model, self.counts = model, counts

    def __call__(self, batch: RankingLog) -> RankingLog:
        return self.model.apply(resampled(batch, self.counts))


def resampled(log: RankingLog, counts: Ints) -> RankingLog:
    """Return each row as often as its bucket was drawn (once, for the first row of a batch that was
    not drawn).
    """
    rows = np.repeat(np.arange(log.n), counts[log.bucket])
    return log.take(rows if len(rows) else np.zeros(1, dtype=np.int64))


def kind_of(log: RankingLog, targets: Sequence[str]) -> str:
    """Return the kind of probability that the targets are given in, so that the estimated ones
    match.
    """
    kinds = {
        ("factored" if policy.factored else "prefix") if isinstance(policy, Policy) else policy.kind
        for policy in (log.target(name) for name in targets)
    }
    if len(kinds) > 1:
        raise PropensityError(
            f"targets are of different kinds ({', '.join(sorted(kinds))}); evaluate them one by one"
        )
    return kinds.pop() if kinds else "factored"


def _recipe(name: str, columns: tuple[str, ...], kind: str, seed: int) -> Recipe:
    return Recipe("logistic" if name == "auto" else name, columns, kind, seed)


def _in_memory(source: Source) -> RankingLog:
    if isinstance(source, MemorySource):
        return source.log
    raise PropensityError(
        "by-list counts lists in memory; read the log with read_log first, or use frequency:COLUMNS"
    )
