"""Estimation of propensities that were not logged, for logs in memory and for sources of any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import PropensityError
from counterrank.common.messages import ESTIMATED, Message
from counterrank.common.texts import in_percent
from counterrank.data.log import RankingLog
from counterrank.data.source import MemorySource, Source, mapped, reporter
from counterrank.kernels.hashing import BUCKETS
from counterrank.policies import Enumerated, Policy
from counterrank.propensity_models.choice import (
    CandidateModel,
    Choices,
    Tastes,
    known_features,
    with_candidates,
)
from counterrank.propensity_models.model import (
    CHOICE,
    PropensityModel,
    fit_model,
    group_keys,
    parse_method,
    refit,
    with_propensity,
)

#: Limit of the table of list frequencies, in numbers.
_MAX_TABLE = 50_000_000


def list_frequencies(log: RankingLog, columns: tuple[str, ...]) -> RankingLog:
    """Return the log whose propensity is the frequency of each list within rows of equal `columns`.

    With these propensities, the estimated value is the sum over lists of pi(list) times the mean
    reward of the rows that showed it. Lists that were never shown are missing from the sum, which
    makes the mean weight smaller than 1.
    """
    group = np.unique(group_keys(log, columns), return_inverse=True)[1].reshape(-1)
    rows, count = np.unique(np.column_stack([group, log.action]), axis=0, return_counts=True)
    sizes = np.bincount(rows[:, 0])
    # The index of each list within its group.
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    groups, longest = len(sizes), int(sizes.max())
    if groups * longest * log.K > _MAX_TABLE:
        raise PropensityError(
            f"{groups:,} contexts with up to {longest:,} lists are too many to tabulate; name "
            "fewer columns"
        )
    if longest == 1:
        named = f"equal {', '.join(columns)}" if columns else "the whole log"
        raise PropensityError(
            f"the logging policy is deterministic: rows of {named} always show one list, so no other "
            "can be compared. Name fewer or coarser columns if the same context saw different lists; "
            "else randomise a few percent of requests and log the probabilities, or run an A/B test"
        )
    rankings = np.full((groups, longest, log.K), -1, dtype=np.int64)
    rankings[rows[:, 0], place] = rows[:, 1:]
    probs = np.zeros((groups, longest))
    probs[rows[:, 0], place] = count
    probs /= probs.sum(axis=1, keepdims=True)
    policy = Enumerated(rankings, probs, group, n_actions=log.n_actions)
    # Good-Turing: the share of rows with a unique list estimates the probability of unseen lists.
    unseen = int((count == 1).sum()) / log.n
    note = Message(
        ESTIMATED,
        f"each list's frequency ({len(rows):,} lists in {groups:,} contexts) stands for its propensity; "
        f"about {in_percent(unseen)} of requests would show a list not seen here (Good-Turing), and "
        "choices that depended on more than these columns bias the result",
    )
    return with_propensity(log, policy, None, (note,))


#: Number of bootstrap replicates for the uncertainty of estimated propensities.
REPLICATES = 20
#: Maximum number of rows on which the model is fitted.
FITTED_ROWS = 100_000
#: Maximum number of features of candidates on which a choice model is fitted: 160 MB.
FITTED_NUMBERS = 20_000_000


def estimate_propensities(
    log: RankingLog, method: str = "auto", *, kind: str | None = None
) -> RankingLog:
    """Return the log with estimated propensities, cross-fitted, calibrated and flagged in `notes`.

    Parameters
    ----------
    log
        A log without propensities, or whose propensities should not be used.
    method
        "logistic" on the context; "by-list:COLUMNS", the frequency of each list, for logs with few
        different lists per group; "plackett-luce" on scores and features of candidates; or "auto",
        which is plackett-luce if candidates have scores or features, and otherwise logistic.
    kind
        The kind of probability, as in `Propensity`; by default that of the targets. Plackett-Luce
        gives a policy instead.

    Returns
    -------
    RankingLog
        The same rows with the estimated propensities.

    Raises
    ------
    PropensityError
        The logger is deterministic, or the log lacks the data that the method needs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> log = RankingLog(action=rng.integers(2, size=(500, 1)), reward=np.ones((500, 1)), propensity=np.ones((500, 1)))
    >>> estimated = estimate_propensities(log, kind="factored")
    >>> bool(np.abs(estimated.propensity.values - 0.5).max() < 0.1), estimated.notes[0][:20]
    (True, 'estimated-propensity')
    """
    name, columns = parse_method(method)
    if name == "by-list":
        return list_frequencies(log, columns)
    name = _choose_method(name, log)
    if name == CHOICE:
        return Choices(log).model.apply(log)
    return fit_model(log, kind or target_kind(log, tuple(log.targets))).apply(log)


def estimated_source(
    source: Source,
    method: str,
    *,
    targets: Sequence[str],
    seed: int = 0,
    replicates: int = REPLICATES,
) -> tuple[Source, list[Source]]:
    """Return the source with estimated propensities, and bootstrap replicates of it.

    A replicate resamples the buckets of units (Poisson counts) and refits the model on its sample.
    """
    name, columns = parse_method(method)
    rng = np.random.default_rng([seed, 71])
    if name == "by-list":
        if not isinstance(source, MemorySource):
            raise PropensityError(
                "by-list counts lists in memory; read the log with read_log first, or use logistic"
            )
        redrawn = (resampled(source.log, rng.poisson(1.0, BUCKETS)) for _ in range(replicates))
        logs = [MemorySource(list_frequencies(log, columns)) for log in (source.log, *redrawn)]
        return logs[0], list(logs[1:])
    name = _choose_method(name, source.first)
    # A separate random stream, because sources differ in how many numbers they draw.
    sample = source.sample(fitted_rows(source.first, name), np.random.default_rng([seed, 72]))
    model: PropensityModel | CandidateModel
    refit_model: Callable[[Floats], PropensityModel | CandidateModel]
    if name == CHOICE:
        choices = Choices(sample)
        model, refit_model = choices.model, choices.refit
    else:
        model = fit_model(sample, target_kind(sample, targets))
        refit_model = partial(refit, sample, model)
    replicas: list[Source] = []
    # A fit to long pages of many items takes seconds, so progress is reported.
    report = reporter()
    report.begin("bootstrap of propensities", replicates)
    for counts in rng.poisson(1.0, (replicates, BUCKETS)):
        drawn = mapped(source, partial(resampled, counts=counts))
        # The model is refitted on the same sample.
        replicas.append(mapped(drawn, refit_model(counts.astype(np.float64)).apply))
        report.advance(1)
    return mapped(source, model.apply), replicas


def fitted_rows(first: RankingLog, name: str) -> int:
    """Return the number of rows to fit on, which is smaller for many candidates and features."""
    first = with_candidates(first)
    if name != CHOICE or first.candidates is None or not known_features(first):
        return FITTED_ROWS
    numbers_per_row = float(first.candidates.counts.mean()) * Tastes.learn(first).width
    return int(min(FITTED_ROWS, max(FITTED_NUMBERS / numbers_per_row, 1)))


def resampled(log: RankingLog, counts: Ints) -> RankingLog:
    """Return the log with each row repeated by the count of its bucket; never an empty log."""
    rows = np.repeat(np.arange(log.n), counts[log.bucket])
    return log.take(rows if len(rows) else np.zeros(1, dtype=np.int64))


def target_kind(log: RankingLog, targets: Sequence[str]) -> str:
    """Return the kind of probability of the targets, which estimated propensities must have too."""
    kinds = {
        policy.propensity_kind if isinstance(policy, Policy) else policy.kind
        for policy in (log.target(name) for name in targets)
    }
    if len(kinds) > 1:
        raise PropensityError(
            f"targets are of different kinds ({', '.join(sorted(kinds))}); evaluate them one by one"
        )
    return kinds.pop() if kinds else "factored"


def _choose_method(name: str, log: RankingLog) -> str:
    """Return the method that "auto" stands for: the choice model if candidates have features."""
    if name != "auto":
        return name
    return CHOICE if known_features(log) else "logistic"
