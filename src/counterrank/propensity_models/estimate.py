"""estimate_propensities(): from a log without them to one with, flagged; and the same for a source of any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.data.source import MemorySource, Source, mapped, reporter
from counterrank.errors import PropensityError
from counterrank.kernels.hashing import BUCKETS
from counterrank.messages import ESTIMATED, Message
from counterrank.policies import Enumerated, Policy
from counterrank.propensity_models.choice import CandidateModel, Choices, Tastes, known_of, listed
from counterrank.propensity_models.model import (
    CHOICE,
    PropensityModel,
    fit_model,
    group_keys,
    parse,
    refit,
    with_propensity,
)
from counterrank.texts import in_percent

_TABULATED = 50_000_000


def by_list(log: RankingLog, columns: tuple[str, ...]) -> RankingLog:
    """Return the log whose policy is the frequency of each list within the rows of equal `columns`.

    The frequencies are of the same rows, so a value is sum over lists of pi(list) times the mean
    reward where it was shown; the target's probability of lists never shown is lost, and seen as a
    mean weight below 1.
    """
    group = np.unique(group_keys(log, columns), return_inverse=True)[1].reshape(-1)
    rows, count = np.unique(np.column_stack([group, log.action]), axis=0, return_counts=True)
    sizes = np.bincount(rows[:, 0])
    # The place of a list in its group.
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    groups, longest = len(sizes), int(sizes.max())
    if groups * longest * log.K > _TABULATED:
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
    # Good-Turing: the share of rows whose list occurred once estimates what was never seen.
    unseen = int((count == 1).sum()) / log.n
    note = Message(
        ESTIMATED,
        f"each list's frequency ({len(rows):,} lists in {groups:,} contexts) stands for its propensity; "
        f"about {in_percent(unseen)} of requests would show a list not seen here (Good-Turing), and "
        "choices that depended on more than these columns bias the result",
    )
    return with_propensity(log, policy, None, (note,))


#: Bootstrap replicates for the uncertainty that estimated propensities add.
REPLICATES = 20
#: Rows of a large log on which the model is fitted.
FITTED_ROWS = 100_000
#: Features of candidates, in all, on which a choice model is fitted: 160 MB.
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
        "logistic" on the context, "by-list:COLUMNS" for few different lists per group, "plackett-luce" on
        scores and features of candidates. "auto" is plackett-luce where there are such, else logistic.
    kind
        What the numbers are, as in `Propensity`; by default that of the targets. Plackett-Luce gives a
        whole policy.

    Returns
    -------
    RankingLog
        The same rows with the estimated propensities.

    Raises
    ------
    PropensityError
        The log shows no exploration, or has nothing to estimate from.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> log = RankingLog(action=rng.integers(2, size=(500, 1)), reward=np.ones((500, 1)), propensity=np.ones((500, 1)))
    >>> estimated = estimate_propensities(log, kind="factored")
    >>> bool(np.abs(estimated.propensity.values - 0.5).max() < 0.1), estimated.notes[0][:20]
    (True, 'estimated-propensity')
    """
    name, columns = parse(method)
    if name == "by-list":
        return by_list(log, columns)
    name = _resolved(name, log)
    if name == CHOICE:
        return Choices(log).model.apply(log)
    return fit_model(log, kind or kind_of(log, tuple(log.targets))).apply(log)


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
        if not isinstance(source, MemorySource):
            raise PropensityError(
                "by-list counts lists in memory; read the log with read_log first, or use logistic"
            )
        redrawn = (resampled(source.log, rng.poisson(1.0, BUCKETS)) for _ in range(replicates))
        logs = [MemorySource(by_list(log, columns)) for log in (source.log, *redrawn)]
        return logs[0], list(logs[1:])
    name = _resolved(name, source.first)
    # A stream of its own: sources differ in how much they draw, replicates must not.
    sample = source.sample(fitted_rows(source.first, name), np.random.default_rng([seed, 72]))
    model: PropensityModel | CandidateModel
    again: Callable[[Floats], PropensityModel | CandidateModel]
    if name == CHOICE:
        choices = Choices(sample)
        model, again = choices.model, choices.refit
    else:
        model = fit_model(sample, kind_of(sample, targets))
        again = partial(refit, sample, model)
    others: list[Source] = []
    # A fit to long pages of many items takes seconds, so progress is shown.
    report = reporter()
    report.begin("propensities, once more", replicates)
    for counts in rng.poisson(1.0, (replicates, BUCKETS)):
        drawn = mapped(source, partial(resampled, counts=counts))
        # The model is refitted on the same draw.
        others.append(mapped(drawn, again(counts.astype(np.float64)).apply))
        report.advance(1)
    return mapped(source, model.apply), others


def fitted_rows(first: RankingLog, name: str) -> int:
    """Return on how many rows per model is fitted: fewer where rows have many candidates and features."""
    first = listed(first)
    if name != CHOICE or first.candidates is None or not known_of(first):
        return FITTED_ROWS
    each = float(first.candidates.counts.mean()) * Tastes.learn(first).width
    return int(min(FITTED_ROWS, max(FITTED_NUMBERS / each, 1)))


def resampled(log: RankingLog, counts: Ints) -> RankingLog:
    """Return each row as often as its bucket was drawn (once, for the first row of a batch that was not drawn)."""
    rows = np.repeat(np.arange(log.n), counts[log.bucket])
    return log.take(rows if len(rows) else np.zeros(1, dtype=np.int64))


def kind_of(log: RankingLog, targets: Sequence[str]) -> str:
    """Return the kind of probability that the targets are given in, so that the estimated ones match."""
    kinds = {
        policy.propensity_kind if isinstance(policy, Policy) else policy.kind
        for policy in (log.target(name) for name in targets)
    }
    if len(kinds) > 1:
        raise PropensityError(
            f"targets are of different kinds ({', '.join(sorted(kinds))}); evaluate them one by one"
        )
    return kinds.pop() if kinds else "factored"


def _resolved(name: str, log: RankingLog) -> str:
    """Return the method behind "auto": by what is known of candidates, else a score per item."""
    if name != "auto":
        return name
    return CHOICE if known_of(log) else "logistic"
